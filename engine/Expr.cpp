// Builds, checks and evaluates postfix integer programs. All arithmetic is checked: the dims come
// from callers and the programs from files.

#include "engine/Expr.h"

#include <algorithm>
#include <array>

namespace tenon::engine {
namespace {

bool isBinary(ExprOp op) { return op >= ExprOp::Add && op <= ExprOp::Max; }

/// A text and how tightly its outermost operator binds: 0 sums, 1 products, 2 what needs no
/// parentheses.
struct Spelled {
  std::string text;
  int tightness = 2;
};

Spelled spell(ExprOp op, const Spelled &left, const Spelled &right) {
  auto infix = [&](const char *sign, int tightness, int rightTightness) {
    auto part = [](const Spelled &side, int needed) {
      return side.tightness < needed ? "(" + side.text + ")" : side.text;
    };
    return Spelled{part(left, tightness) + sign + part(right, rightTightness), tightness};
  };
  auto call = [&](const char *name, const std::string &inner) {
    return Spelled{std::string(name) + "(" + inner + ")", 2};
  };
  auto pair = [&] { return left.text + ", " + right.text; };
  switch (op) {
  case ExprOp::Add:
    return infix(" + ", 0, 0);
  case ExprOp::Sub:
    return infix(" - ", 0, 1);
  case ExprOp::Mul:
    return infix(" * ", 1, 2);
  case ExprOp::FloorDiv:
    return call("floor", infix(" / ", 1, 2).text);
  case ExprOp::Mod:
    return infix(" mod ", 1, 2);
  case ExprOp::CeilDiv:
    return call("ceil", infix(" / ", 1, 2).text);
  case ExprOp::Min:
    return call("min", pair());
  default:
    return call("max", pair());
  }
}

size_t countSymbols(std::span<const ExprTerm> program) {
  size_t count = 0;
  for (const ExprTerm &term : program) {
    if (term.op == ExprOp::Symbol) {
      count = std::max(count, static_cast<size_t>(term.value) + 1);
    }
  }
  return count;
}

int64_t floorDivide(int64_t left, int64_t right) {
  int64_t quotient = left / right;
  return quotient - (left % right < 0 ? 1 : 0);
}

} // namespace

std::optional<int64_t> applyExprOp(ExprOp op, int64_t left, int64_t right) {
  int64_t value = 0;
  switch (op) {
  case ExprOp::Add:
    return __builtin_add_overflow(left, right, &value) ? std::nullopt : std::optional(value);
  case ExprOp::Sub:
    return __builtin_sub_overflow(left, right, &value) ? std::nullopt : std::optional(value);
  case ExprOp::Mul:
    return __builtin_mul_overflow(left, right, &value) ? std::nullopt : std::optional(value);
  case ExprOp::FloorDiv:
    return right < 1 ? std::nullopt : std::optional(floorDivide(left, right));
  case ExprOp::CeilDiv:
    return right < 1 ? std::nullopt
                     : std::optional(floorDivide(left, right) + (left % right != 0 ? 1 : 0));
  case ExprOp::Mod:
    return right < 1 ? std::nullopt : std::optional(left % right + (left % right < 0 ? right : 0));
  case ExprOp::Min:
    return std::min(left, right);
  case ExprOp::Max:
    return std::max(left, right);
  case ExprOp::Constant:
  case ExprOp::Symbol:
  case ExprOp::Slot:
    break;
  }
  return std::nullopt;
}

bool isValidProgram(std::span<const ExprTerm> program, size_t symbolCount) {
  if (program.empty() || program.size() > kMaxExprTerms) {
    return false;
  }
  size_t depth = 0;
  for (const ExprTerm &term : program) {
    if (static_cast<uint8_t>(term.op) > kLastExprOp || term.op == ExprOp::Slot) {
      return false;
    }
    if (isBinary(term.op)) {
      if (depth < 2 || term.value != 0) {
        return false;
      }
      --depth;
      continue;
    }
    if (term.op == ExprOp::Symbol &&
        (term.value < 0 || static_cast<uint64_t>(term.value) >= symbolCount)) {
      return false;
    }
    if (++depth > kMaxExprStack) {
      return false;
    }
  }
  return depth == 1;
}

std::optional<int64_t> evaluate(std::span<const ExprTerm> program,
                                std::span<const int64_t> symbols) {
  std::array<int64_t, kMaxExprStack> stack;
  size_t depth = 0;
  for (const ExprTerm &term : program) {
    if (!isBinary(term.op)) {
      stack[depth++] =
          term.op == ExprOp::Symbol ? symbols[static_cast<size_t>(term.value)] : term.value;
      continue;
    }
    std::optional<int64_t> value = applyExprOp(term.op, stack[depth - 2], stack[depth - 1]);
    if (!value) {
      return std::nullopt;
    }
    --depth;
    stack[depth - 1] = *value;
  }
  return stack[0];
}

ExprId ExprTable::constant(int64_t value) { return intern({{ExprOp::Constant, value}}); }

ExprId ExprTable::symbol(uint32_t index) { return intern({{ExprOp::Symbol, index}}); }

ExprId ExprTable::binary(ExprOp op, ExprId left, ExprId right) {
  std::optional<int64_t> leftValue = constantValue(left);
  std::optional<int64_t> rightValue = constantValue(right);
  if (leftValue && rightValue) {
    if (std::optional<int64_t> value = applyExprOp(op, *leftValue, *rightValue)) {
      return constant(*value);
    }
  }
  bool keepsLeft =
      (rightValue == 0 && (op == ExprOp::Add || op == ExprOp::Sub)) ||
      (rightValue == 1 && (op == ExprOp::Mul || op == ExprOp::FloorDiv || op == ExprOp::CeilDiv)) ||
      (left == right && (op == ExprOp::Min || op == ExprOp::Max));
  if (keepsLeft) {
    return left;
  }
  if ((leftValue == 0 && op == ExprOp::Add) || (leftValue == 1 && op == ExprOp::Mul)) {
    return right;
  }
  std::vector<ExprTerm> joined = programs[left];
  joined.insert(joined.end(), programs[right].begin(), programs[right].end());
  joined.push_back({op, 0});
  return intern(std::move(joined));
}

ExprId ExprTable::append(std::vector<ExprTerm> program) {
  named.push_back(countSymbols(program));
  programs.push_back(std::move(program));
  return static_cast<ExprId>(programs.size() - 1);
}

ExprId ExprTable::intern(std::vector<ExprTerm> program) {
  auto [entry, isNew] = known.try_emplace(program, static_cast<ExprId>(programs.size()));
  if (isNew) {
    append(std::move(program));
  }
  return entry->second;
}

std::optional<int64_t> ExprTable::constantValue(ExprId id) const {
  const std::vector<ExprTerm> &terms = programs[id];
  bool isConstant = terms.size() == 1 && terms[0].op == ExprOp::Constant;
  return isConstant ? std::optional(terms[0].value) : std::nullopt;
}

std::optional<uint32_t> ExprTable::symbolIndex(ExprId id) const {
  const std::vector<ExprTerm> &terms = programs[id];
  bool isSymbol = terms.size() == 1 && terms[0].op == ExprOp::Symbol;
  return isSymbol ? std::optional(static_cast<uint32_t>(terms[0].value)) : std::nullopt;
}

std::string ExprTable::format(ExprId id, std::span<const std::string> symbols) const {
  std::vector<Spelled> stack;
  for (const ExprTerm &term : programs[id]) {
    if (isBinary(term.op)) {
      Spelled right = std::move(stack.back());
      stack.pop_back();
      bool subtracts = term.op == ExprOp::Add && right.text.starts_with('-');
      if (subtracts) {
        right.text.erase(0, 1);
      }
      stack.back() = spell(subtracts ? ExprOp::Sub : term.op, stack.back(), right);
      continue;
    }
    size_t index = static_cast<size_t>(term.value);
    if (term.op == ExprOp::Constant) {
      stack.push_back({std::to_string(term.value)});
    } else {
      stack.push_back({index < symbols.size() ? symbols[index] : "s" + std::to_string(index)});
    }
  }
  return stack.back().text;
}

} // namespace tenon::engine
