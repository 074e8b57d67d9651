// Integer expressions over the dims of the inputs: sizes, offsets and grids of a plan. They are
// postfix programs, stored once in a table and named by index, so equal ones share an index.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::engine {

/// Values are stored in engine files: add at the end.
enum class ExprOp : uint8_t {
  Constant = 0, ///< pushes `value`
  Symbol = 1,   ///< pushes symbol number `value`
  Slot = 2,     ///< pushes size slot number `value` (refused by this runtime)
  Add = 3,      ///< each binary op pops right, then left
  Sub = 4,
  Mul = 5,
  FloorDiv = 6, ///< rounds to minus infinity; the divisor must be positive
  CeilDiv = 7,  ///< rounds to plus infinity; the divisor must be positive
  Mod = 8,      ///< left - right * floordiv(left, right); the divisor must be positive
  Min = 9,
  Max = 10,
};
inline constexpr uint8_t kLastExprOp = static_cast<uint8_t>(ExprOp::Max);

struct ExprTerm {
  ExprOp op;
  int64_t value = 0; ///< constant, symbol or slot number; 0 for the others
  auto operator<=>(const ExprTerm &) const = default;
};

/// Index of an expression in the table of its plan.
using ExprId = uint32_t;

/// Limits that a loader enforces.
inline constexpr size_t kMaxExprTerms = 2048;
inline constexpr size_t kMaxExprStack = 32;

/// The expressions of one plan. The functions that build expressions fold constants and give equal
/// expressions equal indices.
class ExprTable {
public:
  ExprId constant(int64_t value);
  ExprId symbol(uint32_t index);
  ExprId binary(ExprOp op, ExprId left, ExprId right);
  ExprId add(ExprId left, ExprId right) { return binary(ExprOp::Add, left, right); }
  ExprId sub(ExprId left, ExprId right) { return binary(ExprOp::Sub, left, right); }
  ExprId mul(ExprId left, ExprId right) { return binary(ExprOp::Mul, left, right); }
  ExprId floorDiv(ExprId left, ExprId right) { return binary(ExprOp::FloorDiv, left, right); }
  ExprId ceilDiv(ExprId left, ExprId right) { return binary(ExprOp::CeilDiv, left, right); }
  ExprId mod(ExprId left, ExprId right) { return binary(ExprOp::Mod, left, right); }
  ExprId min(ExprId left, ExprId right) { return binary(ExprOp::Min, left, right); }
  ExprId max(ExprId left, ExprId right) { return binary(ExprOp::Max, left, right); }

  /// Adds a program as it is (the loader's way in; nothing is folded or shared).
  ExprId append(std::vector<ExprTerm> program);

  size_t size() const { return programs.size(); }
  std::span<const ExprTerm> program(ExprId id) const { return programs[id]; }
  /// The value when the program is a single constant.
  std::optional<int64_t> constantValue(ExprId id) const;
  /// How many symbols a valid program needs: one more than the largest number of one that it names.
  /// Known without a look into the program, which may be long and named often.
  size_t symbolsNamed(ExprId id) const { return named[id]; }
  /// The symbol when the program is a single symbol.
  std::optional<uint32_t> symbolIndex(ExprId id) const;
  /// "floor((N + 1) / 2)", with the names of `symbols` where given.
  std::string format(ExprId id, std::span<const std::string> symbols = {}) const;

private:
  ExprId intern(std::vector<ExprTerm> program);

  std::vector<std::vector<ExprTerm>> programs;
  std::vector<size_t> named;
  std::map<std::vector<ExprTerm>, ExprId> known;
};

/// One operation with overflow and divisor checks; none where the result is not defined.
std::optional<int64_t> applyExprOp(ExprOp op, int64_t left, int64_t right);

/// Whether a program is well formed: known ops, symbols below `symbolCount`, no slots, stack never
/// short nor above kMaxExprStack, one value left.
bool isValidProgram(std::span<const ExprTerm> program, size_t symbolCount);

/// Value of a valid program; none when the arithmetic overflows or divides by less than one.
std::optional<int64_t> evaluate(std::span<const ExprTerm> program,
                                std::span<const int64_t> symbols);

} // namespace tenon::engine
