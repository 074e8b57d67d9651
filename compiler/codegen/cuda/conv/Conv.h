// Convolutions as implicit GEMM, with whatever elementwise ops follow. Relies on ConvMatch.h for
// the operands and on gemm/ProductKernel.h for the kernel.
#pragma once

#include "compiler/codegen/cuda/conv/ConvMatch.h"
#include "compiler/codegen/cuda/gemm/ProductTile.h"

#include <vector>

namespace tenon::codegen::cuda {

/// All tiles that a problem can be computed with on a target.
std::vector<ProductTile> convTiles(const ConvProblem &problem, const target::Target &gpu);
/// One kernel. False after a diagnostic.
bool emitConv(RegionBuilder &region, const ConvProblem &problem, const ProductTile &tile);

} // namespace tenon::codegen::cuda
