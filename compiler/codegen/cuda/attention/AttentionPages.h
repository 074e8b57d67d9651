// Attention whose keys and values lie in pages of several sequences (tn.paged_attention): what both
// forms of its kernels have of it. Relies on AttentionProblem::sequences.
#pragma once

#include "compiler/codegen/cuda/attention/AttentionKernels.h"
#include "compiler/graph/TnRare.h"

namespace tenon::codegen::cuda {

/// The problem of a region that holds one tn.paged_attention alone.
MatchResult<AttentionProblem> matchPagedAttention(mlir::func::FuncOp region);

/// Blocks of `rows` rows that all sequences have at most, where a token has `rowsOfToken`: one of
/// each, and what their tokens fill besides the first.
mlir::AffineExpr rowBlocksOf(const AttentionProblem &problem, int64_t rows, int64_t rowsOfToken);

/// Whose rows a block does (all i32): its sequence, that one's first token of the step, its tokens,
/// its positions with them, and the block's number among those of the sequence.
struct SequencePlace {
  mlir::Value sequence, firstToken, tokens, length, rowBlock;
};

/// Of block number `number` of rowBlocksOf. A sequence that is beyond the tokens or its table fails
/// the kernel, and has no tokens. Relies on whole warps being here.
SequencePlace placeInSequence(const ThreadBuilder &t, KernelFrame &frame,
                              const AttentionProblem &problem, mlir::Value number, int64_t rows,
                              int64_t rowsOfToken);

/// The page (i64) of a sequence's position; behind the last one it is the last one's. One that is
/// none fails the kernel.
mlir::Value pageOf(const ThreadBuilder &t, KernelFrame &frame, const AttentionProblem &problem,
                   mlir::Value sequence, mlir::Value key, mlir::Value length);

/// Zeros for `heads` heads from `firstHead` on of the tokens of no sequence, of which every
/// `blocks`-th from number `block` is this block's.
void clearRest(const ThreadBuilder &t, KernelFrame &frame, const AttentionProblem &problem,
               mlir::Value block, mlir::Value blocks, mlir::Value firstHead, int64_t heads,
               int64_t threads);

/// softcap * tanh(scale * dot / softcap), to some 1e-7 of the cap.
mlir::Value cappedScore(const ThreadBuilder &t, mlir::Value dot, const AttentionProblem &problem);

} // namespace tenon::codegen::cuda
