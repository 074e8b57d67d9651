// The instructions of tensor cores and asynchronous copies that all GPUs from sm_80 on have, with
// the layout of their fragments. Relies on every thread of the warp executing them together.
//
// In a warp, lane = 4 g + t with g in [0, 8), t in [0, 4). For D[16 x 8] = A[16 x 16] B[16 x 8] +
// C:
//   A: 4 words; word w holds A[g + 8 (w % 2)][2 t + 8 (w / 2) + {0, 1}]
//   B: 2 words; word w holds B[2 t + 8 w + {0, 1}][g]
//   C, D: 4 floats; float i is C[g + 8 (i / 2)][2 t + i % 2]
// A word is two 16-bit floats, the one with the lower index in its low half.
#pragma once

#include "compiler/codegen/cuda/base/ThreadBuilder.h"

namespace tenon::codegen::cuda {

/// Rows and columns of D, and the depth of one product.
inline constexpr int64_t kMmaRows = 16, kMmaColumns = 8, kMmaDepth = 16;
/// Bytes by which rows of 16-bit tiles in shared memory are padded: with rows of a multiple of 32
/// bytes, the 8 rows of a matrix then lie in different banks.
inline constexpr int64_t kRowPadding = 16;

/// D for fragments `a`, `b` (i32) and `c` (f32); `element` is f16 or bf16.
ThreadBuilder::Values multiply(const ThreadBuilder &t, mlir::Type element,
                               llvm::ArrayRef<mlir::Value> a, llvm::ArrayRef<mlir::Value> b,
                               llvm::ArrayRef<mlir::Value> c);
/// The same of words of four bytes with sums of i32, signed of B and, if `isSigned`, of A: twice
/// the depth.
ThreadBuilder::Values multiplyBytes(const ThreadBuilder &t, bool isSigned,
                                    llvm::ArrayRef<mlir::Value> a, llvm::ArrayRef<mlir::Value> b,
                                    llvm::ArrayRef<mlir::Value> c);

/// Four 8 x 8 matrices of 16-bit elements from shared memory. Lane l gives the address of row l % 8
/// (16 bytes, 16-byte aligned) of matrix l / 8. Word m of a lane holds elements [g][2 t + {0, 1}]
/// of matrix m; transposed, [2 t + {0, 1}][g].
ThreadBuilder::Values loadMatrices(const ThreadBuilder &t, mlir::Value sharedPointer,
                                   bool transposed);
/// The way back, of words of four matrices that are not transposed (sm_90).
void storeMatrices(const ThreadBuilder &t, mlir::Value sharedPointer,
                   llvm::ArrayRef<mlir::Value> words);

/// The row and column (in elements) in a 16 x 16 tile whose address a lane gives to loadMatrices
/// and storeMatrices.
struct TileSpot {
  mlir::Value row, column;
};
/// For words 0 .. 3 to be A of a tile stored [m][k], or, transposed, B of both halves of 8 columns
/// of a tile stored [k][n]: words {0, 1} and {2, 3}.
TileSpot rowsFirst(const ThreadBuilder &t);
/// For words {0, 1} and {2, 3} to be B of both halves of 8 columns of a tile stored [n][k], or,
/// transposed, words 0 .. 3 to be A of a tile stored [k][m].
TileSpot columnsFirst(const ThreadBuilder &t);

/// Starts the copy of `size` bytes (16, 8 or 4) from global to shared memory; the first `bytes`
/// (i32; null: all) are read, the rest are zeros.
void copyAsync(const ThreadBuilder &t, mlir::Value shared, mlir::Value global, mlir::Value bytes,
               int64_t size = 16);
/// Closes a group of copies; waits until at most `pending` groups are under way (for this thread's
/// copies: a barrier makes all threads' visible).
void commitCopies(const ThreadBuilder &t);
void waitForCopies(const ThreadBuilder &t, int64_t pending);

} // namespace tenon::codegen::cuda
