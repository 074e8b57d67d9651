// Builds the frame of a kernel. Relies on the LLVM dialect's descriptor of a memref of rank 0 for
// the way from a pointer to a memref.
#include "compiler/codegen/cpu/base/KernelBuilder.h"

#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/graph/Invariance.h"
#include "compiler/graph/Shape.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Positions of the ABI's arguments.
enum Argument { kContext, kBuffers, kSizes, kBegin, kEnd };

Value loadElement(OpBuilder &builder, Location location, Value array, unsigned index, Type type) {
  LLVM::LLVMPointerType pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Value address = LLVM::GEPOp::create(builder, location, pointer, type, array,
                                      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
  return LLVM::LoadOp::create(builder, location, type, address, /*alignment=*/0,
                              /*isVolatile=*/false, /*isNonTemporal=*/false, /*isInvariant=*/true);
}

} // namespace

Value memrefAt(OpBuilder &builder, Location location, Value pointer, Type element,
               ArrayRef<OpFoldResult> sizes) {
  MLIRContext *context = builder.getContext();
  Type pointerType = LLVM::LLVMPointerType::get(context);
  LLVM::LLVMStructType descriptorType =
      LLVM::LLVMStructType::getLiteral(context, {pointerType, pointerType, builder.getI64Type()});
  Value descriptor = LLVM::PoisonOp::create(builder, location, descriptorType);
  Value zero = LLVM::ConstantOp::create(builder, location, builder.getI64Type(),
                                        builder.getI64IntegerAttr(0));
  descriptor =
      LLVM::InsertValueOp::create(builder, location, descriptor, pointer, ArrayRef<int64_t>{0});
  descriptor =
      LLVM::InsertValueOp::create(builder, location, descriptor, pointer, ArrayRef<int64_t>{1});
  descriptor =
      LLVM::InsertValueOp::create(builder, location, descriptor, zero, ArrayRef<int64_t>{2});
  Value base = UnrealizedConversionCastOp::create(builder, location, MemRefType::get({}, element),
                                                  descriptor)
                   .getResult(0);

  // Strides from the last dim outwards; folded while they are constant.
  SmallVector<OpFoldResult> strides(sizes.size());
  OpFoldResult stride = builder.getIndexAttr(1);
  AffineExpr product = builder.getAffineSymbolExpr(0) * builder.getAffineSymbolExpr(1);
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride = affine::makeComposedFoldedAffineApply(builder, location, product, {stride, sizes[i]});
  }
  SmallVector<int64_t> shape;
  for (OpFoldResult size : sizes) {
    shape.push_back(getConstantIntValue(size).value_or(ShapedType::kDynamic));
  }
  return memref::ReinterpretCastOp::create(builder, location, MemRefType::get(shape, element), base,
                                           builder.getIndexAttr(0), sizes, strides);
}

Value loadSymbol(OpBuilder &builder, func::FuncOp kernel, unsigned symbol) {
  Location location = kernel.getLoc();
  Value size =
      loadElement(builder, location, kernel.getArgument(kSizes), symbol, builder.getI64Type());
  return arith::IndexCastOp::create(builder, location, builder.getIndexType(), size);
}

KernelBuilder::KernelBuilder(ModuleOp module, StringRef symbol, func::FuncOp source)
    : builder(module.getContext()), location(builder.getUnknownLoc()) {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type(), i32 = builder.getI32Type();
  builder.setInsertionPointToEnd(module.getBody());
  kernel =
      func::FuncOp::create(builder, location, symbol,
                           builder.getFunctionType({pointer, pointer, pointer, i64, i64}, {i32}));
  if (tn::isInvariant(source)) {
    kernel->setAttr(tn::kInvariant, builder.getUnitAttr());
  }
  Block *entry = kernel.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  Value ok = arith::ConstantOp::create(builder, location, builder.getI32IntegerAttr(0));
  func::ReturnOp exit = func::ReturnOp::create(builder, location, ok);
  builder.setInsertionPoint(exit);

  Type indexType = builder.getIndexType();
  tn::SymbolList declared(source->getParentOfType<ModuleOp>());
  for (unsigned i = 0; i < declared.symbols().size(); ++i) {
    symbols.push_back(loadSymbol(builder, kernel, i));
  }
  begin = arith::IndexCastOp::create(builder, location, indexType, entry->getArgument(kBegin));
  end = arith::IndexCastOp::create(builder, location, indexType, entry->getArgument(kEnd));
  unsigned position = 0;
  for (Type type : source.getArgumentTypes()) {
    inputs.push_back(buffer(position++, type));
  }
  for (Type type : source.getResultTypes()) {
    outputs.push_back(buffer(position++, type));
  }
}

