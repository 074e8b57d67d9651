// Walks operations for symbols. Relies on types and affine maps being the only places of symbols.
#include "compiler/graph/DataSizes.h"

#include "compiler/graph/TnRare.h"

using namespace mlir;

namespace tenon::tn {

llvm::MapVector<unsigned, Operation *> sizeBinders(Operation *root) {
  llvm::MapVector<unsigned, Operation *> binders;
  root->walk([&](TakeFirstOp take) { binders.insert({take.symbol(), take}); });
  return binders;
}

SmallVector<unsigned> symbolsNamed(Operation *root) {
  SmallVector<unsigned> named;
  auto add = [&](ArrayRef<AffineExpr> expressions) {
    for (AffineExpr expression : expressions) {
      expression.walk([&](AffineExpr part) {
        AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(part);
        if (symbol && !llvm::is_contained(named, symbol.getPosition())) {
          named.push_back(symbol.getPosition());
        }
      });
    }
  };
  root->walk([&](Operation *op) {
    for (Type type : op->getResultTypes()) {
      RankedTensorType tensor = dyn_cast<RankedTensorType>(type);
      if (tensor && !tensor.hasStaticShape()) {
        add(getDims(tensor));
      }
    }
    for (NamedAttribute attribute : op->getAttrs()) {
      if (AffineMapAttr map = dyn_cast<AffineMapAttr>(attribute.getValue())) {
        add(map.getValue().getResults());
      }
    }
  });
  return named;
}

} // namespace tenon::tn
