// What every form of attention does to its scores: their scale, and which keys a query sees.
#pragma once

#include "compiler/frontend/common/Emitter.h"

namespace tenon::frontend {

/// What the scores of queries [.., width] are multiplied by: `given`, or 1 / sqrt(width). None
/// after a gap.
std::optional<double> scoreScale(Emitter &c, mlir::Value q, std::optional<double> given);

/// 0 where a key may be seen, minus infinity elsewhere.
mlir::Value additive(Emitter &c, mlir::Value allowed, mlir::Type element);

/// Query i sees keys up to i + offset; null is an offset of 0.
mlir::Value causalAddend(Emitter &c, mlir::AffineExpr queries, mlir::AffineExpr keys,
                         mlir::AffineExpr offset, mlir::Type element);

} // namespace tenon::frontend
