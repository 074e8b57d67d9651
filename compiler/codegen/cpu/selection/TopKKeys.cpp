// Keys of a row's elements, and the way of what was selected into the results.
#include "compiler/codegen/cpu/selection/TopKKeys.h"

#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cpu {

KeyedTopK::KeyedTopK(KernelBuilder &kernel, tn::TopKOp op, engine::CpuLevel level)
    : kernel(kernel), isLargest(op.getLargest()), values(op.getValues()), indices(op.getIndices()),
      lanes(floatLanes(level)), element(getElementTypeOrSelf(op.getX())),
      storage(storageType(element)), dims(tn::getDims(op.getX().getType())),
      kept(tn::getDims(op.getValues().getType())) {
  MLIRContext *context = op.getContext();
  size_t axis = op.getAxis();
  outer = tn::elementCount(context, ArrayRef<AffineExpr>(dims).take_front(axis));
  inner = tn::elementCount(context, ArrayRef<AffineExpr>(dims).drop_front(axis + 1));
  std::optional<int64_t> size = tn::constantDim(dims[axis]);
  bool isShort = size && *size <= std::numeric_limits<int32_t>::max();
  placeType = isShort ? kernel.builder.getI32Type() : kernel.builder.getI64Type();
  IndexMath math(kernel.builder, kernel.location);
  length = math.size(kernel, dims[axis]);
  wanted = math.size(kernel, kept[axis]);
  columns = math.size(kernel, inner);
  keys = allocate(kernel, {length}, kernel.builder.getI32Type());
}

Value KeyedTopK::number(const IndexMath &math, int64_t value) const {
  return arith::ConstantOp::create(math.builder, math.location,
                                   math.builder.getI32IntegerAttr(value));
}

Value KeyedTopK::placeNumber(const IndexMath &math, Value place) const {
  return math.builder.createOrFold<arith::IndexCastOp>(math.location, placeType, place);
}

/// Signed order; NaN is larger than every number, and both zeros are one.
Value KeyedTopK::keyOf(OpBuilder &b, Location location, Value stored) const {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, location, b.getI32IntegerAttr(value));
  };
  Value key = widen(b, location, stored);
  if (isa<FloatType>(key.getType())) {
    Value zero = arith::ConstantOp::create(b, location, b.getF32FloatAttr(0));
    Value isNan = arith::CmpFOp::create(b, location, arith::CmpFPredicate::UNO, key, key);
    Value isZero = arith::CmpFOp::create(b, location, arith::CmpFPredicate::OEQ, key, zero);
    Value bits = arith::BitcastOp::create(b, location, b.getI32Type(), key);
    Value sign = arith::ShRSIOp::create(b, location, bits, constant(31));
    Value mask =
        arith::AndIOp::create(b, location, sign, constant(std::numeric_limits<int32_t>::max()));
    key = arith::XOrIOp::create(b, location, bits, mask);
    key = arith::SelectOp::create(b, location, isZero, constant(0), key);
    key = arith::SelectOp::create(b, location, isNan, constant(std::numeric_limits<int32_t>::max()),
                                  key);
  } else if (element.isUnsignedInteger(32)) {
    key = arith::XOrIOp::create(b, location, key, constant(std::numeric_limits<int32_t>::min()));
  }
  return isLargest ? key : arith::XOrIOp::create(b, location, key, constant(-1)).getResult();
}

void KeyedTopK::makeKeys(const IndexMath &math) const {
  Value x = math.asLine(kernel.input(0));
  AffineMap identity = math.builder.getMultiDimIdentityMap(1);
  SmallVector<utils::IteratorType> loops = {utils::IteratorType::parallel};
  if (tn::constantDim(inner) == 1) {
    linalg::GenericOp::create(
        math.builder, math.location, ValueRange{math.view(x, {start}, {length})}, ValueRange{keys},
        ArrayRef<AffineMap>{identity, identity}, loops,
        [&](OpBuilder &body, Location location, ValueRange args) {
          linalg::YieldOp::create(body, location, keyOf(body, location, args[0]));
        });
    return;
  }
  forEach(math, math.constant(0), length, 1, [&](const IndexMath &in, Value place) {
    Value stored =
        memref::LoadOp::create(in.builder, in.location, x, in.add(start, in.mul(place, columns)));
    memref::StoreOp::create(in.builder, in.location, keyOf(in.builder, in.location, stored), keys,
                            place);
  });
}

/// The rows of the grid slice, with their keys made.
void KeyedTopK::forRows(Body body) {
  IndexMath outside(kernel.builder, kernel.location);
  forEach(outside, kernel.begin, kernel.end, 1, [&](const IndexMath &math, Value row) {
    Value outerIndex = math.div(row, columns), innerIndex = math.rem(row, columns);
    start = math.add(math.mul(math.mul(outerIndex, length), columns), innerIndex);
    resultStart = math.add(math.mul(math.mul(outerIndex, wanted), columns), innerIndex);
    makeKeys(math);
    body(math, row);
  });
}

/// The element at a place of the row as the one of that rank, where results leave the region.
void KeyedTopK::write(const IndexMath &math, Value rank, Value place) const {
  OpBuilder &b = math.builder;
  Value to = math.add(resultStart, math.mul(rank, columns));
  auto put = [&](Value result, llvm::function_ref<Value()> value) {
    for (OpOperand &use : result.getUses()) {
      Value line = math.asLine(kernel.output(use.getOperandNumber()));
      memref::StoreOp::create(b, math.location, value(), line, to);
    }
  };
  put(values, [&]() -> Value {
    Value from = math.add(start, math.mul(place, columns));
    return memref::LoadOp::create(b, math.location, math.asLine(kernel.input(0)), from);
  });
  put(indices, [&] { return math.toI64(place); });
}

tn::TopKOp keyedTopK(func::FuncOp source) {
  tn::TopKOp op = onlyOp<tn::TopKOp>(source);
  if (!op || tn::getDims(op.getX().getType()).empty()) {
    return {};
  }
  Type wide = accumulatorType(getElementTypeOrSelf(op.getX()));
  return wide.isF32() || wide.isInteger(32) ? op : tn::TopKOp();
}

} // namespace tenon::codegen::cpu
