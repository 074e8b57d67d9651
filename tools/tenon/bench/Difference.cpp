// Relies on both having the same outputs.

#include "tools/tenon/bench/Difference.h"

#include "support/threads/ThreadPool.h"

#include <algorithm>
#include <cmath>
#include <future>

namespace tenon::tool {
namespace {

struct Extremes {
  double largest = 0, difference = 0;
};

Extremes extremesOf(const Tensor &tensor, const Tensor &reference, int64_t begin, int64_t end) {
  Extremes found;
  for (int64_t i = begin; i < end; ++i) {
    double expected = elementAsDouble(reference, i), made = elementAsDouble(tensor, i);
    bool isSame = expected == made || (std::isnan(expected) && std::isnan(made));
    found.largest =
        std::isfinite(expected) ? std::max(found.largest, std::abs(expected)) : found.largest;
    if (!isSame) {
      double apart = std::abs(expected - made);
      found.difference = std::max(found.difference, std::isfinite(apart) ? apart : HUGE_VAL);
    }
  }
  return found;
}

double differenceOf(const Tensor &tensor, const Tensor &reference) {
  if (std::ranges::equal(tensor.bytes(), reference.bytes())) {
    return 0;
  }
  constexpr int64_t kElementsOfThread = int64_t{1} << 20;
  int64_t count = reference.elements();
  int64_t threads = std::clamp<int64_t>(count / kElementsOfThread, 1, usableCpus());
  std::vector<std::future<Extremes>> parts;
  for (int64_t part = 0; part < threads; ++part) {
    parts.push_back(std::async(
        part + 1 < threads ? std::launch::async : std::launch::deferred,
        [&tensor, &reference, begin = count * part / threads, end = count * (part + 1) / threads] {
          return extremesOf(tensor, reference, begin, end);
        }));
  }
  Extremes all;
  for (std::future<Extremes> &part : parts) {
    Extremes own = part.get();
    all = {std::max(all.largest, own.largest), std::max(all.difference, own.difference)};
  }
  return all.largest > 0 ? all.difference / all.largest : all.difference;
}

/// A few of the type's steps for numbers; two for codes of 8 bits.
double roundingOf(DType type) {
  switch (type) {
  case DType::F64:
    return 1e-9;
  case DType::F32:
    return 1e-2; // operands may be rounded to TF32, or to 16 bits
  case DType::F16:
    return 1e-2;
  case DType::BF16:
    return 4e-2;
  default:
    return bitWidth(type) <= 8 ? 0.15 : 0;
  }
}

} // namespace

double largestRounding(const std::vector<Tensor> &outputs) {
  double largest = 0;
  for (const Tensor &output : outputs) {
    largest = std::max(largest, roundingOf(output.dtype));
  }
  return largest;
}

double differenceOfOutputs(const std::vector<Tensor> &outputs,
                           const std::vector<Tensor> &reference) {
  double largest = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    bool isCompared = isNumeric(reference[i].dtype);
    largest = std::max(largest, isCompared ? differenceOf(outputs[i], reference[i]) : 0.0);
  }
  return largest;
}

} // namespace tenon::tool
