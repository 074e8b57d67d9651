// How places that a request was padded with pass each operation of `tn`: the rules behind
// PaddingIndependence.h.
#pragma once

#include "compiler/graph/PaddedContent.h"
#include "compiler/graph/SymbolDims.h"
#include "llvm/ADT/DenseMap.h"

#include <cmath>

namespace tenon::tn {

/// An axis that has the length: its dim is `outer * length * inner` in row-major order.
struct PlaceAxis {
  int64_t axis = 0;
  mlir::AffineExpr inner;
  /// Of elements that are padded along this axis and lie within the length on all others.
  Content content;
};

/// What is known of a value of a padded request.
struct Places {
  /// Whether elements within the length may differ from those of the request as it came.
  bool isMixed = false;
  mlir::Operation *op = nullptr; ///< of mixed ones: where; null for an argument
  const char *how = "";          ///< of mixed ones, in words
  llvm::SmallVector<PlaceAxis, 2> axes;
  std::optional<double> number;   ///< that all elements are
  std::optional<int64_t> indexOf; ///< the axis of which each element is its index
  bool isFinite = true;           ///< what padded elements are
  /// Arguments, a bit each, that it is computed from, and those of them that may bring its elements
  /// within the length to Content::kHidden and below.
  uint64_t inputs = 0, hiders = 0;

  static Places mixed(mlir::Operation *op, const char *how) {
    Places places;
    places.isMixed = true;
    places.op = op;
    places.how = how;
    return places;
  }
  /// Whether it has no padded elements.
  bool isCommon() const { return !isMixed && axes.empty(); }
  const PlaceAxis *at(int64_t axis) const;
};

/// What is known of the values of a function so far, and what its dims say of the length.
class KnownPlaces : public SymbolDims {
public:
  /// Of a length of at least `least` places.
  /// `open` are arguments that hide nothing within the length.
  KnownPlaces(unsigned length, mlir::Operation *function, int64_t least, uint64_t open)
      : SymbolDims(length, function), least(least), open(open) {}

  const Places &of(mlir::Value value) const { return places.at(value); }
  void set(mlir::Value value, Places known) { places.insert_or_assign(value, std::move(known)); }

  bool isCommon(mlir::Value value) const { return !value || of(value).isCommon(); }
  /// Whether the axes are those of the type that name the length, each a multiple of it.
  bool fits(const Places &found, mlir::Type type) const;
  /// Whether the axis has the length, all of which is that of the type.
  bool isPlain(const PlaceAxis *axis, mlir::Type type) const;

  /// Whether places that hold this count for nothing beside those within the length: these must not
  /// be hidden by a number themselves, beside which another is as large.
  bool isHiddenIn(const Places &scores, const Content &content) const {
    return content.isHidden() && (content.is(-HUGE_VAL) || (scores.hiders & ~open) == 0);
  }

  int64_t least;

private:
  uint64_t open;
  llvm::DenseMap<mlir::Value, Places> places;
};

/// What a result is by the rule of its operation, none of whose operands is mixed. Whether the
/// result's type says the same is the caller's to ask.
Places placesOf(const KnownPlaces &known, mlir::Operation *op, mlir::OpResult result);

} // namespace tenon::tn
