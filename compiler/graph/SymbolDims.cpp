// Walks expressions.
#include "compiler/graph/SymbolDims.h"

#include "compiler/graph/DataSizes.h"

using namespace mlir;

namespace tenon::tn {

SymbolDims::SymbolDims(unsigned theSymbol, Operation *function) : symbol(theSymbol) {
  decided.insert(symbol);
  for (auto &[computed, binder] : sizeBinders(function)) {
    decided.insert(computed);
  }
}

bool SymbolDims::names(AffineExpr dim) const {
  bool found = !dim;
  if (dim) {
    dim.walk([&](AffineExpr part) {
      AffineSymbolExpr named = dyn_cast<AffineSymbolExpr>(part);
      found |= named && decided.contains(named.getPosition());
    });
  }
  return found;
}

bool SymbolDims::names(Operation *op) const {
  return llvm::any_of(symbolsNamed(op), [&](unsigned named) { return decided.contains(named); });
}

bool SymbolDims::isFree(Type type) const {
  return llvm::none_of(getDims(type), [&](AffineExpr dim) { return names(dim); });
}

AffineExpr SymbolDims::groupOf(AffineExpr dim) const {
  if (!dim) {
    return AffineExpr();
  }
  AffineExpr own = getAffineSymbolExpr(symbol, dim.getContext());
  AffineExpr group = simplify(dim.replace(own, getAffineConstantExpr(1, dim.getContext())));
  bool isMultiple = group && !names(group) && sameDim(multiplyDims(own, group), dim);
  return isMultiple ? group : AffineExpr();
}

bool SymbolDims::isMultiple(AffineExpr dim) const { return static_cast<bool>(groupOf(dim)); }

std::optional<int64_t> SymbolDims::onlyAxis(Type type) const {
  std::optional<int64_t> axis;
  for (auto [i, dim] : llvm::enumerate(getDims(type))) {
    if (!names(dim)) {
      continue;
    }
    if (axis || !isMultiple(dim)) {
      return std::nullopt;
    }
    axis = static_cast<int64_t>(i);
  }
  return axis;
}

} // namespace tenon::tn
