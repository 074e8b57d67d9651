// The product micro-kernels on the matrix instructions of Arm, which multiply two rows of A by two
// columns of B over two words of the depth: usmmla of bytes, bfmmla of bf16. They read the same
// panels as the kernels of single rows.
#pragma once

#include "compiler/codegen/cpu/gemm/MicroKernel.h"

namespace tenon::codegen::cpu {

/// Fewer rows are multiplied one by one: half of each instruction would be idle.
inline constexpr int64_t kMinPairedRows = 3;
/// Most rows of a kernel.
inline constexpr int64_t kMaxPairedRows = 8;

/// Whether the level multiplies the type by pairs of rows.
bool multipliesByPairs(engine::CpuLevel level, ProductType type);

/// Adds the kernel of that many rows, kMinPairedRows or more, and columns, with productSymbol's
/// name.
void buildPairProduct(mlir::ModuleOp module, ProductType type, int64_t rows, bool accumulate,
                      int64_t columns);

} // namespace tenon::codegen::cpu
