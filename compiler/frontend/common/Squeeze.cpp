// The rule that Squeeze.h declares.
#include "compiler/frontend/common/Squeeze.h"

using namespace mlir;

namespace tenon::frontend {

bool requireOne(Emitter &c, AffineExpr dim) {
  // Of a division the reshape to the other dims demands it.
  return tn::hasDivision(dim) || c.require(tn::ConstraintKind::equal, dim, c.constantSize(1),
                                           "a dimension to remove and 1");
}

std::optional<tn::Dims> squeezeAll(Emitter &c, ArrayRef<AffineExpr> dims,
                                   function_ref<std::optional<bool>(AffineExpr)> isOne) {
  tn::Dims kept;
  for (AffineExpr dim : dims) {
    std::optional<int64_t> constant = tn::constantDim(dim);
    std::optional<bool> isRemoved = constant ? std::optional(*constant == 1) : isOne(dim);
    bool isHeld = true;
    if (isRemoved == true) {
      isHeld = requireOne(c, dim);
    } else {
      kept.push_back(dim);
      isHeld = constant || !isRemoved ||
               c.require(tn::ConstraintKind::at_least, dim, c.constantSize(2),
                         "a dimension that is not removed and 2");
    }
    if (!isHeld) {
      return std::nullopt;
    }
  }
  return kept;
}

} // namespace tenon::frontend
