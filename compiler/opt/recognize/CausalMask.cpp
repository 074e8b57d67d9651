// Proves that a mask hides exactly the keys after each query, so that attention need not read it.
// Relies on positions counted by tn.iota or in constants, on tn.trilu, or on constant triangles.
#include "compiler/opt/recognize/CausalMask.h"

#include "compiler/opt/Match.h"

#include <cmath>
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

/// Elements of constants that are looked at: the positions of a few thousand tokens for each
/// sequence of a batch.
constexpr int64_t kMostElements = int64_t(1) << 20;

std::optional<std::vector<double>> fewElements(Value value, const Constants &constants) {
  value = withoutBroadcast(value);
  RankedTensorType type = tensorType(value);
  bool areFew = Constants::isConstant(value) && type.hasStaticShape() &&
                type.getNumElements() <= kMostElements;
  return areFew ? constants.elements(value) : std::nullopt;
}

/// The one number that a constant is everywhere.
std::optional<double> uniform(Value value, const Constants &constants) {
  std::optional<std::vector<double>> elements = fewElements(value, constants);
  bool isOne = elements && !elements->empty() && llvm::all_equal(*elements);
  return isOne ? std::optional(elements->front()) : std::nullopt;
}

/// A constant is 0, 1, 2... along one dim, counted from the last, and the same along the others.
bool countsAlong(Value value, size_t fromLast, const Constants &constants) {
  std::optional<std::vector<double>> elements = fewElements(value, constants);
  if (!elements) {
    return false;
  }
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  int64_t inner = 1, size = shape[shape.size() - fromLast];
  for (int64_t dim : shape.take_back(fromLast - 1)) {
    inner *= dim;
  }
  for (size_t i = 0; i < elements->size(); ++i) {
    if ((*elements)[i] != static_cast<double>(i / inner % size)) {
      return false;
    }
  }
  return true;
}

