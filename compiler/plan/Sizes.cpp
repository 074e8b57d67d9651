// Affine expressions and region programs become expressions of the plan's table, which folds and
// shares them. Relies on programs being valid postfix.
#include "compiler/plan/Sizes.h"

#include "compiler/graph/Constraints.h"
#include "compiler/graph/ElementType.h"
#include "compiler/graph/State.h"
#include "compiler/graph/Steps.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/BuiltinTypes.h"
#include "support/Check.h"

using namespace mlir;

namespace tenon::plan {

SizeTranslator::SizeTranslator(func::FuncOp function, ArrayRef<BlockArgument> inputs,
                               engine::Plan &enginePlan)
    : module(function->getParentOfType<ModuleOp>()), plan(enginePlan), declared(module),
      values(declared.symbols().size(), engine::kNone) {
  for (unsigned symbol : tn::sessionSymbols(function)) {
    bindOfSession(symbol);
  }
  for (auto [index, input] : llvm::enumerate(inputs)) {
    bindStated(tn::statedDims(function, input.getArgNumber()), index);
  }
  for (BlockArgument input : function.getArguments()) {
    for (auto [stated, dim] : llvm::zip_equal(tn::statedDims(function, input.getArgNumber()),
                                              tn::getDims(input.getType()))) {
      bindDetermined(stated, dim);
    }
  }
}

void SizeTranslator::bindOfSession(unsigned symbol) {
  const tn::Symbol &declaration = declared.symbols()[symbol];
  values[symbol] = plan.exprs.symbol(static_cast<uint32_t>(plan.symbols.size()));
  plan.symbols.push_back({.name = declaration.name,
                          .min = declaration.min,
                          .max = declaration.max,
                          .input = engine::kNone,
                          .dim = engine::kNone,
                          .isOfSession = true,
                          .preset = tn::presetOf(module, declaration)});
}

void SizeTranslator::bindStated(ArrayRef<AffineExpr> dims, size_t input) {
  for (auto [dim, expression] : llvm::enumerate(dims)) {
    AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(expression);
    if (!symbol || values[symbol.getPosition()] != engine::kNone) {
      continue;
    }
    const tn::Symbol &declaration = declared.symbols()[symbol.getPosition()];
    values[symbol.getPosition()] = plan.exprs.symbol(static_cast<uint32_t>(plan.symbols.size()));
    plan.symbols.push_back({.name = declaration.name,
                            .min = declaration.min,
                            .max = declaration.max,
                            .input = static_cast<uint32_t>(input),
                            .dim = static_cast<uint32_t>(dim)});
  }
}

/// A symbol that a constraint made: the dim is a line in it.
void SizeTranslator::bindDetermined(AffineExpr stated, AffineExpr dim) {
  std::optional<tn::LinearDim> line = tn::linearDim(dim);
  if (!line || values[line->symbol] != engine::kNone) {
    return;
  }
  engine::ExprId steps = plan.exprs.sub(translate(stated), plan.exprs.constant(line->offset));
  values[line->symbol] = plan.exprs.floorDiv(steps, plan.exprs.constant(line->factor));
}

void SizeTranslator::addDataSymbols(ArrayRef<tn::RegionOp> order) {
  for (tn::RegionOp region : order) {
    region.walk([&](tn::TakeFirstOp take) {
      const tn::Symbol &declaration = declared.symbols()[take.symbol()];
      engine::ExprId bound = translate(tn::getDims(take.getX().getType()).front());
      values[take.symbol()] = plan.exprs.symbol(static_cast<uint32_t>(plan.symbols.size()));
      plan.symbols.push_back({.name = declaration.name,
                              .min = declaration.min,
                              .max = declaration.max,
                              .input = engine::kNone,
                              .dim = engine::kNone,
                              .bound = bound});
    });
  }
}

bool SizeTranslator::growsWithData(engine::ExprId size) const {
  struct Part {
    bool hasData;
    bool grows;
    bool isNegative;
  };
  SmallVector<Part> stack;
  for (const engine::ExprTerm &term : plan.exprs.program(size)) {
    if (term.op == engine::ExprOp::Constant) {
      stack.push_back({false, true, term.value < 0});
      continue;
    }
    if (term.op == engine::ExprOp::Symbol) {
      stack.push_back({plan.symbols[term.value].isDataDependent(), true, false});
      continue;
    }
    Part right = stack.pop_back_val();
    Part &left = stack.back();
    bool isFixed = !left.hasData && !right.hasData;
    switch (term.op) {
    case engine::ExprOp::Mul:
      left.grows &= right.grows && !left.isNegative && !right.isNegative;
      break;
    case engine::ExprOp::Sub:
    case engine::ExprOp::FloorDiv:
    case engine::ExprOp::CeilDiv:
      left.grows &= !right.hasData;
      break;
    case engine::ExprOp::Mod:
      left.grows = false;
      break;
    default:
      left.grows &= right.grows;
    }
    left = {left.hasData || right.hasData, left.grows || isFixed, false};
  }
  return stack.back().grows;
}

void SizeTranslator::addConstraints() {
  for (const tn::Constraint &constraint : tn::constraintsOf(module)) {
    plan.constraints.push_back({static_cast<engine::ConstraintKind>(constraint.kind),
                                translate(constraint.left), translate(constraint.right),
                                constraint.node});
  }
}

bool SizeTranslator::isBound(AffineExpr expression) const {
  bool areBound = true;
  expression.walk([&](AffineExpr part) {
    AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(part);
    areBound &= !symbol || values[symbol.getPosition()] != engine::kNone;
  });
  return areBound;
}

engine::ExprId SizeTranslator::translate(AffineExpr expression) {
  if (AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(expression)) {
    return plan.exprs.constant(constant.getValue());
  }
  if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(expression)) {
    engine::ExprId value = values[symbol.getPosition()];
    if (value == engine::kNone) {
      unbound = declared.symbols()[symbol.getPosition()].name;
      return plan.exprs.constant(0);
    }
    return value;
  }
  if (std::optional<tn::Extremum> choice = tn::asExtremum(expression, declared)) {
    engine::ExprId first = translate(choice->first), second = translate(choice->second);
    return choice->isGreater ? plan.exprs.max(first, second) : plan.exprs.min(first, second);
  }
  AffineBinaryOpExpr binary = cast<AffineBinaryOpExpr>(expression);
  engine::ExprId left = translate(binary.getLHS());
  engine::ExprId right = translate(binary.getRHS());
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return plan.exprs.add(left, right);
  case AffineExprKind::Mul:
    return plan.exprs.mul(left, right);
  case AffineExprKind::FloorDiv:
    return plan.exprs.floorDiv(left, right);
  case AffineExprKind::CeilDiv:
    return plan.exprs.ceilDiv(left, right);
  default:
    TENON_CHECK(binary.getKind() == AffineExprKind::Mod, "a dim is an expression over symbols");
    return plan.exprs.mod(left, right);
  }
}

