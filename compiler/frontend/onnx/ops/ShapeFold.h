// Evaluation of operators that move elements, on known integers. None where a result is not known
// or the node is not valid; the operator itself then runs and says why.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

std::optional<Sizes> foldConcat(NodeContext &c, llvm::ArrayRef<Sizes> in);
std::optional<Sizes> foldSlice(NodeContext &c, llvm::ArrayRef<Sizes> in);
std::optional<Sizes> foldReshape(NodeContext &c, llvm::ArrayRef<Sizes> in);
std::optional<Sizes> foldSqueeze(NodeContext &c, llvm::ArrayRef<Sizes> in, bool unsqueeze);
std::optional<Sizes> foldFlatten(NodeContext &c, const Sizes &x);
std::optional<Sizes> foldTranspose(NodeContext &c, const Sizes &x);
std::optional<Sizes> foldTile(llvm::ArrayRef<Sizes> in);
std::optional<llvm::SmallVector<Sizes>> foldSplit(NodeContext &c, llvm::ArrayRef<Sizes> in);
std::optional<Sizes> foldExpand(llvm::ArrayRef<Sizes> in);
std::optional<Sizes> foldRange(NodeContext &c, llvm::ArrayRef<Sizes> in);
/// What a Cast makes of floats that are sizes times constants, rounded down or not yet.
std::optional<Sizes> foldScaled(NodeContext &c);
std::optional<Sizes> foldConstantOfShape(NodeContext &c, const Sizes &shape);

} // namespace tenon::onnx
