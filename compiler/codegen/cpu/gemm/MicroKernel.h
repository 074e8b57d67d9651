// The product micro-kernels of f32 and of i32, one family a level, shared by every region with a
// contraction: C[m x 32] (+)= A[m x k] * B[k x 32] with C kept in registers. Integers wrap.
#pragma once

#include "engine/Level.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace tenon::codegen::cpu {

/// Columns of a panel of packed weights, for every level.
inline constexpr int64_t kPanel = 32;

/// Most rows one call computes (any m from 1 to this has its own symbol).
int64_t maxRows(engine::CpuLevel level);

/// Columns of the narrower kernels, which read and write the first of a panel's: a panel with few
/// columns in use costs what those cost. Of f32 alone.
inline constexpr int64_t kNarrowColumns[] = {8, 16};

/// Symbol of the kernel for `rows` rows: `tenon_product_f32_<rows>` (accumulating:
/// `..._acc_<rows>`; of few columns: `tenon_product_f32_by8_<rows>`). C type: void(const float *a,
/// int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t k) Strides are in
/// elements. B's row i is b[i * ldb .. +31]; A's row stride may be any value (rows may overlap). No
/// alignment is assumed. Of integers the same with int32_t for float and i32 for f32.
std::string productSymbol(int64_t rows, bool accumulate, bool ofIntegers = false,
                          int64_t columns = kPanel);

/// The kernel for any number of rows, cut into blocks of almost equal size:
/// void(const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t k,
///      int64_t rows, int64_t accumulate)
inline constexpr llvm::StringLiteral kProduct = "tenon_product_f32";
inline constexpr llvm::StringLiteral kIntegerProduct = "tenon_product_i32";
/// Symbol of that kernel, or of the narrower one for so many columns.
std::string anyRowsSymbol(bool ofIntegers, int64_t columns = kPanel);

/// Lays out a panel from rows of a transposed B: to[i * 32 + j] = from[j * stride + i] for i < k, j
/// < count; 0 for j from count to 31. 1 <= count <= 32. void(const float *from, int64_t stride,
/// float *to, int64_t k, int64_t count). Also for integers, as it only moves.
inline constexpr llvm::StringLiteral kPackTransposed = "tenon_product_pack_transposed_f32";

/// Vectors of as many lanes as there are of them, transposed.
llvm::SmallVector<mlir::Value> transposeSquare(mlir::OpBuilder &builder, mlir::Location location,
                                               llvm::SmallVector<mlir::Value> square);

/// A module with the function of that name, one of anyRowsSymbol's or kPackTransposed, and what it
/// calls, in `vector` and `llvm` form.
mlir::OwningOpRef<mlir::ModuleOp> buildGemmKernels(mlir::MLIRContext *context,
                                                   engine::CpuLevel level, llvm::StringRef name);

} // namespace tenon::codegen::cpu