Value KernelBuilder::buffer(unsigned position, Type tensor) {
  Type pointerType = LLVM::LLVMPointerType::get(builder.getContext());
  Value pointer =
      loadElement(builder, location, kernel.getArgument(kBuffers), position, pointerType);
  SmallVector<OpFoldResult> sizes, operands(symbols.begin(), symbols.end());
  for (AffineExpr dim : tn::getDims(tensor)) {
    sizes.push_back(affine::makeComposedFoldedAffineApply(
        builder, location, AffineMap::get(0, symbols.size(), dim), operands));
  }
  return memrefAt(builder, location, pointer, storageType(getElementTypeOrSelf(tensor)), sizes);
}

namespace {

/// The number of the region's symbol that a value loads, if it does.
std::optional<unsigned> loadedSymbol(arith::IndexCastOp cast) {
  LLVM::LoadOp load = cast.getIn().getDefiningOp<LLVM::LoadOp>();
  if (!load) {
    return std::nullopt;
  }
  Value address = load.getAddr();
  unsigned index = 0;
  if (LLVM::GEPOp gep = address.getDefiningOp<LLVM::GEPOp>()) {
    ArrayRef<int32_t> constants = gep.getRawConstantIndices();
    if (constants.size() != 1 || constants[0] < 0) {
      return std::nullopt;
    }
    index = constants[0];
    address = gep.getBase();
  }
  BlockArgument argument = dyn_cast<BlockArgument>(address);
  if (!argument || argument.getArgNumber() != kSizes) {
    return std::nullopt;
  }
  return index;
}

AffineExpr symbolicApply(AffineMap map, ValueRange operands, unsigned result) {
  SmallVector<AffineExpr> dims, symbols;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    AffineExpr value = symbolicValue(operand);
    bool isUsed = i < map.getNumDims()
                      ? map.getResult(result).isFunctionOfDim(i)
                      : map.getResult(result).isFunctionOfSymbol(i - map.getNumDims());
    if (!value && isUsed) {
      return {};
    }
    AffineExpr unused = getAffineConstantExpr(0, map.getContext());
    (i < map.getNumDims() ? dims : symbols).push_back(value ? value : unused);
  }
  return map.getResult(result).replaceDimsAndSymbols(dims, symbols);
}

/// The size of a dim of a buffer, which stands where the buffer was made.
AffineExpr symbolicDim(memref::DimOp dim) {
  memref::ReinterpretCastOp buffer = dim.getSource().getDefiningOp<memref::ReinterpretCastOp>();
  std::optional<int64_t> index = dim.getConstantIndex();
  if (!buffer || !index) {
    return {};
  }
  OpFoldResult size = buffer.getMixedSizes()[*index];
  if (std::optional<int64_t> constant = getConstantIntValue(size)) {
    return getAffineConstantExpr(*constant, dim.getContext());
  }
  return symbolicValue(cast<Value>(size));
}

AffineExpr symbolicBinary(Operation *op) {
  AffineExpr a = symbolicValue(op->getOperand(0)), b = symbolicValue(op->getOperand(1));
  if (isa<arith::MinSIOp>(op)) {
    return a ? a : b;
  }
  if (!a || !b) {
    return {};
  }
  if (isa<arith::AddIOp>(op)) {
    return a + b;
  }
  if (isa<arith::SubIOp>(op)) {
    return a - b;
  }
  if (isa<arith::MulIOp>(op)) {
    return a * b;
  }
  return {};
}

} // namespace

AffineExpr symbolicValue(Value index) {
  MLIRContext *context = index.getContext();
  if (std::optional<int64_t> constant = getConstantIntValue(index)) {
    return getAffineConstantExpr(*constant, context);
  }
  Operation *op = index.getDefiningOp();
  if (!op) {
    return {};
  }
  if (arith::IndexCastOp cast = dyn_cast<arith::IndexCastOp>(op)) {
    std::optional<unsigned> symbol = loadedSymbol(cast);
    return symbol ? getAffineSymbolExpr(*symbol, context) : AffineExpr();
  }
  if (affine::AffineApplyOp apply = dyn_cast<affine::AffineApplyOp>(op)) {
    return symbolicApply(apply.getAffineMap(), apply.getMapOperands(), 0);
  }
  if (affine::AffineMinOp minimum = dyn_cast<affine::AffineMinOp>(op)) {
    for (unsigned i = 0; i < minimum.getAffineMap().getNumResults(); ++i) {
      if (AffineExpr bound = symbolicApply(minimum.getAffineMap(), minimum.getOperands(), i)) {
        return bound;
      }
    }
    return {};
  }
  if (memref::DimOp dim = dyn_cast<memref::DimOp>(op)) {
    return symbolicDim(dim);
  }
  return op->getNumOperands() == 2 ? symbolicBinary(op) : AffineExpr();
}

} // namespace tenon::codegen::cpu
