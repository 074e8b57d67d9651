// The arithmetic of Window.h. Positions outside of the operand are held inside, so that every
// access is valid, and a flag says which element to take instead.
#include "compiler/codegen/common/lower/Window.h"

#include "compiler/codegen/common/lower/Reduce.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

/// Whether no position of a window can lie outside of the operand.
bool staysInside(const Window &window, ArrayRef<AffineExpr> input, ArrayRef<AffineExpr> output,
                 ArrayRef<int64_t> kernel, size_t i) {
  std::optional<int64_t> in = constantDim(input[i]), out = constantDim(output[i]);
  return window.pads[i] == 0 && in && out &&
         (*out - 1) * window.strides[i] + (kernel[i] - 1) * window.dilations[i] < *in;
}

} // namespace

SmallVector<AffineExpr> Window::positions(ArrayRef<AffineExpr> outputs,
                                          ArrayRef<AffineExpr> taps) const {
  SmallVector<AffineExpr> result;
  for (size_t i = 0; i < outputs.size(); ++i) {
    result.push_back(outputs[i] * strides[i] + taps[i] * dilations[i] - pads[i]);
  }
  return result;
}

Clamped clampPositions(Body &body, const Window &window, ArrayRef<AffineExpr> positions,
                       ArrayRef<AffineExpr> input, ArrayRef<AffineExpr> output,
                       ArrayRef<int64_t> kernel) {
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  Clamped result;
  for (size_t i = 0; i < positions.size(); ++i) {
    if (staysInside(window, input, output, kernel, i)) {
      result.positions.push_back(positions[i]);
      continue;
    }
    Value position = body.index(positions[i]);
    Value zero = arith::ConstantIndexOp::create(b, location, 0);
    Value size = body.index(input[i]);
    // One unsigned comparison sees both ends.
    Value inside = arith::CmpIOp::create(b, location, arith::CmpIPredicate::ult, position, size);
    Value safe = arith::SelectOp::create(b, location, inside, position, zero);
    result.inside =
        result.inside ? Value(arith::AndIOp::create(b, location, result.inside, inside)) : inside;
    result.positions.push_back(body.asIndex(safe));
  }
  return result;
}

Value selectInside(Body &body, Value inside, Value element, Value otherwise) {
  return inside ? arith::SelectOp::create(body.builder, body.lowering.location, inside, element,
                                          otherwise)
                      .getResult()
                : element;
}

Value zeroOf(Body &body, Type type) {
  return arith::ConstantOp::create(body.builder, body.lowering.location,
                                   body.builder.getZeroAttr(type));
}

SmallVector<AffineExpr> withSpatial(AffineExpr batch, AffineExpr channel,
                                    ArrayRef<AffineExpr> spatial, bool channelsLast) {
  SmallVector<AffineExpr> result = {batch};
  if (!channelsLast) {
    result.push_back(channel);
  }
  llvm::append_range(result, spatial);
  if (channelsLast) {
    result.push_back(channel);
  }
  return result;
}

SmallVector<AffineExpr> spatialOf(ArrayRef<AffineExpr> dims, bool channelsLast) {
  return SmallVector<AffineExpr>(channelsLast ? dims.slice(1, dims.size() - 2)
                                              : dims.drop_front(2));
}

AffineExpr channelOf(ArrayRef<AffineExpr> dims, bool channelsLast) {
  return channelsLast ? dims.back() : dims[1];
}

llvm::SmallBitVector lastReduced(size_t rank, size_t count) {
  llvm::SmallBitVector reduced(rank);
  reduced.set(rank - count, rank);
  return reduced;
}

TypedAttr zeroSum(Lowering &lowering, Value y) {
  return lowering.builder.getZeroAttr(accumulatorType(getElementTypeOrSelf(y)));
}

} // namespace tenon::codegen
