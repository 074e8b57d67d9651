// The product micro-kernels in Arm's registers of 128 bits. Four words of each row of A are loaded
// at once. Rows are multiplied by pairs where a level has matrix instructions for the type, usmmla
// for bytes and bfmmla for bf16: two rows of A by two columns of B over two words of the depth;
// else word by word, each taken from its lane. Panels are those of the other levels.
#pragma once

#include "compiler/codegen/cpu/gemm/MicroKernel.h"

namespace tenon::codegen::cpu {

/// Whether these are the level's kernels for the type.
bool hasArmProduct(engine::CpuLevel level, ProductType type);

/// Whether rows are multiplied by pairs, if there are more than two.
bool multipliesByPairs(engine::CpuLevel level, ProductType type);

/// Most rows of a kernel.
int64_t mostArmRows(engine::CpuLevel level, ProductType type);

/// Adds the kernel of that many rows and columns, with productSymbol's name.
void buildArmProduct(mlir::ModuleOp module, engine::CpuLevel level, ProductType type, int64_t rows,
                     bool accumulate, int64_t columns);

} // namespace tenon::codegen::cpu
