#include "compiler/codegen/common/lower/Boxes.h"

#include "compiler/codegen/common/lower/Reduce.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen {

Box makeBox(OpBuilder &builder, Location location, ArrayRef<Value> corners) {
  Box box;
  Value sides[2];
  for (int i = 0; i < 2; ++i) {
    box.low[i] = corners[i];
    box.high[i] = corners[2 + i];
    sides[i] = arith::SubFOp::create(builder, location, box.high[i], box.low[i]);
  }
  box.area = arith::MulFOp::create(builder, location, sides[0], sides[1]);
  return box;
}

Value scoreOf(OpBuilder &builder, Location location, Value stored) {
  Value wide = widen(builder, location, stored);
  FloatType type = cast<FloatType>(wide.getType());
  Value lowest = arith::ConstantOp::create(
      builder, location,
      builder.getFloatAttr(type, APFloat::getInf(type.getFloatSemantics(), /*Negative=*/true)));
  Value isNumber = arith::CmpFOp::create(builder, location, arith::CmpFPredicate::ORD, wide, wide);
  return arith::SelectOp::create(builder, location, isNumber, wide, lowest);
}

Value overlaps(OpBuilder &builder, Location location, const Box &a, const Box &b, Value share) {
  auto isMore = [&](Value x, Value y) -> Value {
    return arith::CmpFOp::create(builder, location, arith::CmpFPredicate::OGT, x, y);
  };
  Value zero = arith::ConstantOp::create(builder, location, builder.getZeroAttr(share.getType()));
  Value sides[2], areCommon[2];
  for (int i = 0; i < 2; ++i) {
    Value high = arith::MinimumFOp::create(builder, location, a.high[i], b.high[i]);
    Value low = arith::MaximumFOp::create(builder, location, a.low[i], b.low[i]);
    sides[i] = arith::SubFOp::create(builder, location, high, low);
    areCommon[i] = isMore(sides[i], zero);
  }
  Value common = arith::MulFOp::create(builder, location, sides[0], sides[1]);
  Value both = arith::AddFOp::create(builder, location, a.area, b.area);
  Value all = arith::SubFOp::create(builder, location, both, common);
  Value part = arith::DivFOp::create(builder, location, common, all);
  Value haveCommon = arith::AndIOp::create(builder, location, areCommon[0], areCommon[1]);
  return arith::AndIOp::create(builder, location, haveCommon, isMore(part, share));
}

} // namespace tenon::codegen
