// Writes affine expressions in postfix form. Relies on engine/Expr.h for the meaning of each term.
#include "compiler/codegen/common/region/Programs.h"

using namespace mlir;

namespace tenon::codegen {
namespace {

using engine::ExprOp;

ExprOp opOf(AffineExprKind kind) {
  switch (kind) {
  case AffineExprKind::Add:
    return ExprOp::Add;
  case AffineExprKind::Mul:
    return ExprOp::Mul;
  case AffineExprKind::FloorDiv:
    return ExprOp::FloorDiv;
  case AffineExprKind::CeilDiv:
    return ExprOp::CeilDiv;
  default:
    return ExprOp::Mod;
  }
}

} // namespace

Program programOf(AffineExpr expression) {
  if (AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(expression)) {
    return {{ExprOp::Constant, constant.getValue()}};
  }
  if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(expression)) {
    return {{ExprOp::Symbol, symbol.getPosition()}};
  }
  AffineBinaryOpExpr binary = cast<AffineBinaryOpExpr>(expression);
  Program program = programOf(binary.getLHS());
  Program right = programOf(binary.getRHS());
  program.insert(program.end(), right.begin(), right.end());
  program.push_back({opOf(binary.getKind())});
  return program;
}

} // namespace tenon::codegen
