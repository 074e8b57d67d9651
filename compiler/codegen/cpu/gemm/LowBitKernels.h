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

/// Numbers of the depth, at most, that are added up before the result gets their sum: whole blocks
/// where they are no longer, else parts of one. Products of many rows multiply as many at a time.
/// Short chains leave a processor others to go on with where a row is alone.
inline constexpr int64_t kLowBitChain = 32;

/// Symbol of the kernel that takes a panel apart: void(const int32_t *b, float *to, int64_t count,
/// int64_t block) writes [count x 32], from the beginning of a block on.
std::string decodeSymbol(const tn::BlockRows &layout);

/// Symbol of the kernel that multiplies few rows: C[rows x 32] = A[rows x k] * B[k x 32], rows from
/// 1 to kLowBitRows. void(const float *a, int64_t lda, const int32_t *b, float *c, int64_t
/// ldc, int64_t k, int64_t block, int64_t rows). No alignment is assumed.
std::string lowBitSymbol(const tn::BlockRows &layout);

/// Rows of A rounded to signed bytes (tn.round_blocks), in words of 32 bits: for each block its
/// scale as an f32, then the sum of its numbers as an f32 or, for weights without zero points,
/// what their common one times that sum adds, as an i32; then the numbers, of each eight by weights
/// of 4 bits the even ones first. What a short block lacks is zeros.
struct RoundedRows {
  const tn::BlockRows &layout;
  static constexpr int64_t kHeader = 2, kAlign = 16;
  int64_t blockWords() const { return kHeader + layout.block / 4; }
  int64_t stride() const { return llvm::alignTo(layout.blocks() * blockWords(), kAlign); }
};

/// Symbol of the kernel that makes them: void(const float *a, int64_t lda, int32_t *to, int64_t
/// ldto, int64_t k, int64_t block, int64_t rows).
std::string roundSymbol(const tn::BlockRows &layout);

/// Symbol of the kernel that multiplies them as integers, any number of rows, each with the same
/// result beside any others: void(const int32_t *a, int64_t lda, const int32_t *b, float *c,
/// int64_t ldc, int64_t k, int64_t block, int64_t rows).
std::string integerSymbol(const tn::BlockRows &layout);

/// All these symbols.
std::vector<std::string> lowBitSymbols();

/// Adds the kernels of roundSymbol and of integerSymbol to a module.
void buildRoundRows(mlir::ModuleOp module, engine::CpuLevel level, const tn::BlockRows &layout);
void buildIntegerProduct(mlir::ModuleOp module, engine::CpuLevel level,
                         const tn::BlockRows &layout);

/// A module with the function of that name, one of these or of MicroKernel.h's, and what it calls.
mlir::OwningOpRef<mlir::ModuleOp> buildProductKernels(mlir::MLIRContext *context,
                                                      engine::CpuLevel level, llvm::StringRef name);

} // namespace tenon::codegen::cpu
