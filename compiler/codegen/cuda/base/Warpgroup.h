// The tensor-core products of sm_90a, which four warps (a warpgroup) do together with operands in
// shared memory. Relies on every thread of the group executing them together and on tiles being
// laid out here.
//
// A tile is rows of 64 16-bit elements, 128 bytes, of which the 16-byte chunk c of row r lies at
// chunk c ^ (r % 8): what the instruction calls a swizzle of 128 bytes. It begins on a border of
// kTileAlignment bytes. Where a width is no multiple of 64, tiles have 32 or 16 columns instead
// (tileColumnsOf), with the swizzles of 64 and 32 bytes: eight rows still lie in different banks.
// Warp w of the group has rows 16 w to 16 w + 15 of a result; a thread's
// floats are, for each 8 columns in turn, those of C in TensorCore.h, and its words of a left
// operand are those of A there.
#pragma once

#include "compiler/codegen/cuda/base/ThreadBuilder.h"

namespace tenon::codegen::cuda {

/// Threads and warps of a warpgroup; rows and columns of a result; elements of a tile's row.
inline constexpr int64_t kWarpgroup = 128, kWarpsOfGroup = kWarpgroup / kWarp;
inline constexpr int64_t kGroupRows = 64, kTileColumns = 64;
inline constexpr int64_t kTileAlignment = 1024;

/// Columns of the tiles in which so many lie side by side, a multiple of 16: 64, 32 or 16.
int64_t tileColumnsOf(int64_t width);

/// Where the chunk of 8 elements stands that is number `chunk` of `row`: in elements from the start
/// of a tile of so many columns.
mlir::Value tileOffset(const ThreadBuilder &t, mlir::Value row, mlir::Value chunk,
                       int64_t columns = kTileColumns);

/// What this thread brought into shared memory may be read by products after the next barrier.
void releaseTiles(const ThreadBuilder &t);

/// A [64 x 16 n] B [16 n x columns], both stored with depth along rows: A [64][depth] and B
/// [columns][depth] in tiles that follow each other. Element types are f16 or bf16, columns a
/// multiple of 8 and at most 256.
ThreadBuilder::Values multiplyTiles(const ThreadBuilder &t, mlir::Type element, mlir::Value a,
                                    mlir::Value b, int64_t depth, int64_t columns);

/// `accumulators` + A B for A in registers, 4 words for each 16 of depth, and B stored
/// [depth][columns] in tiles that follow each other, with as many columns as there are accumulators
/// for (a multiple of 16, at most 256).
ThreadBuilder::Values addProduct(const ThreadBuilder &t, mlir::Type element,
                                 llvm::ArrayRef<mlir::Value> a, mlir::Value b,
                                 llvm::ArrayRef<mlir::Value> accumulators);

/// `accumulators` + A B as by multiplyTiles, or A B alone where `number` (i32) is 0, but under way
/// when it returns, and with as many columns as there are accumulators for. What is returned must
/// not be used but by more of these and waitForProducts.
ThreadBuilder::Values beginTiles(const ThreadBuilder &t, mlir::Type element, mlir::Value a,
                                 mlir::Value b, int64_t depth, mlir::Value number,
                                 llvm::ArrayRef<mlir::Value> accumulators);
/// The same of addProduct.
ThreadBuilder::Values beginProduct(const ThreadBuilder &t, mlir::Type element,
                                   llvm::ArrayRef<mlir::Value> a, mlir::Value b, mlir::Value number,
                                   llvm::ArrayRef<mlir::Value> accumulators);
/// Waits until all products but those of the last `underWay` calls are done: the accumulators of
/// them, which may be used now.
ThreadBuilder::Values waitForProducts(const ThreadBuilder &t,
                                      llvm::ArrayRef<mlir::Value> accumulators, int64_t underWay);

/// How B lies in a stage of products: in rows of 64 of the depth, one for each column; or in rows
/// of 64 columns, one for each of the depth, tiles of `depth` rows following each other.
enum class RightOrder { DepthInner, ColumnsInner };

/// `accumulators` + A B, or A B alone where `number` (i32) is 0, for A [64][64] of depth and B of
/// `columns` (a multiple of 64, at most 256) columns in shared memory. Of f8E4M3FN, with B in rows
/// of the depth, two elements take the place of one; the same of bytes, where B is of signed ones,
/// A of those that `element` names and the accumulators of i32. What is returned must not be used
/// but by the next of these before `finishStages`; when it returns, the stage before has been read.
ThreadBuilder::Values addStage(const ThreadBuilder &t, mlir::Type element, mlir::Value a,
                               mlir::Value b, RightOrder order, int64_t columns, mlir::Value number,
                               llvm::ArrayRef<mlir::Value> accumulators);
/// Waits for the last stage: the accumulators, which may be used now.
ThreadBuilder::Values finishStages(const ThreadBuilder &t,
                                   llvm::ArrayRef<mlir::Value> accumulators);

/// Word i of each of four neighbouring threads becomes the four words of neighbour i.
ThreadBuilder::Values exchangeWords(const ThreadBuilder &t, llvm::ArrayRef<mlir::Value> words);

} // namespace tenon::codegen::cuda
