// How the regions of each strategy are put into a kernel's frame. Each function fills the kernel's
// body with loops, linalg on memrefs, vectors and product calls, and says what the grid is.
#pragma once

#include "compiler/codegen/cpu/KernelBuilder.h"
#include "engine/CpuLevel.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tenon::codegen::cpu {

/// Fills `kernel` for the `tn` function `source`. Gives the number of grid points as an expression
/// over the region's symbols. Errors are reported as diagnostics.
using StrategyFn = mlir::FailureOr<mlir::AffineExpr> (*)(KernelBuilder &kernel,
                                                         mlir::func::FuncOp source,
                                                         engine::CpuLevel level);

/// linalg on tensors, tiled over the grid with everything fused, then bufferized: elementwise,
/// rows, single, depthwise.
mlir::FailureOr<mlir::AffineExpr> lowerTiled(KernelBuilder &kernel, mlir::func::FuncOp source,
                                             engine::CpuLevel level);

/// Tiles by the product kernel: contraction.
mlir::FailureOr<mlir::AffineExpr> lowerContraction(KernelBuilder &kernel, mlir::func::FuncOp source,
                                                   engine::CpuLevel level);

/// Scores, softmax and the product with V by query blocks: attention.
mlir::FailureOr<mlir::AffineExpr> lowerAttention(KernelBuilder &kernel, mlir::func::FuncOp source,
                                                 engine::CpuLevel level);

} // namespace tenon::codegen::cpu
