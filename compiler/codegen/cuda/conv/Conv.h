// Convolutions as implicit GEMM, with whatever elementwise ops follow. Relies on ConvMatch.h for
// the operands and on gemm/TiledGemmKernel.h for the kernel.
#pragma once

#include "compiler/codegen/cuda/conv/ConvMatch.h"
#include "compiler/codegen/cuda/gemm/TiledGemm.h"
#include "compiler/codegen/cuda/gemm/TiledGemmTile.h"

#include <vector>

namespace tenon::codegen::cuda {

/// Elements of a tensor of these dims, with a guess of sizes that vary.
using CountElements = llvm::function_ref<int64_t(llvm::ArrayRef<mlir::AffineExpr>)>;
/// Sizes and bytes of a problem, for estimates.
GemmSizes convSizes(RegionBuilder &region, const ConvProblem &problem, CountElements count);
/// All tiles that a problem can be computed with on a target.
std::vector<GemmTile> convTiles(const ConvProblem &problem, const target::Target &gpu);
/// One kernel. False after a diagnostic.
bool emitConv(RegionBuilder &region, const ConvProblem &problem, const GemmTile &tile);

} // namespace tenon::codegen::cuda
