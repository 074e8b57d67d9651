// The guards of an export as trees: Python's arithmetic, comparisons and logic over sizes of the
// inputs, "(L['x'].size()[1] % 2) == 0", and their values as Python computes them.
#pragma once

#include "compiler/graph/Shape.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::pt2 {

/// A part of a guard.
struct GuardTerm {
  enum class Op : uint8_t {
    Integer,
    Real,
    Size, ///< a symbol of the module
    Add,
    Multiply,
    Divide, ///< to a real
    FloorDivide,
    Mod,
    Power,
    Min,
    Max,
    Trunc,
    Floor,
    Ceil,
    ToReal,
    SquareRoot,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    And,
    Or,
    Not,
  };
  Op op = Op::Integer;
  int64_t integer = 0;
  double real = 0;
  mlir::AffineExpr size = {};
  std::vector<GuardTerm> operands = {};

  /// Whether its operands are compared: the two of one of the four comparisons.
  bool isComparison() const { return op >= Op::Equal && op <= Op::LessOrEqual; }
};

/// What a guard names: `L['x'][0].size()[1]` has the path {"x", "0"} and the dim 1.
struct GuardedSize {
  std::vector<std::string> path;
  int64_t dim = -1; ///< -1 where the input itself is the number
};

/// The size that is meant: a symbol or a constant; null for what is not known.
using SizeOfGuard = std::function<mlir::AffineExpr(const GuardedSize &)>;

/// The tree of a guard's text; none, with the reason in `why`, for text that is not understood.
std::optional<GuardTerm> parseGuard(std::string_view text, const SizeOfGuard &sizeOf,
                                    std::string &why);

/// Whether the guard holds for these values of the module's symbols. Not where Python would raise
/// an error or an integer leaves int64.
bool guardHolds(const GuardTerm &guard, llvm::ArrayRef<int64_t> symbols);

} // namespace tenon::pt2
