// Products of tensors of any rank: numpy's matmul and einsum.
// Relies on `tn.matmul`, whose operands have two dims or more.
#pragma once

#include "compiler/frontend/common/Emitter.h"

namespace tenon::frontend {

/// numpy's matmul: a list gets a dim of 1, which the result does not have. Null after a failure.
mlir::Value matrixProduct(Emitter &c, mlir::Value a, mlir::Value b);

/// numpy's einsum, from left to right as products of two. A letter that is there twice in an
/// operand takes the diagonal of its dims; a dim of 1 spreads along those of its letter in other
/// operands. Null after a failure; `malformed` is the error of an equation that does not fit its
/// operands.
mlir::Value einsum(Emitter &c, llvm::StringRef equation, llvm::ArrayRef<mlir::Value> operands,
                   ErrorId malformed);

} // namespace tenon::frontend
