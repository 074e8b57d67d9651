// Evaluates and words the constraints of a plan. Relies on the plan being validated.
#include "engine/Constraints.h"

#include "support/random/ConstraintSearch.h"
#include "support/text/ExportGuard.h"
#include "support/text/Text.h"

#include <set>

namespace tenon::engine {
namespace {

std::vector<std::string> symbolNames(const Plan &plan) {
  std::vector<std::string> names;
  for (const Symbol &symbol : plan.symbols) {
    names.push_back(symbol.name);
  }
  return names;
}

/// "N = 5 (dim 0 of input 'x')" for each symbol that a side names.
std::string valuesIn(const Plan &plan, const Constraint &constraint,
                     std::span<const int64_t> symbols) {
  std::set<int64_t> named;
  for (ExprId side : {constraint.left, constraint.right}) {
    for (const ExprTerm &term : plan.exprs.program(side)) {
      if (term.op == ExprOp::Symbol) {
        named.insert(term.value);
      }
    }
  }
  std::string text;
  for (int64_t index : named) {
    const Symbol &symbol = plan.symbols[static_cast<size_t>(index)];
    text +=
        strCat(text.empty() ? "" : ", ", symbol.name, " = ", symbols[static_cast<size_t>(index)]);
    if (symbol.isOfSession) {
      text += " (of the session)";
    } else if (!symbol.isDataDependent()) {
      text += strCat(" (dim ", symbol.dim, " of input '", plan.inputs[symbol.input].name, "')");
    }
  }
  return text;
}

} // namespace

bool holds(const Plan &plan, const Constraint &constraint, std::span<const int64_t> symbols) {
  std::optional<int64_t> left = evaluate(plan.exprs.program(constraint.left), symbols);
  std::optional<int64_t> right = evaluate(plan.exprs.program(constraint.right), symbols);
  if (!left || !right) {
    return false;
  }
  switch (constraint.kind) {
  case ConstraintKind::Equal:
    return *left == *right;
  case ConstraintKind::EqualOrOne:
    return *left == *right || *left == 1;
  case ConstraintKind::Divisible:
    return *right > 0 && *left % *right == 0;
  case ConstraintKind::AtLeast:
    return *left >= *right;
  }
  return false;
}

std::string describe(const Plan &plan, const Constraint &constraint) {
  if (std::optional<ExportGuard> guard = exportGuardOf(constraint.node)) {
    return std::string(guard->text);
  }
  std::vector<std::string> names = symbolNames(plan);
  std::string left = plan.exprs.format(constraint.left, names);
  std::string right = plan.exprs.format(constraint.right, names);
  switch (constraint.kind) {
  case ConstraintKind::Equal:
    return strCat(left, " is ", right);
  case ConstraintKind::EqualOrOne:
    return strCat(left, " is ", right, " or 1");
  case ConstraintKind::Divisible:
    return strCat(left, " is a multiple of ", right);
  case ConstraintKind::AtLeast:
    return strCat(left, " is at least ", right);
  }
  return {};
}

bool isDecided(const Plan &plan, const Constraint &constraint, size_t known) {
  return known == plan.symbols.size() || (plan.exprs.symbolsNamed(constraint.left) <= known &&
                                          plan.exprs.symbolsNamed(constraint.right) <= known);
}

Status checkConstraints(const Plan &plan, std::span<const int64_t> symbols, size_t known) {
  for (const Constraint &constraint : plan.constraints) {
    if (!isDecided(plan, constraint, known) || holds(plan, constraint, symbols)) {
      continue;
    }
    std::string needs = exportGuardOf(constraint.node)
                            ? "the model was exported for sizes with "
                            : strCat("node '", constraint.node, "' needs that ");
    std::string broken =
        strCat(needs, describe(plan, constraint), ", but ", valuesIn(plan, constraint, symbols));
    return isDecided(plan, constraint, plan.knownSymbols())
               ? Status::error(
                     ErrorId::RunShapeConstraint, broken,
                     "pass dims that meet this condition; 'tenon inspect' lists the conditions")
               : Status::error(
                     ErrorId::RunConstraint, broken,
                     "the data of this run selects something that the model does not allow");
  }
  return Status::ok();
}

bool satisfyConstraints(const Plan &plan, std::span<int64_t> values) {
  std::vector<SymbolRange> ranges;
  for (size_t i = 0; i < plan.symbols.size(); ++i) {
    const Symbol &symbol = plan.symbols[i];
    ranges.push_back(symbol.isOfSession ? SymbolRange{values[i], values[i]}
                                        : SymbolRange{symbol.min, symbol.max});
  }
  return satisfy(values, ranges, plan.constraints.size(),
                 [&](size_t constraint, std::span<const int64_t> tried) {
                   return !isDecided(plan, plan.constraints[constraint], plan.knownSymbols()) ||
                          holds(plan, plan.constraints[constraint], tried);
                 });
}

} // namespace tenon::engine
