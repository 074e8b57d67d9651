// Removing dims of 1, where a run may decide which are.
#pragma once

#include "compiler/frontend/common/Emitter.h"

namespace tenon::frontend {

/// The dims without those that are 1. Of one that varies `isOne` says whether it is removed: a
/// constraint holds every run to 1, or to 2 and more where it stays. It stays unconstrained where
/// `isOne` gives none. None after a failure.
std::optional<tn::Dims> squeezeAll(Emitter &c, llvm::ArrayRef<mlir::AffineExpr> dims,
                                   llvm::function_ref<std::optional<bool>(mlir::AffineExpr)> isOne);

/// Whether a dim that is removed is 1, by proof or by constraint; false after a failure.
bool requireOne(Emitter &c, mlir::AffineExpr dim);

} // namespace tenon::frontend
