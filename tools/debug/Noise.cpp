// Relies on operations being pure, so that one can be evaluated on operands of its own.
#include "tools/debug/Noise.h"

#include "compiler/graph/Tn.h"
#include "compiler/reference/Compare.h"
#include "support/random/Random.h"
#include "support/text/Text.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tenon::debug {
namespace {

using reference::Tensor;

/// Operations whose results are elements of their operands, or decided by comparing them.
bool isExact(Operation *op) {
  return op->hasTrait<tn::TnMovement>() ||
         isa<tn::WeightOp, tn::ConstantOp, tn::SizesOp, tn::AbsOp, tn::NegOp, tn::CeilOp,
             tn::FloorOp, tn::RoundOp, tn::SignOp, tn::NotOp, tn::ReluOp, tn::ClampOp, tn::IsNanOp,
             tn::IsInfOp, tn::MaxOp, tn::MinOp, tn::AndOp, tn::OrOp, tn::XorOp, tn::ShiftOp,
             tn::CompareOp, tn::SelectOp, tn::ArgReduceOp, tn::MaxPoolOp, tn::IotaOp, tn::TopKOp,
             tn::QuantizeOp>(op);
}

/// A few units in the last place.
double noiseOf(DType type) {
  switch (type) {
  case DType::F64:
    return 0x1p-49;
  case DType::F32:
    return 0x1p-21;
  case DType::F16:
    return 0x1p-10;
  default:
    return 0x1p-7;
  }
}

Tensor disturbed(const Tensor &tensor, Random &draw) {
  if (!reference::isFloat(tensor.dtype())) {
    return tensor;
  }
  Result<Tensor> wide = reference::convert(tensor, DType::F64);
  Result<Tensor> copy = Tensor::create(DType::F64, tensor.dims());
  for (int64_t i = 0; i < tensor.count(); ++i) {
    double value = wide->as<double>()[i];
    copy->as<double>()[i] = value * (1 + (draw.unit() * 2 - 1) * noiseOf(tensor.dtype()));
  }
  return *reference::convert(*copy, tensor.dtype());
}

/// The largest number of a type.
double largestOf(DType type) {
  switch (type) {
  case DType::F64:
    return std::numeric_limits<double>::max();
  case DType::F16:
    return 65504;
  default: // BF16 has F32's exponents.
    return std::numeric_limits<float>::max();
  }
}

/// Whether sums of squares of these may overflow: then the order of a sum, or the form of a
/// variance, decides between a number, infinity and NaN.
bool mayOverflow(ArrayRef<Tensor> operands) {
  return llvm::any_of(operands, [](const Tensor &operand) {
    if (!reference::isFloat(operand.dtype())) {
      return false;
    }
    Result<Tensor> wide = reference::convert(operand, DType::F64);
    double limit = std::sqrt(largestOf(operand.dtype()));
    return std::any_of(wide->as<double>(), wide->as<double>() + wide->count(), [&](double value) {
      return std::isfinite(value) && std::fabs(value) > limit;
    });
  });
}

/// A tensor that may hold anything: one of the ends in each element.
Tensor anything(const Tensor &like, Random &draw) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Result<Tensor> wild = Tensor::create(DType::F64, like.dims());
  for (int64_t i = 0; i < like.count(); ++i) {
    wild->as<double>()[i] =
        draw.one({-kInfinity, 0.0, kInfinity, std::numeric_limits<double>::quiet_NaN()});
  }
  return *reference::convert(*wild, like.dtype());
}

std::vector<double> asDoubles(const Tensor &tensor) {
  std::vector<double> values(tensor.count());
  if (tensor.dtype() == DType::Bool) {
    std::copy_n(tensor.as<uint8_t>(), tensor.count(), values.begin());
    return values;
  }
  Result<Tensor> wide = reference::convert(tensor, DType::F64);
  std::copy_n(wide->as<double>(), tensor.count(), values.begin());
  return values;
}

} // namespace

Result<std::vector<Tensor>> disturbedResults(func::FuncOp function, tn::WeightStore &weights,
                                             ArrayRef<Tensor> inputs, uint64_t seed) {
  Random draw(seed);
  TENON_ASSIGN(SmallVector<int64_t> symbols, reference::bindSymbols(function, inputs));
  reference::Interpreter outer(&weights, {.threads = 1}), inner(&weights, {.threads = 1});
  reference::Hooks hooks;
  hooks.reuse = [&](Operation *op,
                    ArrayRef<Tensor> operands) -> std::optional<std::vector<Tensor>> {
    // Of a region each operation comes here by itself.
    if (isExact(op) || isa<tn::RegionOp>(op)) {
      return std::nullopt;
    }
    std::vector<Tensor> noisy;
    for (const Tensor &operand : operands) {
      noisy.push_back(disturbed(operand, draw));
    }
    Result<std::vector<Tensor>> results = inner.evaluateOp(op, noisy, symbols);
    if (!results) {
      return std::nullopt;
    }
    bool isSum = !op->hasTrait<tn::TnElementwise>();
    bool isOpen = isSum && mayOverflow(operands);
    for (Tensor &result : *results) {
      result = isOpen && reference::isFloat(result.dtype()) ? anything(result, draw)
                                                            : disturbed(result, draw);
    }
    return std::move(*results);
  };
  return outer.evaluate(function, inputs, hooks);
}

std::string unexplained(ArrayRef<Tensor> samples, const Tensor &actual) {
  if (samples.front().dims() != actual.dims() || samples.front().dtype() != actual.dtype()) {
    return reference::compareTensors(samples.front(), actual).mismatch;
  }
  reference::Tolerance tolerance = reference::toleranceOf(actual.dtype());
  std::vector<std::vector<double>> seen;
  for (const Tensor &sample : samples) {
    seen.push_back(asDoubles(sample));
  }
  std::vector<double> found = asDoubles(actual);
  for (int64_t i = 0; i < actual.count(); ++i) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    bool hasNan = false;
    for (const std::vector<double> &sample : seen) {
      hasNan = hasNan || std::isnan(sample[i]);
      low = std::isnan(sample[i]) ? low : std::min(low, sample[i]);
      high = std::isnan(sample[i]) ? high : std::max(high, sample[i]);
    }
    double span = std::isfinite(high - low) ? high - low : 0;
    double margin = reference::isFloat(actual.dtype()) ? span + tolerance.absolute : 0;
    auto around = [&](double value) {
      return std::isfinite(value) ? tolerance.relative * std::fabs(value) : 0;
    };
    bool isInside =
        found[i] >= low - margin - around(low) && found[i] <= high + margin + around(high);
    if (std::isnan(found[i]) ? !hasNan : !isInside) {
      return strCat("element ", i, ": ", std::to_string(found[i]), " found, between ",
                    std::to_string(low), " and ", std::to_string(high), hasNan ? " or NaN" : "",
                    " expected");
    }
  }
  return "";
}

} // namespace tenon::debug
