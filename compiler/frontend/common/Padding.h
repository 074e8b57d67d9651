// Padding by sizes, which may be numbers or expressions of symbols.
#pragma once

#include "compiler/frontend/common/Emitter.h"

namespace tenon::frontend {

/// x with as many elements more before and behind each dim; numbers may be negative, which takes
/// elements off. `value` is a scalar for the constant mode; null for zero, and for other modes.
/// Null after a failure.
mlir::Value padBy(Emitter &c, mlir::Value x, mlir::Value value,
                  llvm::ArrayRef<mlir::AffineExpr> begins, llvm::ArrayRef<mlir::AffineExpr> ends,
                  tn::PadMode mode);

} // namespace tenon::frontend
