// The product micro-kernels in SVE's registers of 256 and 512 bits, whose length the processor
// says as it runs. With others a level's kernels of 128 bits are called.
#pragma once

#include "compiler/codegen/cpu/gemm/MicroKernel.h"

namespace tenon::codegen::cpu {

/// Whether the level has such kernels of the type: f32, bytes and bf16.
bool hasScalableProduct(engine::CpuLevel level, ProductType type);

/// Most rows of a kernel.
inline constexpr int64_t kMaxScalableRows = 8;

/// Behind the names of the kernels, and of the function of any number of rows.
inline constexpr llvm::StringLiteral kScalable = "_scalable";

/// Adds the kernel of that many rows.
void buildScalableProduct(mlir::ModuleOp module, ProductType type, int64_t rows, bool accumulate,
                          int64_t columns);

/// Adds the function `name`, of the type of anyRowsSymbol's: calls `scalable` where registers have
/// 256 or 512 bits, else `fixed`.
void buildByLength(mlir::ModuleOp module, llvm::StringRef name, llvm::StringRef scalable,
                   llvm::StringRef fixed);

} // namespace tenon::codegen::cpu
