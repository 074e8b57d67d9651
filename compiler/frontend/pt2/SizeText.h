// Sizes as PyTorch writes them: calls of sympy's classes, "Add(Mul(Integer(2), Symbol('s0', ...)),
// Integer(1))".
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "support/Result.h"

#include <functional>
#include <string>
#include <string_view>

namespace tenon::pt2 {

/// The expression with each symbol as `symbol` gives it. None (null) for functions that no size of
/// `tn` can say; an error of number TN0240 for text that is no expression.
Result<mlir::AffineExpr>
parseSize(std::string_view text, mlir::MLIRContext *context,
          const std::function<mlir::AffineExpr(const std::string &)> &symbol);

} // namespace tenon::pt2
