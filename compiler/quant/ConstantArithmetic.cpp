// Floats are computed in FP64 and rounded after each operation, which for these is what FP32 gives.
#include "compiler/quant/ConstantOps.h"

#include <algorithm>
#include <cmath>

namespace tenon::quant {
namespace {

using onnx::DataType;
using std::string_view;

std::optional<Dims> broadcast(const Dims &a, const Dims &b) {
  Dims result = a.size() < b.size() ? b : a;
  const Dims &other = a.size() < b.size() ? a : b;
  for (size_t i = 0; i < other.size(); ++i) {
    int64_t &own = result[result.size() - other.size() + i];
    if (own != other[i] && own != 1 && other[i] != 1) {
      return std::nullopt;
    }
    own = own == 1 ? other[i] : own;
  }
  return result;
}

std::optional<float> compute(string_view op, double a, double b) {
  return op == "Add"   ? std::optional(static_cast<float>(a + b))
         : op == "Sub" ? std::optional(static_cast<float>(a - b))
         : op == "Mul" ? std::optional(static_cast<float>(a * b))
         : op == "Div" ? std::optional(static_cast<float>(a / b))
         : op == "Pow" ? std::optional(static_cast<float>(std::pow(a, b)))
                       : std::nullopt;
}

std::optional<int64_t> compute(string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool fails = op == "Add"   ? __builtin_add_overflow(a, b, &result)
               : op == "Sub" ? __builtin_sub_overflow(a, b, &result)
               : op == "Mul" ? __builtin_mul_overflow(a, b, &result)
               : op == "Div" ? b == 0 || b == -1
                             : true;
  return fails ? std::nullopt : std::optional(op == "Div" ? a / b : result);
}

} // namespace

Folded foldBinary(string_view op, const Constant &a, const Constant &b) {
  std::optional<Dims> dims = broadcast(a.dims, b.dims);
  if (!dims || a.type != b.type || a.isHalf()) {
    return std::nullopt;
  }
  Constant made{a.type, *dims, {}, {}};
  bool isKnown = true;
  forEachIndex(*dims, [&](const Dims &index) {
    size_t x = offsetOf(a.dims, index), y = offsetOf(b.dims, index);
    if (a.isFloat()) {
      std::optional<float> value = compute(op, double(a.floats[x]), double(b.floats[y]));
      isKnown = isKnown && value;
      made.floats.push_back(value.value_or(0));
    } else {
      std::optional<int64_t> value = compute(op, a.ints[x], b.ints[y]);
      isKnown = isKnown && value;
      made.ints.push_back(value.value_or(0));
    }
  });
  return isKnown ? Folded(std::move(made)) : std::nullopt;
}

Folded foldUnary(string_view op, Constant x) {
  if (op == "Neg" && !x.isFloat()) {
    std::for_each(x.ints.begin(), x.ints.end(), [](int64_t &value) { value = -value; });
    return x;
  }
  if (x.type != DataType::Float) {
    return std::nullopt;
  }
  for (float &value : x.floats) {
    double own = value;
    value = static_cast<float>(op == "Sqrt"         ? std::sqrt(own)
                               : op == "Neg"        ? -own
                               : op == "Abs"        ? std::fabs(own)
                               : op == "Reciprocal" ? 1 / own
                                                    : std::exp(own));
  }
  return x;
}

Folded foldCast(Constant x, DataType to) {
  bool toInteger = to == DataType::Int64 || to == DataType::Int32;
  if (x.isFloat() && to == DataType::Float) {
    x.type = to;
    return x;
  }
  if (x.isFloat() || (!toInteger && to != DataType::Float)) {
    return std::nullopt;
  }
  x.type = to;
  if (!toInteger) {
    x.floats.assign(x.ints.begin(), x.ints.end());
    x.ints.clear();
  } else if (to == DataType::Int32) {
    std::for_each(x.ints.begin(), x.ints.end(),
                  [](int64_t &value) { value = static_cast<int32_t>(value); });
  }
  return x;
}

} // namespace tenon::quant
