// Operands of attention among the values of a graph: where they are stored, without the transposes,
// scales and repetitions between. Relies on simplify, after which transposes do not follow each
// other.
#pragma once

#include "compiler/opt/Match.h"

namespace tenon::opt {

/// Attention reads batch, head, position, feature; heads inside means position before head.
inline constexpr int64_t kHeadsInner[] = {0, 2, 1, 3};

/// Dims as attention has them: without heads or batch dims of one stand in their places, several
/// batch dims are one.
tn::Dims liftedDims(llvm::ArrayRef<mlir::AffineExpr> dims, mlir::MLIRContext *context);
/// A value with such dims.
mlir::Value lift(mlir::PatternRewriter &rewriter, mlir::Value value);
/// A permutation as it is between lifted dims; empty if that is none.
Permutation liftedOrder(llvm::ArrayRef<int64_t> order);

/// What each of several heads in a row reads: value = reshape(broadcast(x)), from [.., Hk, 1, ..]
/// by
/// [.., Hk, n, ..] to [.., Hk n, ..], where `heads` is the number of that dim of the value. Null if
/// the value is no such repetition.
mlir::Value beforeRepeat(mlir::PatternRewriter &rewriter, mlir::Value value, int64_t heads);

/// An operand of attention: where it is stored, how, and the scale that was taken off it.
struct Operand {
  mlir::Value value;
  bool headsInner = false;
  double scale = 1;
};

/// Brings a value of dims batch, head, position, feature (or, if `swapped`, feature before
/// position), of which the first may be missing or several, into one of the two orders that
/// attention reads, taking off transposes and scales, and, if `sharesHeads`, repeated heads.
Operand makeOperand(mlir::PatternRewriter &rewriter, mlir::Value value, bool swapped,
                    bool sharesHeads, Constants &constants);

} // namespace tenon::opt
