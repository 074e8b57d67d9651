// Evaluates the conversions between floats and scaled integers.
// Relies on a scale per tensor or per index of an axis, broadcast over the tensor.
#include "compiler/reference/Evaluation.h"

#include <limits>

using namespace mlir;

namespace tenon::reference {
namespace {

/// Strides of the scale over x's dims: along `axis` if it has one entry for each index.
Result<Sizes> scaleStrides(const Tensor &x, const Tensor &scale, const Tensor &zeroPoint,
                           int64_t axis) {
  Sizes strides(x.rank(), 0);
  bool perAxis = scale.rank() != 0;
  if (zeroPoint.count() != scale.count() || (perAxis && x.dims()[axis] != scale.count())) {
    return badOperand("the scale does not fit the tensor");
  }
  if (perAxis) {
    strides[axis] = 1;
  }
  return strides;
}

Status evaluateQuantize(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  const Tensor &scale = evaluation.operands[1];
  const Tensor &zeroPoint = evaluation.operands[2];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_ASSIGN(Sizes strides,
               scaleStrides(x, scale, zeroPoint, cast<tn::QuantizeOp>(evaluation.op).getAxis()));
  TENON_TRY(visitFloat(x.dtype(), [&](auto from) {
    return visitInteger(y.dtype(), [&](auto to) {
      using From = typename decltype(from)::Type;
      using To = typename decltype(to)::Type;
      Walker<1> walker(x.dims(), {strides}, 0);
      for (int64_t i = 0; i < x.count(); ++i, walker.next()) {
        // The quotient is rounded to its type first, as the model's arithmetic would.
        From quotient =
            narrow<From>(widen(x.as<From>()[i]) / widen(scale.as<From>()[walker.offset()]));
        double level =
            std::nearbyint(widen(quotient)) + double(widen(zeroPoint.as<To>()[walker.offset()]));
        double low = double(std::numeric_limits<To>::min());
        double high = double(std::numeric_limits<To>::max());
        y.as<To>()[i] = level >= high ? std::numeric_limits<To>::max()
                        : level > low ? narrow<To>(level)
                                      : std::numeric_limits<To>::min();
      }
      return Status::ok();
    });
  }));
  return evaluation.finish(std::move(y));
}

Status evaluateDequantize(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  const Tensor &scale = evaluation.operands[1];
  const Tensor &zeroPoint = evaluation.operands[2];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_ASSIGN(Sizes strides,
               scaleStrides(x, scale, zeroPoint, cast<tn::DequantizeOp>(evaluation.op).getAxis()));
  TENON_TRY(visitInteger(x.dtype(), [&](auto from) {
    return visitFloat(y.dtype(), [&](auto to) {
      using From = typename decltype(from)::Type;
      using To = typename decltype(to)::Type;
      Walker<1> walker(x.dims(), {strides}, 0);
      for (int64_t i = 0; i < x.count(); ++i, walker.next()) {
        double level =
            double(widen(x.as<From>()[i])) - double(widen(zeroPoint.as<From>()[walker.offset()]));
        y.as<To>()[i] = narrow<To>(level * widen(scale.as<To>()[walker.offset()]));
      }
      return Status::ok();
    });
  }));
  return evaluation.finish(std::move(y));
}

constexpr OpRow kQuantizeOpRows[] = {
    {"tn.quantize", evaluateQuantize},
    {"tn.dequantize", evaluateDequantize},
};

} // namespace

llvm::ArrayRef<OpRow> quantizeOps() { return kQuantizeOpRows; }

} // namespace tenon::reference
