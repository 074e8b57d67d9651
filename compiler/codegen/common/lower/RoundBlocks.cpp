// Rows rounded to 8 bits in blocks, where no kernel of a product does it on the way: the largest
// magnitude of each block by comparing bits, of which NaN has the largest, then every element.
#include "compiler/codegen/common/lower/Compute.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

/// 1.5 times 2 to 23: what is added to it is rounded to an integer, ties to even.
constexpr float kIntegers = 12582912.0F;
constexpr int32_t kAllButSign = 0x7FFFFFFF, kFloatMantissa = 23, kFloatBias = 127;

Value magnitudeBits(Body &body, Value x) {
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  Value bits = arith::BitcastOp::create(b, location, b.getI32Type(), x);
  Value mask = arith::ConstantOp::create(b, location, b.getI32IntegerAttr(kAllButSign));
  return arith::AndIOp::create(b, location, bits, mask);
}

/// The element as a multiple of its block's scale.
Value roundedTo(Body &body, Value x, Value mostBits) {
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  auto real = [&](float value) -> Value {
    return arith::ConstantOp::create(b, location, b.getF32FloatAttr(value));
  };
  constexpr int32_t least = (kFloatBias + RoundedBlocks::kLeastExponent) << kFloatMantissa;
  Value limit = arith::ConstantOp::create(b, location, b.getI32IntegerAttr(least));
  Value isTiny = arith::CmpIOp::create(b, location, arith::CmpIPredicate::ult, mostBits, limit);
  Value most = arith::BitcastOp::create(b, location, b.getF32Type(), mostBits);
  Value inverse = arith::DivFOp::create(b, location, real(RoundedBlocks::kMost), most);
  // What an infinity is taken off itself is NaN.
  Value check = arith::SubFOp::create(b, location, most, most);
  Value quotient = arith::DivFOp::create(b, location, most, real(RoundedBlocks::kMost));
  Value scale = arith::AddFOp::create(b, location, check, quotient);
  Value moved = math::FmaOp::create(b, location, x, inverse, real(kIntegers));
  Value number = arith::SubFOp::create(b, location, moved, real(kIntegers));
  Value result = arith::MulFOp::create(b, location, number, scale);
  return arith::SelectOp::create(b, location, isTiny, real(0), result);
}

} // namespace

LogicalResult computeRoundBlocks(Lowering &lowering, Operation *op) {
  RoundBlocksOp round = cast<RoundBlocksOp>(op);
  int64_t block = static_cast<int64_t>(round.getBlock());
  Dims dims = getDims(round.getX().getType()), blocks = dims;
  blocks.back() = dims.back().ceilDiv(block);
  blocks.push_back(getAffineConstantExpr(block, op->getContext()));
  llvm::SmallBitVector reduced(blocks.size());
  reduced.set(blocks.size() - 1);
  Value most = reduce(
      lowering, blocks, reduced, lowering.builder.getI32IntegerAttr(0),
      [&](Body &body, ArrayRef<AffineExpr> at) {
        // Of a short block the last element again.
        SmallVector<AffineExpr> place(at.drop_back());
        Value index = body.index(place.back() * block + at.back());
        Value last = body.index(dims.back() - 1);
        place.back() =
            body.asIndex(arith::MinSIOp::create(body.builder, body.lowering.location, index, last));
        Value x = body.at(round.getX(), place);
        return x ? magnitudeBits(body, x) : x;
      },
      [](OpBuilder &b, Location location, Value a, Value x) -> Value {
        return arith::MaxSIOp::create(b, location, a, x);
      });
  if (!most) {
    return failure();
  }
  Value y = compute(lowering, dims, lowering.builder.getF32Type(),
                    [&](Body &body, ArrayRef<AffineExpr> at) {
                      SmallVector<AffineExpr> place(at);
                      place.back() = place.back().floorDiv(block);
                      Value x = body.at(round.getX(), at);
                      return x ? roundedTo(body, x, body.load(most, place)) : x;
                    });
  if (!y) {
    return failure();
  }
  lowering.bind(round.getY(), y);
  return success();
}

} // namespace tenon::codegen