/// The value is 0, 1, 2... along one dim, counted from the last, and the same along all others.
bool isPosition(Value value, size_t fromLast, AffineExpr size, const Constants &constants) {
  value = withoutBroadcast(value);
  tn::Dims dims = tn::getDims(value.getType());
  if (dims.size() < fromLast || !tn::sameDim(dims[dims.size() - fromLast], size)) {
    return false;
  }
  if (countsAlong(value, fromLast, constants)) {
    return true;
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

/// The value is other than 0 exactly where key <= query (true), or exactly where key > query
/// (false).
std::optional<bool> seenWhere(Value value, AffineExpr queries, AffineExpr keys,
                              const Constants &constants);

/// Of a comparison of positions, or of such a value with 0.
std::optional<bool> seenWhere(tn::CompareOp compare, AffineExpr queries, AffineExpr keys,
                              const Constants &constants) {
  tn::Predicate predicate = compare.getPredicate();
  Value a = compare.getA(), b = compare.getB();
  if (predicate == tn::Predicate::eq || predicate == tn::Predicate::ne) {
    std::optional<bool> seen = constants.scalar(withoutBroadcast(b)) == 0.0
                                   ? seenWhere(a, queries, keys, constants)
                                   : std::nullopt;
    return seen ? std::optional(*seen == (predicate == tn::Predicate::ne)) : std::nullopt;
  }
  if (predicate == tn::Predicate::ge || predicate == tn::Predicate::gt) {
    std::swap(a, b);
  }
  bool hasEqual = predicate == tn::Predicate::le || predicate == tn::Predicate::ge;
  if (!hasEqual) {
    std::swap(a, b); // query < key, the other way round
  }
  bool arePositions =
      isPosition(a, kKeys, keys, constants) && isPosition(b, kQueries, queries, constants);
  return arePositions ? std::optional(hasEqual) : std::nullopt;
}

std::optional<bool> seenWhere(Value value, AffineExpr queries, AffineExpr keys,
                              const Constants &constants) {
  value = withoutBroadcast(value);
  if (tn::CompareOp compare = value.getDefiningOp<tn::CompareOp>()) {
    return seenWhere(compare, queries, keys, constants);
  }
  // A cast to bool asks for what is other than 0.
  if (tn::CastOp cast = value.getDefiningOp<tn::CastOp>();
      cast && getElementTypeOrSelf(value).isInteger(1)) {
    return seenWhere(cast.getX(), queries, keys, constants);
  }
  if (tn::NotOp negated = value.getDefiningOp<tn::NotOp>()) {
    bool isBool = getElementTypeOrSelf(value).isInteger(1);
    std::optional<bool> seen =
        isBool ? seenWhere(negated.getX(), queries, keys, constants) : std::nullopt;
    return seen ? std::optional(!*seen) : std::nullopt;
  }
  if (tn::TriluOp triangle = value.getDefiningOp<tn::TriluOp>()) {
    std::optional<double> inside = constants.scalar(withoutBroadcast(triangle.getX()));
    bool isWhole = inside && *inside != 0 && !std::isnan(*inside) &&
                   triangle.getDiagonal() == (triangle.getUpper() ? 1 : 0) &&
                   tn::sameDim(tn::getDims(triangle.getType()).back(), keys);
    return isWhole ? std::optional(!triangle.getUpper()) : std::nullopt;
  }
  for (bool seen : {true, false}) {
    if (isTriangle(value, constants, [&](double element, bool isSeen) {
          return (element != 0) == (isSeen == seen);
        })) {
      return seen;
    }
  }
  return std::nullopt;
}

/// The value compares constants of which each is one number everywhere, and is true.
bool isAlwaysTrue(Value condition, const Constants &constants) {
  tn::CompareOp compare = withoutBroadcast(condition).getDefiningOp<tn::CompareOp>();
  std::optional<double> a = compare ? uniform(compare.getA(), constants) : std::nullopt,
                        b = a ? uniform(compare.getB(), constants) : std::nullopt;
  if (!a || !b) {
    return false;
  }
  switch (compare.getPredicate()) {
  case tn::Predicate::eq:
    return *a == *b;
  case tn::Predicate::ne:
    return *a != *b;
  case tn::Predicate::lt:
    return *a < *b;
  case tn::Predicate::le:
    return *a <= *b;
  case tn::Predicate::gt:
    return *a > *b;
  case tn::Predicate::ge:
    return *a >= *b;
  }
  return false;
}

} // namespace

bool hidesPosition(double value, Type element) {
  // Scores up to 2^100 vanish beside the largest finite number of f32 and bf16; not in f16.
  return value == -std::numeric_limits<double>::infinity() || (value < -3e38 && !element.isF16());
}

SmallVector<Value> conditionsOf(Value condition, const Constants &constants) {
  constexpr size_t kMax = 8;
  SmallVector<Value> open{condition}, parts;
  while (!open.empty()) {
    Value next = open.pop_back_val();
    tn::AndOp both = next.getDefiningOp<tn::AndOp>();
    if (both && parts.size() + open.size() < kMax) {
      open.push_back(both.getB());
      open.push_back(both.getA());
    } else if (!isAlwaysTrue(next, constants)) {
      parts.push_back(next);
    }
  }
  return parts;
}

bool hidesNothing(Value mask, const Constants &constants) {
  return uniform(mask, constants) == 0.0;
}

bool isCausalCondition(Value condition, AffineExpr queries, AffineExpr keys,
                       const Constants &constants) {
  return tn::sameDim(queries, keys) &&
         seenWhere(condition, queries, keys, constants) == std::optional(true);
}

bool isCausalBias(Value mask, AffineExpr queries, AffineExpr keys, const Constants &constants) {
  if (!tn::sameDim(queries, keys)) {
    return false;
  }
  Type element = getElementTypeOrSelf(mask);
  mask = withoutBroadcast(mask);
  if (tn::TriluOp triangle = mask.getDefiningOp<tn::TriluOp>()) {
    std::optional<double> hidden = constants.scalar(withoutBroadcast(triangle.getX()));
    return hidden && hidesPosition(*hidden, element) &&
           seenWhere(mask, queries, keys, constants) == std::optional(false);
  }
  if (tn::SelectOp select = mask.getDefiningOp<tn::SelectOp>()) {
    std::optional<bool> seen = seenWhere(select.getCondition(), queries, keys, constants);
    if (!seen) {
      return false;
    }
    Value ofSeen = *seen ? select.getA() : select.getB();
    Value ofHidden = *seen ? select.getB() : select.getA();
    std::optional<double> hidden = constants.scalar(withoutBroadcast(ofHidden));
    return constants.scalar(withoutBroadcast(ofSeen)) == 0.0 && hidden &&
           hidesPosition(*hidden, element);
  }
  return isTriangle(mask, constants, [&](double value, bool seen) {
    return seen ? value == 0 : hidesPosition(value, element);
  });
}

} // namespace tenon::opt
