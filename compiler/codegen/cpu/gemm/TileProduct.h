// The product micro-kernels on AMX's tiles: blocks of 32 x 32 of C in four tiles, a step of the
// depth of 16 words. They read the same panels as the kernels in vector registers.
#pragma once

#include "compiler/codegen/cpu/gemm/MicroKernel.h"

namespace tenon::codegen::cpu {

/// Fewer rows are multiplied in vector registers: a tile costs the same for one row as for 16.
inline constexpr int64_t kMinTileRows = 4;

/// Rows of a block; words of a step; words of the depth for which all rows meet a panel of B before
/// the next: 24 KiB of it, which stay in the L1 cache, for one reading and writing of C.
inline constexpr int64_t kTileBlockRows = 32, kTileWords = 16, kTileDepth = 12 * kTileWords;

/// Whether the level multiplies the type on tiles.
bool multipliesOnTiles(engine::CpuLevel level, ProductType type);

/// The best level with no more than a level has but its tiles.
engine::CpuLevel withoutTiles(engine::CpuLevel level);

/// Adds the function `name`, of the type of anyRowsSymbol's; calls `fewRows`, of the same type, for
/// fewer rows than kMinTileRows. Without a name for it tiles take any number of rows.
void buildTileProduct(mlir::ModuleOp module, ProductType type, llvm::StringRef name,
                      llvm::StringRef fewRows);

/// Gives the tiles back before a kernel that calls such products returns: after each product they
/// would have to be taken again for the next.
void releaseTiles(mlir::func::FuncOp kernel, engine::CpuLevel level);

} // namespace tenon::codegen::cpu
