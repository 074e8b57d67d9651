// What lays a B that is computed out in the panels of 32 columns that the product micro-kernels
// read (MicroKernel.h).
#pragma once

#include "engine/Level.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace tenon::codegen::cpu {

/// Lays out a panel from rows of a transposed B: to[i * 32 + j] = from[j * stride + i] for i < k, j
/// < count; 0 for j from count to 31. 1 <= count <= 32. void(const float *from, int64_t stride,
/// float *to, int64_t k, int64_t count). Also for other words, as it only moves.
inline constexpr llvm::StringLiteral kPackTransposed = "tenon_product_pack_transposed_f32";

/// Numbers of elements of a word that packRowsSymbol has a function for.
inline constexpr int64_t kPackedWords[] = {2, 4};

/// Symbol of what lays out a whole panel from `depth` rows of B, of elements that a word of 32 bits
/// holds so many of: to[(i * 32 + j) * elements + e] = from[(i * elements + e) * stride + j], 0
/// behind the last row. void(const void *from, int64_t stride, void *to, int64_t depth)
std::string packRowsSymbol(int64_t elements);

/// Vectors of as many lanes as there are of them, transposed.
llvm::SmallVector<mlir::Value> transposeSquare(mlir::OpBuilder &builder, mlir::Location location,
                                               llvm::SmallVector<mlir::Value> square);

/// Adds the function of that name; false if it is none of these.
bool buildPanelPacking(mlir::ModuleOp module, engine::CpuLevel level, llvm::StringRef name);

} // namespace tenon::codegen::cpu
