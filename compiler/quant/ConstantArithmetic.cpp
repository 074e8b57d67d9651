// Floats are computed in FP64 and rounded after each operation, which for these is what FP32 gives.
#include "compiler/quant/ConstantOps.h"

#include <algorithm>
#include <cmath>

namespace tenon::quant {
namespace {

using onnx::DataType;
using std::string_view;

std::optional<float> compute(string_view op, double a, double b) {
  return op == "Add" || op == "Sum" ? std::optional(static_cast<float>(a + b))
         : op == "Max"              ? std::optional(static_cast<float>(std::max(a, b)))
         : op == "Min"              ? std::optional(static_cast<float>(std::min(a, b)))
         : op == "Sub"              ? std::optional(static_cast<float>(a - b))
         : op == "Mul"              ? std::optional(static_cast<float>(a * b))
         : op == "Div"              ? std::optional(static_cast<float>(a / b))
         : op == "Pow"              ? std::optional(static_cast<float>(std::pow(a, b)))
                                    : std::nullopt;
}

double compute(string_view op, double x) {
  return op == "Sqrt"         ? std::sqrt(x)
         : op == "Neg"        ? -x
         : op == "Abs"        ? std::fabs(x)
         : op == "Reciprocal" ? 1 / x
         : op == "Log"        ? std::log(x)
         : op == "Tanh"       ? std::tanh(x)
         : op == "Sign"       ? double(x > 0) - double(x < 0)
         : op == "Ceil"       ? std::ceil(x)
         : op == "Floor"      ? std::floor(x)
         : op == "Sigmoid"    ? 1 / (1 + std::exp(-x))
         : op == "Softplus"   ? (x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)))
         : op == "Erf"        ? std::erf(x)
         : op == "Relu"       ? std::max(x, 0.0)
                              : std::exp(x);
}

std::optional<int64_t> compute(string_view op, int64_t a, int64_t b) {
  int64_t result = op == "Max" ? std::max(a, b) : std::min(a, b);
  bool fails = op == "Add"   ? __builtin_add_overflow(a, b, &result)
               : op == "Sub" ? __builtin_sub_overflow(a, b, &result)
               : op == "Mul" ? __builtin_mul_overflow(a, b, &result)
               : op == "Div" ? b == 0 || b == -1
                             : op != "Max" && op != "Min";
  return fails ? std::nullopt : std::optional(op == "Div" ? a / b : result);
}

} // namespace

std::optional<Dims> broadcastDims(const Dims &a, const Dims &b) {
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

Folded foldProduct(const Constant &a, const Constant &b) {
  // Larger ones, as of two tables, are no weights that an exporter left unmerged.
  constexpr double kMostProducts = double(1U << 31);
  bool fits = a.type == DataType::Float && b.type == DataType::Float && a.dims.size() == 2 &&
              b.dims.size() == 2 && a.dims[1] == b.dims[0];
  if (!fits || double(a.size()) * double(b.dims[1]) > kMostProducts) {
    return std::nullopt;
  }
  size_t rows = static_cast<size_t>(a.dims[0]), depth = static_cast<size_t>(a.dims[1]);
  size_t columns = static_cast<size_t>(b.dims[1]);
  Constant made{DataType::Float, {a.dims[0], b.dims[1]}, std::vector<float>(rows * columns), {}};
  std::vector<double> sums(columns);
  for (size_t row = 0; row < rows; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (size_t k = 0; k < depth; ++k) {
      double factor = a.floats[row * depth + k];
      const float *other = b.floats.data() + k * columns;
      for (size_t column = 0; column < columns; ++column) {
        sums[column] += factor * other[column];
      }
    }
    std::copy(sums.begin(), sums.end(),
              made.floats.begin() + static_cast<ptrdiff_t>(row * columns));
  }
  return made;
}

Folded foldBinary(string_view op, const Constant &a, const Constant &b) {
  std::optional<Dims> dims = broadcastDims(a.dims, b.dims);
  if (!dims || a.type != b.type || !a.isComputed()) {
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

Folded foldComparison(string_view op, const Constant &a, const Constant &b) {
  std::optional<Dims> dims = broadcastDims(a.dims, b.dims);
  if (!dims || a.type != b.type || !a.isComputed()) {
    return std::nullopt;
  }
  Constant made{DataType::Bool, *dims, {}, {}};
  auto compare = [&](auto x, auto y) {
    return op == "Greater"          ? x > y
           : op == "Less"           ? x < y
           : op == "GreaterOrEqual" ? x >= y
           : op == "LessOrEqual"    ? x <= y
                                    : x == y;
  };
  forEachIndex(*dims, [&](const Dims &at) {
    size_t i = offsetOf(a.dims, at), j = offsetOf(b.dims, at);
    made.ints.push_back(a.isFloat() ? compare(a.floats[i], b.floats[j])
                                    : compare(a.ints[i], b.ints[j]));
  });
  return made;
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
    value = static_cast<float>(compute(op, double(value)));
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
