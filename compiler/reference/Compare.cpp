// Compares element by element in double, integers exactly.
// Relies on Element.h for reading any type.
#include "compiler/reference/Compare.h"

#include "compiler/reference/LowBits.h"
#include "support/Shape.h"
#include "support/text/Text.h"

#include <cmath>
#include <cstdio>

namespace tenon::reference {
namespace {

bool sameValue(double expected, double actual) {
  return expected == actual || (std::isnan(expected) && std::isnan(actual));
}

/// Infinite if one side is not a number or infinite and the other is not.
double distance(double expected, double actual) {
  double difference = std::fabs(expected - actual);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

class Comparer {
public:
  explicit Comparer(Tolerance tolerance) : tolerance(tolerance) {}

  void add(int64_t index, double expected, double actual, bool identical) {
    if (std::isfinite(expected)) {
      result.largestMagnitude = std::max(result.largestMagnitude, std::fabs(expected));
    }
    if (identical) {
      return;
    }
    double error = distance(expected, actual);
    if (error > largestError) {
      largestError = error;
      result.largest = {index, expected, actual};
    }
    // No error but not identical: integers that one double stands for.
    bool within = error != 0 && !std::isinf(error) &&
                  error <= tolerance.absolute + tolerance.relative * std::fabs(expected);
    if (!within && result.different++ == 0) {
      result.first = {index, expected, actual};
    }
  }

  Comparison result;

private:
  Tolerance tolerance;
  double largestError = -1;
};

std::string position(int64_t index, llvm::ArrayRef<int64_t> dims) {
  std::string text;
  for (size_t i = dims.size(); i-- > 0;) {
    int64_t size = std::max<int64_t>(dims[i], 1);
    text = std::to_string(index % size) + (text.empty() ? "" : ", ") + text;
    index /= size;
  }
  return "[" + text + "]";
}

std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

std::string describe(const Difference &difference, llvm::ArrayRef<int64_t> dims) {
  return strCat("at ", position(difference.index, dims), ": ", number(difference.expected),
                " expected, ", number(difference.actual), " found");
}

} // namespace

Tolerance toleranceOf(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return {1e-9, 1e-12};
  case DType::F32:
    return {1e-4, 1e-5};
  case DType::F16:
    return {1e-3, 2.5e-3};
  case DType::BF16:
    return {1.6e-2, 2e-2};
  default:
    return {};
  }
}

Comparison compareTensors(const Tensor &expected, const Tensor &actual) {
  Tolerance left = toleranceOf(expected.dtype());
  Tolerance right = toleranceOf(actual.dtype());
  return compareTensors(expected, actual, left.relative > right.relative ? left : right);
}

Comparison compareTensors(const Tensor &expected, const Tensor &actual, Tolerance tolerance) {
  if (isLowBit(expected.dtype()) && expected.dtype() == actual.dtype()) {
    Result<Tensor> left = decode(expected), right = decode(actual);
    if (left && right) {
      return compareTensors(*left, *right, {});
    }
  }
  Comparison failed;
  bool floats = isFloat(expected.dtype()) && isFloat(actual.dtype());
  if (expected.dtype() != actual.dtype() && !floats) {
    failed.mismatch = strCat("the types differ: ", nameOf(expected.dtype()), " expected, ",
                             nameOf(actual.dtype()), " found");
    return failed;
  }
  if (expected.dims() != actual.dims()) {
    failed.mismatch =
        strCat("the shapes differ: ", formatDims({expected.dims().data(), expected.dims().size()}),
               " expected, ", formatDims({actual.dims().data(), actual.dims().size()}), " found");
    return failed;
  }
  Comparer comparer(tolerance);
  Status status = visitElement(expected.dtype(), [&](auto left) {
    return visitElement(actual.dtype(), [&](auto right) {
      using Left = typename decltype(left)::Type;
      using Right = typename decltype(right)::Type;
      for (int64_t i = 0; i < expected.count(); ++i) {
        Wide<Left> e = widen(expected.as<Left>()[i]);
        Wide<Right> a = widen(actual.as<Right>()[i]);
        bool identical = false;
        if constexpr (kIsFloat<Left> || kIsFloat<Right>) {
          identical = sameValue(double(e), double(a));
        } else {
          identical = uint64_t(e) == uint64_t(a);
        }
        comparer.add(i, double(e), double(a), identical);
      }
      return Status::ok();
    });
  });
  if (!status) {
    failed.mismatch = std::string(status.message());
    return failed;
  }
  return comparer.result;
}

std::string Comparison::text(llvm::ArrayRef<int64_t> dims) const {
  if (!mismatch.empty()) {
    return mismatch;
  }
  if (different == 0) {
    return "equal within the tolerance";
  }
  return strCat(different, " elements differ; first ", describe(first, dims), "; most ",
                describe(largest, dims), "; the largest magnitude is ", number(largestMagnitude));
}

} // namespace tenon::reference
