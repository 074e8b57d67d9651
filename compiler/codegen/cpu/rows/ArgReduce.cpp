// The place of the largest or smallest element of rows in two passes, each of which lanes compute:
// the element, then the first (or last) place that holds it.
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/cpu/base/Overrides.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SmallBitVector.h"

#include <limits>

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen::cpu {

bool isArgReduceOfRows(Operation *op) {
  ArgReduceOp arg = dyn_cast<ArgReduceOp>(op);
  return arg && static_cast<int64_t>(arg.getAxis()) + 1 ==
                    cast<RankedTensorType>(arg.getX().getType()).getRank();
}

LogicalResult computeArgReduceOfRows(Lowering &lowering, Operation *op) {
  ArgReduceOp arg = cast<ArgReduceOp>(op);
  Location location = lowering.location;
  Type element = getElementTypeOrSelf(arg.getX());
  Dims dims = getDims(arg.getX().getType());
  llvm::SmallBitVector reduced(dims.size());
  reduced.set(arg.getAxis());
  bool isLargest = arg.getLargest(), isLast = arg.getLastIndex();
  Value best = reduce(
      lowering, dims, reduced, extremeOf(lowering, element, !isLargest),
      [&](Body &body, ArrayRef<AffineExpr> at) { return wideAt(body, arg.getX(), at); },
      [&](OpBuilder &b, Location, Value a, Value x) {
        return combineExtreme(b, location, element, isLargest, a, x);
      });
  if (!best) {
    return failure();
  }
  TypedAttr none =
      lowering.builder.getI64IntegerAttr(isLast ? -1 : std::numeric_limits<int64_t>::max());
  Value place = reduce(
      lowering, dims, reduced, none,
      [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        OpBuilder &b = body.builder;
        Value x = wideAt(body, arg.getX(), at);
        Value most = body.load(best, keptIndices(at, reduced));
        Value isBest;
        if (isa<FloatType>(x.getType())) {
          // NaN is the best where there is one, and equals nothing.
          isBest = arith::CmpFOp::create(b, location, arith::CmpFPredicate::OEQ, x, most);
          Value isNan = arith::CmpFOp::create(b, location, arith::CmpFPredicate::UNO, x, x);
          isBest = arith::OrIOp::create(b, location, isBest, isNan);
        } else {
          isBest = arith::CmpIOp::create(b, location, arith::CmpIPredicate::eq, x, most);
        }
        Value here =
            arith::IndexCastOp::create(b, location, b.getI64Type(), body.index(at[arg.getAxis()]));
        Value never = arith::ConstantOp::create(b, location, none);
        return arith::SelectOp::create(b, location, isBest, here, never);
      },
      [&](OpBuilder &b, Location, Value a, Value x) -> Value {
        return isLast ? Value(arith::MaxSIOp::create(b, location, a, x))
                      : Value(arith::MinSIOp::create(b, location, a, x));
      });
  Type wide = lowering.builder.getI64Type();
  Value y =
      compute(lowering, getDims(arg.getY().getType()), wide,
              [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
                OpBuilder &b = body.builder;
                Value found = body.load(place, arg.getKeepdims() ? keptIndices(at, reduced)
                                                                 : SmallVector<AffineExpr>(at));
                // Of no elements the place is 0.
                Value never = arith::ConstantOp::create(b, location, none);
                Value zero = arith::ConstantOp::create(b, location, b.getI64IntegerAttr(0));
                Value isNone =
                    arith::CmpIOp::create(b, location, arith::CmpIPredicate::eq, found, never);
                return arith::SelectOp::create(b, location, isNone, zero, found);
              });
  lowering.bind(arg.getY(), y);
  return success();
}

} // namespace tenon::codegen::cpu
