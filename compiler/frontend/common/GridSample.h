// Sampling a map at positions that a grid holds, and grids of affine maps.
// Relies on Sampling.h for reading between pixels.
#pragma once

#include "compiler/frontend/common/Sampling.h"

namespace tenon::frontend {

enum class Padding { Zeros, Border, Reflection };

/// The map [N, C, spatial...] at the positions of the grid [N, points..., spatial], which go from
/// -1 to 1, the last dim first: [N, C, points...]. `mode` is "linear", "cubic", "nearest" (ONNX's,
/// of the position as it is) or "padded nearest" (PyTorch's, of the one that the padding gives),
/// which differ halfway between pixels. Null after a failure.
mlir::Value sampleGrid(Emitter &c, mlir::Value map, mlir::Value grid, llvm::StringRef mode,
                       Padding padding, bool alignCorners);

/// The grid of the images of all pixels of `size` [N, C, spatial...] under the matrices theta
/// [N, spatial, spatial + 1]. Null after a failure.
mlir::Value affineGrid(Emitter &c, mlir::Value theta, llvm::ArrayRef<mlir::AffineExpr> size,
                       bool alignCorners);

} // namespace tenon::frontend
