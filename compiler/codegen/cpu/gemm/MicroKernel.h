// The product micro-kernels, one family a level and type, shared by every region with a
// contraction: C[m x 32] (+)= A[m x k] * B[k x 32] with C kept in registers. Integers wrap.
#pragma once

#include "engine/Level.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace tenon::codegen::cpu {

/// Columns of a panel of packed weights, for every level.
inline constexpr int64_t kPanel = 32;

/// What is multiplied, in words of 32 bits: one element of f32 or i32, summed in itself, four of
/// the depth of u8 (A) and s8 (B), summed in i32, or two of bf16, summed in f32. Strides and depths
/// of kernels count words.
enum class ProductType : uint8_t { F32, I32, U8S8, BF16 };
inline constexpr ProductType kProductTypes[] = {ProductType::F32, ProductType::I32,
                                                ProductType::U8S8, ProductType::BF16};

/// Elements of the depth in a word.
constexpr int64_t elementsOfWord(ProductType type) {
  return type == ProductType::U8S8 ? 4 : type == ProductType::BF16 ? 2 : 1;
}
/// Whether sums are f32; else they are i32.
constexpr bool sumsFloats(ProductType type) {
  return type == ProductType::F32 || type == ProductType::BF16;
}

/// Most rows one call computes (any m from 1 to this has its own symbol).
int64_t maxRows(engine::CpuLevel level, ProductType type);

/// Columns of the narrower kernels, which read and write the first of a panel's: a panel with few
/// columns in use costs what those cost. Of f32 alone.
inline constexpr int64_t kNarrowColumns[] = {8, 16};

/// Symbol of the kernel for `rows` rows: `tenon_product_f32_<rows>` (accumulating:
/// `..._acc_<rows>`; of few columns: `tenon_product_f32_by8_<rows>`). C type: void(const float *a,
/// int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t k, const void *next,
/// int64_t step). B's row i is b[i * ldb .. +31]; A's row stride may be any value (rows may
/// overlap). No alignment is assumed. Meanwhile `step` bytes from `next` on are fetched with each
/// step of k, where registers are wide; nothing need be there.
/// Of other types the same with their names for f32 and words and sums of theirs for float.
std::string productSymbol(int64_t rows, bool accumulate, ProductType type = ProductType::F32,
                          int64_t columns = kPanel);

/// Symbol of the kernel for any number of rows, cut into blocks of almost equal size, or of the
/// narrower one for so many columns: void(const float *a, int64_t lda, const float *b, int64_t ldb,
/// float *c, int64_t ldc, int64_t k, int64_t rows, int64_t accumulate)
std::string anyRowsSymbol(ProductType type, int64_t columns = kPanel);

/// The same where each row is summed in one order, however many they are: on tiles, where a level
/// has tiles of bf16. Of other types it is anyRowsSymbol.
std::string invariantSymbol(ProductType type, int64_t columns = kPanel);

/// A module with the function of that name, one of these or of PanelPacking.h, and what
/// it calls, in `vector` and `llvm` form.
mlir::OwningOpRef<mlir::ModuleOp> buildGemmKernels(mlir::MLIRContext *context,
                                                   engine::CpuLevel level, llvm::StringRef name);

} // namespace tenon::codegen::cpu
