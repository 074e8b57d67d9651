// Matrix products as generated kernels, with whatever elementwise ops follow, where no library
// serves a region. Relies on ProductMatch.h for the operands.
#pragma once

#include "compiler/codegen/cuda/gemm/ProductKernel.h"

namespace tenon::codegen::cuda {

/// Whether tensor cores can do a problem: f16 or bf16, and rows that lie on 16-byte borders.
bool fitsTensorCores(const ProductProblem &problem);
/// The tile that is estimated to be the fastest.
ProductTile chooseTile(RegionBuilder &region, const ProductProblem &problem);
/// One kernel. False after a diagnostic.
bool emitProduct(RegionBuilder &region, const ProductProblem &problem, const ProductTile &tile);

} // namespace tenon::codegen::cuda
