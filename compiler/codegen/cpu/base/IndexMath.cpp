// Builds arith operations through createOrFold, so that static shapes leave no arithmetic behind.
#include "compiler/codegen/cpu/base/IndexMath.h"

#include "compiler/codegen/common/lower/Reduce.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {

Value IndexMath::constant(int64_t value) const {
  return arith::ConstantIndexOp::create(builder, location, value);
}

Value IndexMath::add(Value a, Value b) const {
  return builder.createOrFold<arith::AddIOp>(location, a, b);
}

Value IndexMath::sub(Value a, Value b) const {
  return builder.createOrFold<arith::SubIOp>(location, a, b);
}

Value IndexMath::mul(Value a, Value b) const {
  return builder.createOrFold<arith::MulIOp>(location, a, b);
}

Value IndexMath::div(Value a, Value b) const {
  return builder.createOrFold<arith::DivUIOp>(location, a, b);
}

Value IndexMath::rem(Value a, Value b) const {
  return builder.createOrFold<arith::RemUIOp>(location, a, b);
}

Value IndexMath::min(Value a, Value b) const {
  return builder.createOrFold<arith::MinSIOp>(location, a, b);
}

Value IndexMath::max(Value a, Value b) const {
  return builder.createOrFold<arith::MaxSIOp>(location, a, b);
}

Value IndexMath::isLess(Value a, Value b) const {
  return builder.createOrFold<arith::CmpIOp>(location, arith::CmpIPredicate::slt, a, b);
}

Value IndexMath::toI64(Value index) const {
  return builder.createOrFold<arith::IndexCastOp>(location, builder.getI64Type(), index);
}

Value IndexMath::size(const KernelBuilder &kernel, AffineExpr expression) const {
  SmallVector<OpFoldResult> symbols(kernel.symbols.begin(), kernel.symbols.end());
  AffineMap map = AffineMap::get(0, symbols.size(), expression);
  return getValueOrCreateConstantIndexOp(
      builder, location, affine::makeComposedFoldedAffineApply(builder, location, map, symbols));
}

Value IndexMath::pointer(Value buffer, Value element) const {
  Type type = LLVM::LLVMPointerType::get(builder.getContext());
  Value start = memref::ExtractAlignedPointerAsIndexOp::create(builder, location, buffer);
  Value base = LLVM::IntToPtrOp::create(builder, location, type, toI64(start));
  return offset(base, element);
}

Value IndexMath::elementPointer(Value buffer, Value element) const {
  Type stored = builder.getIntegerType(cast<MemRefType>(buffer.getType()).getElementTypeBitWidth());
  Value start = pointer(buffer, constant(0));
  return LLVM::GEPOp::create(builder, location, start.getType(), stored, start,
                             ArrayRef<LLVM::GEPArg>{toI64(element)});
}

Value IndexMath::offset(Value pointer, Value elements) const {
  return LLVM::GEPOp::create(builder, location, pointer.getType(), builder.getF32Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{toI64(elements)});
}

Value IndexMath::view(Value buffer, ArrayRef<Value> offsets, ArrayRef<Value> sizes) const {
  SmallVector<OpFoldResult> strides(offsets.size(), builder.getIndexAttr(1));
  return memref::SubViewOp::create(builder, location, buffer,
                                   getAsOpFoldResult(ValueRange(offsets)),
                                   getAsOpFoldResult(ValueRange(sizes)), strides);
}

Value IndexMath::asRows(Value buffer) const {
  int64_t rank = cast<MemRefType>(buffer.getType()).getRank();
  if (rank == 2) {
    return buffer;
  }
  SmallVector<ReassociationIndices> groups(2);
  for (int64_t i = 0; i < rank; ++i) {
    groups[i + 1 == rank].push_back(i);
  }
  return memref::CollapseShapeOp::create(builder, location, buffer, groups);
}

Value IndexMath::asLine(Value buffer) const {
  int64_t rank = cast<MemRefType>(buffer.getType()).getRank();
  if (rank == 1) {
    return buffer;
  }
  SmallVector<ReassociationIndices> all = {llvm::to_vector(llvm::seq<int64_t>(0, rank))};
  return memref::CollapseShapeOp::create(builder, location, buffer, all);
}

void forEach(const IndexMath &math, Value from, Value to, int64_t step,
             llvm::function_ref<void(const IndexMath &, Value)> body) {
  scf::ForOp::create(math.builder, math.location, from, to, math.constant(step), ValueRange(),
                     [&](OpBuilder &inner, Location location, Value index, ValueRange) {
                       body(IndexMath(inner, location), index);
                       scf::YieldOp::create(inner, location);
                     });
}

