// Proves that a mask hides exactly the keys after each query, so that attention need not read it.
// Relies on positions counted by tn.iota or on constant triangles.
#include "compiler/opt/CausalMask.h"

#include "compiler/opt/Match.h"

#include <limits>

using namespace mlir;

namespace tenon::opt {
namespace {

/// Where dims of a mask lie, counted from the last.
constexpr size_t kKeys = 1;
constexpr size_t kQueries = 2;

Value withoutBroadcast(Value value) {
  tn::BroadcastOp broadcast = value.getDefiningOp<tn::BroadcastOp>();
  return broadcast && isDecided(broadcast) ? broadcast.getX() : value;
}

/// The value is 0, 1, 2... along one dim, counted from the last, and has no other.
bool isPosition(Value value, size_t fromLast, AffineExpr size, const Constants &constants) {
  tn::Dims dims = tn::getDims(value.getType());
  if (dims.size() < fromLast || !tn::sameDim(dims[dims.size() - fromLast], size)) {
    return false;
  }
  dims.erase(dims.end() - fromLast);
  while (tn::ReshapeOp reshape = value.getDefiningOp<tn::ReshapeOp>()) {
    value = reshape.getX();
  }
  tn::IotaOp iota = value.getDefiningOp<tn::IotaOp>();
  return llvm::all_of(dims, isOne) && iota && constants.scalar(iota.getStart()) == 0.0 &&
         constants.scalar(iota.getStep()) == 1.0;
}

/// The constant behind a slice that starts at the first query and key.
Value behindSlice(Value value) {
  tn::SliceOp slice = value.getDefiningOp<tn::SliceOp>();
  if (!slice || tensorType(value).getRank() < 2) {
    return value;
  }
  auto isZero = [](AffineExpr start) { return tn::constantDim(start) == 0; };
  bool isCorner =
      llvm::all_of(slice.getStarts().getResults().take_back(2), isZero) &&
      llvm::all_of(slice.getSteps().take_back(2), [](int64_t step) { return step == 1; });
  return isCorner ? slice.getX() : value;
}

/// Every matrix of a constant has elements for which `isSeen` holds exactly where key <= query.
template <typename Predicate>
bool isTriangle(Value value, const Constants &constants, Predicate isExpected) {
  value = behindSlice(withoutBroadcast(value));
  if (!Constants::isConstant(value) || tensorType(value).getRank() < 2) {
    return false;
  }
  RankedTensorType type = tensorType(value);
  int64_t keys = type.getShape().back();
  int64_t queries = type.getShape()[type.getRank() - 2];
  std::optional<std::vector<double>> elements =
      keys == queries ? constants.elements(value) : std::nullopt;
  if (!elements || elements->empty()) {
    return false;
  }
  for (size_t i = 0; i < elements->size(); ++i) {
    int64_t key = i % keys;
    int64_t query = i / keys % queries;
    if (!isExpected((*elements)[i], key <= query)) {
      return false;
    }
  }
  return true;
}

} // namespace

bool hidesPosition(double value, Type element) {
  // Scores up to 2^100 vanish beside the largest finite number of f32 and bf16; not in f16.
  return value == -std::numeric_limits<double>::infinity() || (value < -3e38 && !element.isF16());
}

bool isCausalCondition(Value condition, AffineExpr queries, AffineExpr keys,
                       const Constants &constants) {
  if (!tn::sameDim(queries, keys)) {
    return false;
  }
  condition = withoutBroadcast(condition);
  if (tn::CompareOp compare = condition.getDefiningOp<tn::CompareOp>()) {
    bool keyFirst = compare.getPredicate() == tn::Predicate::le;
    if (!keyFirst && compare.getPredicate() != tn::Predicate::ge) {
      return false;
    }
    return isPosition(keyFirst ? compare.getA() : compare.getB(), kKeys, keys, constants) &&
           isPosition(keyFirst ? compare.getB() : compare.getA(), kQueries, queries, constants);
  }
  return isTriangle(condition, constants,
                    [](double value, bool seen) { return (value != 0) == seen; });
}

bool isCausalBias(Value mask, AffineExpr queries, AffineExpr keys, const Constants &constants) {
  if (!tn::sameDim(queries, keys)) {
    return false;
  }
  Type element = getElementTypeOrSelf(mask);
  mask = withoutBroadcast(mask);
  if (tn::TriluOp triangle = mask.getDefiningOp<tn::TriluOp>()) {
    std::optional<double> hidden = constants.scalar(withoutBroadcast(triangle.getX()));
    return triangle.getUpper() && triangle.getDiagonal() == 1 && hidden &&
           hidesPosition(*hidden, element) &&
           tn::sameDim(tn::getDims(triangle.getType()).back(), keys);
  }
  return isTriangle(mask, constants, [&](double value, bool seen) {
    return seen ? value == 0 : hidesPosition(value, element);
  });
}

} // namespace tenon::opt
