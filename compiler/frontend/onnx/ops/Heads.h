// What the forms of attention share: heads as a dim of their own, and their rotation.
#pragma once

#include "compiler/frontend/common/AttentionScores.h"
#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

/// Input `i` with dims [B, S, H * D] as [B, H, S, D]; one of rank 4 stays. The attribute gives H.
mlir::Value splitHeads(NodeContext &c, unsigned i, llvm::StringRef attribute);
mlir::Value splitHeads(NodeContext &c, mlir::Value x, int64_t heads);
/// Key or value heads [B, Hk, S, D] repeated so that there is one for each query head.
mlir::Value repeatHeads(NodeContext &c, mlir::Value x, mlir::AffineExpr heads);
/// [B, H, S, D] as [B, S, H * D].
mlir::Value mergeHeads(NodeContext &c, mlir::Value x);
/// x [B, S, H, D] with the first `rotated` elements of each head turned by angles whose cosines and
/// sines are [.., S, 1, rotated / 2]; pairs lie side by side, or in two halves.
mlir::Value rotate(NodeContext &c, mlir::Value x, mlir::Value cosine, mlir::Value sine,
                   int64_t rotated, bool interleaved);

} // namespace tenon::onnx
