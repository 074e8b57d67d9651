// Passes assumptions on to who listens, and keeps what was recorded as an attribute of the module.
// Relies on the dialect being loaded where shapes are inferred.
#include "compiler/graph/Constraints.h"

#include "compiler/graph/DataSizes.h"

#include "compiler/graph/Shape.h"
#include "mlir/IR/Builders.h"
#include "support/random/ConstraintSearch.h"

using namespace mlir;

namespace tenon::tn {
namespace {

constexpr llvm::StringLiteral kConstraints = "tn.constraints";

Assumptions *listenerOf(AffineExpr dim) {
  TnDialect *dialect = dim ? dim.getContext()->getLoadedDialect<TnDialect>() : nullptr;
  return dialect ? dialect->assumptions : nullptr;
}

} // namespace

ScopedAssumptions::ScopedAssumptions(MLIRContext *context, Assumptions &listener)
    : dialect(context->getOrLoadDialect<TnDialect>()), before(dialect->assumptions) {
  dialect->assumptions = &listener;
}

ScopedAssumptions::~ScopedAssumptions() { dialect->assumptions = before; }

bool assume(ConstraintKind kind, AffineExpr left, AffineExpr right) {
  Assumptions *listener = listenerOf(left);
  return listener && right && listener->assume(kind, left, right);
}

bool assumeIfHeard(ConstraintKind kind, AffineExpr left, AffineExpr right) {
  return !listenerOf(left) || assume(kind, left, right);
}

bool hasDivision(AffineExpr expression) {
  bool found = false;
  expression.walk([&](AffineExpr part) {
    found |= part.getKind() == AffineExprKind::FloorDiv ||
             part.getKind() == AffineExprKind::CeilDiv || part.getKind() == AffineExprKind::Mod;
  });
  return found;
}

SmallVector<Constraint> constraintsOf(ModuleOp module) {
  SmallVector<Constraint> constraints;
  if (ArrayAttr list = module->getAttrOfType<ArrayAttr>(kConstraints)) {
    for (ConstraintAttr entry : list.getAsRange<ConstraintAttr>()) {
      AffineMap shapes = entry.getShapes();
      constraints.push_back(
          {entry.getKind(), shapes.getResult(0), shapes.getResult(1), entry.getNode().str()});
    }
  }
  return constraints;
}

void storeConstraints(ModuleOp module, ArrayRef<Constraint> constraints) {
  MLIRContext *context = module.getContext();
  SmallVector<Attribute> list;
  for (const Constraint &constraint : constraints) {
    AffineMap shapes = symbolMap({constraint.left, constraint.right}, context);
    list.push_back(ConstraintAttr::get(context, constraint.kind, shapes, constraint.node));
  }
  if (!list.empty()) {
    module->setAttr(kConstraints, ArrayAttr::get(context, list));
  }
}

SmallVector<AffineExpr> statedDims(func::FuncOp function, unsigned argument) {
  if (AffineMapAttr stated = function.getArgAttrOfType<AffineMapAttr>(argument, kStatedDims)) {
    return SmallVector<AffineExpr>(stated.getValue().getResults());
  }
  return getDims(function.getArgumentTypes()[argument]);
}

namespace {

bool holds(const Constraint &constraint, ArrayRef<int64_t> values) {
  std::optional<int64_t> left = evaluate(constraint.left, values);
  std::optional<int64_t> right = evaluate(constraint.right, values);
  if (!left || !right) {
    return false;
  }
  switch (constraint.kind) {
  case ConstraintKind::equal:
    return *left == *right;
  case ConstraintKind::equal_or_one:
    return *left == *right || *left == 1;
  case ConstraintKind::divisible:
    return *right > 0 && *left % *right == 0;
  case ConstraintKind::at_least:
    return *left >= *right;
  }
  return false;
}

} // namespace

bool satisfyConstraints(func::FuncOp function, MutableArrayRef<int64_t> values) {
  ModuleOp module = function->getParentOfType<ModuleOp>();
  SmallVector<Constraint> conditions = constraintsOf(module);
  llvm::MapVector<unsigned, Operation *> binders = sizeBinders(function);
  llvm::erase_if(conditions, [&](const Constraint &condition) {
    return llvm::any_of(binders, [&](const auto &binder) {
      return condition.left.isFunctionOfSymbol(binder.first) ||
             condition.right.isFunctionOfSymbol(binder.first);
    });
  });
  for (BlockArgument argument : function.getArguments()) {
    for (auto [stated, dim] : llvm::zip_equal(statedDims(function, argument.getArgNumber()),
                                              getDims(argument.getType()))) {
      if (stated != dim) {
        conditions.push_back({ConstraintKind::equal, dim, stated, ""});
      }
    }
  }
  SymbolList symbols(module);
  SmallVector<SymbolRange> ranges;
  for (const Symbol &symbol : symbols.symbols()) {
    ranges.push_back({symbol.min, symbol.max});
  }
  return satisfy(values, ranges, conditions.size(),
                 [&](size_t condition, std::span<const int64_t> tried) {
                   return holds(conditions[condition], ArrayRef(tried.data(), tried.size()));
                 });
}

} // namespace tenon::tn
