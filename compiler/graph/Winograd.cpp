// Verifiers of the operations of Winograd's filtering, and the bytes of transformed filters.
// Relies on Winograd.h for the arithmetic.
#include "compiler/graph/Winograd.h"

#include "compiler/graph/infer/Infer.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace mlir;
using namespace tenon;
using namespace tenon::tn;

namespace {

/// Null if such a weight has no filters of 3 x 3, or m is none of those that there are.
RankedTensorType filterType(RankedTensorType weight, int64_t m) {
  bool isSquare =
      weight.getRank() >= 2 && llvm::all_of(weight.getShape().take_back(2),
                                            [](int64_t size) { return size == winograd::kTaps; });
  if (!isSquare || !weight.hasStaticShape() || !weight.getElementType().isF32() ||
      !llvm::is_contained(winograd::kSizes, m)) {
    return {};
  }
  return WinogradFilterOp::typeOf(weight, m);
}

LogicalResult verifyFilter(Operation *op, Value weight, Value filter, int64_t m) {
  RankedTensorType type = filterType(infer::typeOf(weight), m);
  if (!type) {
    return op->emitOpError("has no filters of 3 x 3 taps of f32 in the last two dims of ")
           << weight.getType() << " to be transformed, or an m (" << m << ") that is not 2 or 4";
  }
  if (type != filter.getType()) {
    return op->emitOpError("needs filters of the type ") << type << ", not " << filter.getType();
  }
  return success();
}

/// Of 3 x 3 taps: along lines, then along columns.
void transformSquare(int64_t m, const char *taps, float *out) {
  constexpr int64_t kTaps = winograd::kTaps;
  int64_t side = m + 2;
  std::array<double, kTaps * winograd::kMaxSide> lines;
  std::array<double, winograd::kMaxSide> column;
  for (int64_t line = 0; line < kTaps; ++line) {
    // A weight in a mapped file may lie at any address.
    std::array<float, kTaps> own;
    std::memcpy(own.data(), taps + line * sizeof(own), sizeof(own));
    winograd::transformFilter(m, {own[0], own[1], own[2]}, lines.data() + line * side);
  }
  for (int64_t x = 0; x < side; ++x) {
    winograd::transformFilter(m, {lines[x], lines[side + x], lines[2 * side + x]}, column.data());
    for (int64_t y = 0; y < side; ++y) {
      out[y * side + x] = static_cast<float>(column[y]);
    }
  }
}

} // namespace

RankedTensorType WinogradFilterOp::typeOf(RankedTensorType weight, int64_t m) {
  SmallVector<int64_t> shape(weight.getShape().drop_back(2));
  shape.append(2, m + 2);
  return RankedTensorType::get(shape, weight.getElementType());
}

LogicalResult WinogradFilterOp::verify() {
  return verifyFilter(*this, getWeight(), getFilter(), getM());
}

LogicalResult WinogradTapsOp::verify() {
  return verifyFilter(*this, getWeight(), getFilter(), getM());
}

llvm::StringLiteral WinogradFilterOp::form() { return "transformed for Winograd's filtering"; }

DerivedBytes WinogradFilterOp::derivedBytes() {
  int64_t m = getM();
  return [m](const char *weight, uint64_t begin, uint64_t size, char *out) {
    constexpr uint64_t kSquare = winograd::kTaps * winograd::kTaps * sizeof(float);
    uint64_t bytes = (m + 2) * (m + 2) * sizeof(float);
    std::array<float, winograd::kMaxSide * winograd::kMaxSide> square;
    // The first and the last square may be wanted in part.
    for (uint64_t end = begin + size, number = begin / bytes; number * bytes < end; ++number) {
      transformSquare(m, weight + number * kSquare, square.data());
      uint64_t first = std::max(begin, number * bytes);
      uint64_t last = std::min(end, (number + 1) * bytes);
      std::memcpy(out + (first - begin),
                  reinterpret_cast<const char *>(square.data()) + (first - number * bytes),
                  last - first);
    }
  };
}
