// Micro-kernels for weights that are numbers of 4 or 8 bits in rows of blocks (graph/BlockRows.h),
// 32 rows side by side in a panel [word, column]: one takes a panel apart for the product kernels
// of f32, the other multiplies a few rows while it does, and so reads nothing but the panel.
#pragma once

#include "compiler/graph/BlockRows.h"
#include "engine/Level.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace tenon::codegen::cpu {

/// Most rows that the multiplying kernels take.
inline constexpr int64_t kLowBitRows = 8;

/// Symbol of the kernel that takes a panel apart: void(const int32_t *b, float *to, int64_t count,
/// int64_t block) writes [count x 32], from the beginning of a block on.
std::string decodeSymbol(const tn::BlockRows &layout);

/// Rows of A as the multiplying kernel reads them: the element at number `i` of a word is divided
/// by what that number is shifted by in the word, which is a power of two, and behind a row stand
/// the sums of its elements by blocks.
struct LowBitRows {
  const tn::BlockRows &layout;
  int64_t sums() const { return llvm::alignTo(layout.depth, kAlign); } ///< where they begin
  int64_t stride() const { return sums() + llvm::alignTo(layout.blocks(), kAlign); }
  static constexpr int64_t kAlign = 16;
};

/// Symbol of the kernel that makes them: void(const float *a, int64_t lda, float *to, int64_t
/// ldto, int64_t k, int64_t block, int64_t rows).
std::string scaleSymbol(const tn::BlockRows &layout);

/// Symbol of the kernel that multiplies such rows: C[rows x 32] = A[rows x k] * B[k x 32], rows
/// from 1 to kLowBitRows. void(const float *a, int64_t lda, const int32_t *b, float *c, int64_t
/// ldc, int64_t k, int64_t block, int64_t rows). No alignment is assumed.
std::string lowBitSymbol(const tn::BlockRows &layout);

/// All these symbols.
std::vector<std::string> lowBitSymbols();

/// Adds the kernel of scaleSymbol to a module.
void buildScaleRows(mlir::ModuleOp module, engine::CpuLevel level, const tn::BlockRows &layout);

/// A module with the function of that name, one of these or of MicroKernel.h's, and what it calls.
mlir::OwningOpRef<mlir::ModuleOp> buildProductKernels(mlir::MLIRContext *context,
                                                      engine::CpuLevel level, llvm::StringRef name);

} // namespace tenon::codegen::cpu