/// The lanes below `active`.
static Value maskOf(const IndexMath &math, VectorType vector, Value active) {
  VectorType flags = VectorType::get(vector.getShape(), math.builder.getI1Type());
  return vector::CreateMaskOp::create(math.builder, math.location, flags, active);
}

Value loadLanes(const IndexMath &math, VectorType wide, Value buffer, ValueRange place,
                Value active) {
  OpBuilder &b = math.builder;
  Type element = cast<MemRefType>(buffer.getType()).getElementType();
  VectorType stored = VectorType::get(wide.getShape(), element);
  Value vector;
  if (active) {
    Value zero = arith::ConstantOp::create(b, math.location, b.getZeroAttr(stored));
    vector = vector::MaskedLoadOp::create(b, math.location, stored, buffer, place,
                                          maskOf(math, stored, active), zero);
  } else {
    vector = vector::LoadOp::create(b, math.location, stored, buffer, place);
  }
  return stored == wide ? vector
                        : arith::ExtFOp::create(b, math.location, wide, vector).getResult();
}

Value combineLanes(OpBuilder &builder, Location location, Value vector,
                   llvm::function_ref<Value(Value, Value)> combine) {
  for (int64_t lanes = cast<VectorType>(vector.getType()).getDimSize(0); lanes > 1; lanes /= 2) {
    auto half = [&](int64_t first) {
      SmallVector<int64_t> picked = llvm::to_vector(llvm::seq(first, first + lanes / 2));
      return vector::ShuffleOp::create(builder, location, vector, vector, picked).getResult();
    };
    vector = combine(half(0), half(lanes / 2));
  }
  return vector::ExtractOp::create(builder, location, vector, 0);
}

void storeLanes(const IndexMath &math, Value vector, Value buffer, ValueRange place, Value active) {
  VectorType stored = VectorType::get(cast<VectorType>(vector.getType()).getShape(),
                                      cast<MemRefType>(buffer.getType()).getElementType());
  Value elements = narrow(math.builder, math.location, vector, stored);
  if (active) {
    vector::MaskedStoreOp::create(math.builder, math.location, buffer, place,
                                  maskOf(math, stored, active), elements);
  } else {
    vector::StoreOp::create(math.builder, math.location, elements, buffer, place);
  }
}

void callSupport(const IndexMath &math, func::FuncOp kernel, StringRef name, ValueRange arguments) {
  ModuleOp module = kernel->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(name)) {
    OpBuilder top = OpBuilder::atBlockBegin(module.getBody());
    func::FuncOp declared = func::FuncOp::create(top, math.location, name,
                                                 top.getFunctionType(TypeRange(arguments), {}));
    declared.setPrivate();
  }
  func::CallOp::create(math.builder, math.location, name, TypeRange(), arguments);
}

void copyElements(const IndexMath &math, Value from, Value to, AffineMap map) {
  OpBuilder &builder = math.builder;
  int64_t rank = cast<MemRefType>(to.getType()).getRank();
  SmallVector<AffineMap> maps = {map, builder.getMultiDimIdentityMap(rank)};
  SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
  linalg::GenericOp::create(builder, math.location, ValueRange{from}, ValueRange{to}, maps, loops,
                            [](OpBuilder &body, Location location, ValueRange elements) {
                              Value element = elements[0];
                              if (element.getType() != elements[1].getType()) {
                                element = arith::ExtFOp::create(body, location,
                                                                elements[1].getType(), element);
                              }
                              linalg::YieldOp::create(body, location, element);
                            });
}

void clear(const IndexMath &math, Value to) {
  OpBuilder &builder = math.builder;
  int64_t rank = cast<MemRefType>(to.getType()).getRank();
  Type element = cast<MemRefType>(to.getType()).getElementType();
  Value zero = arith::ConstantOp::create(builder, math.location, builder.getZeroAttr(element));
  SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
  linalg::GenericOp::create(builder, math.location, ValueRange{}, ValueRange{to},
                            ArrayRef<AffineMap>{builder.getMultiDimIdentityMap(rank)}, loops,
                            [&](OpBuilder &body, Location location, ValueRange) {
                              linalg::YieldOp::create(body, location, zero);
                            });
}

} // namespace tenon::codegen::cpu
