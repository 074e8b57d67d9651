// What elements hold that padding made, as far as it follows from what the padding is.
#pragma once

#include "compiler/graph/Tn.h"

#include <optional>

namespace tenon::tn {

struct Content {
  enum class Kind {
    Unknown,
    Number, ///< `value`
    Hidden, ///< what is finite, and with it a number of at most kHidden
  };
  Kind kind = Kind::Unknown;
  double value = 0;

  static Content of(std::optional<double> number) {
    return number ? Content{Kind::Number, *number} : Content();
  }
  bool is(double number) const { return kind == Kind::Number && value == number; }
  /// So far below scores that exp of it is 0 beside exp of theirs.
  bool isHidden() const {
    return kind == Kind::Hidden || (kind == Kind::Number && value <= kHidden);
  }
  std::optional<double> number() const {
    return kind == Kind::Number ? std::optional(value) : std::nullopt;
  }
  friend bool operator==(const Content &, const Content &) = default;

  /// What models add to scores to hide them: -1e4 in those of 16 bits.
  static constexpr double kHidden = -1e4;
};

/// The number that all elements of a constant are.
std::optional<double> numberOf(ConstantOp constant);

/// Of an elementwise operation on elements of which this is known; unknown ones are finite if
/// `isFinite`.
Content contentOf(mlir::Operation *op, llvm::ArrayRef<Content> operands, bool isFinite);

/// Whether an elementwise operation on finite elements always gives finite ones.
bool keepsFinite(mlir::Operation *op);

} // namespace tenon::tn
