// Convolutions as implicit GEMM, with whatever elementwise ops follow. Relies on ConvMatch.h for
// the operands and on gemm/TiledGemmKernel.h for the kernel.
#pragma once

#include "compiler/codegen/cuda/conv/ConvMatch.h"
#include "compiler/codegen/cuda/gemm/TiledGemmTile.h"

#include <vector>

namespace tenon::codegen::cuda {

/// All tiles that a problem can be computed with on a target.
std::vector<GemmTile> convTiles(const ConvProblem &problem, const target::Target &gpu);
/// One kernel. False after a diagnostic.
bool emitConv(RegionBuilder &region, const ConvProblem &problem, const GemmTile &tile);

} // namespace tenon::codegen::cuda