SmallVector<engine::ExprId> SizeTranslator::translate(ArrayRef<AffineExpr> expressions) {
  SmallVector<engine::ExprId> ids;
  for (AffineExpr expression : expressions) {
    ids.push_back(translate(expression));
  }
  return ids;
}

engine::ExprId SizeTranslator::bytesOf(Type tensor) {
  AffineExpr count = tn::elementCount(tensor.getContext(), tn::getDims(tensor));
  return plan.exprs.mul(translate(count), plan.exprs.constant(elementBytes(tensor)));
}

engine::ExprId SizeTranslator::substitute(ArrayRef<engine::ExprTerm> program,
                                          ArrayRef<engine::ExprId> symbols) {
  SmallVector<engine::ExprId> stack;
  for (const engine::ExprTerm &term : program) {
    if (term.op == engine::ExprOp::Constant) {
      stack.push_back(plan.exprs.constant(term.value));
    } else if (term.op == engine::ExprOp::Symbol) {
      TENON_CHECK(term.value < static_cast<int64_t>(symbols.size()),
                  "a kernel uses its own symbols");
      stack.push_back(symbols[term.value]);
    } else {
      TENON_CHECK(stack.size() >= 2, "a kernel's size program is valid postfix");
      engine::ExprId right = stack.pop_back_val();
      stack.back() = plan.exprs.binary(term.op, stack.back(), right);
    }
  }
  TENON_CHECK(stack.size() == 1, "a kernel's size program leaves one value");
  return stack.back();
}

int64_t elementBytes(Type tensor) {
  unsigned bits = cast<RankedTensorType>(tensor).getElementTypeBitWidth();
  return bits <= 8 ? 1 : bits / 8;
}

DType dtypeOf(Type tensor) {
  std::optional<DType> dtype = tn::dtypeOf(cast<RankedTensorType>(tensor).getElementType());
  TENON_CHECK(dtype, "tensors hold floats, bools or integers of 8 to 64 bits");
  return *dtype;
}

} // namespace tenon::plan
