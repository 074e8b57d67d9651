// What the lowerings of matmul and conv share: how the result is cut into grid points, and the
// frame of loops around the tiles.
#pragma once

#include "compiler/codegen/cpu/gemm/Epilogue.h"
#include "compiler/codegen/cpu/gemm/ProductCalls.h"
#include "compiler/dispatch/WeightLayout.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace tenon::codegen::cpu {

/// Row strides of A that are a multiple of this (4 KiB) put all rows of a block into one set of an
/// 8-way L1 cache; such rows are copied to scratch with kStridePad (one cache line) between them.
inline constexpr int64_t kBadStride = 1024;
inline constexpr int64_t kStridePad = 16;

/// How many chunks `rows` rows (or lines of several rows) are cut into: at most `most` in each, and
/// more where the grid would have too few points for several threads. `others` are the grid points
/// a chunk.
mlir::AffineExpr chunkCount(mlir::AffineExpr rows, int64_t most, int64_t least,
                            mlir::AffineExpr others);

/// The grid, outermost first: batches (or groups), chunks of rows, panels of 32 columns. All tiles
/// of a chunk follow each other, so what is prepared for a chunk is kept from one grid point to the
/// next.
struct ContractionGrid {
  mlir::AffineExpr batches, chunks, panels;
  mlir::AffineExpr points() const { return batches * chunks * panels; }
};

/// One grid point; all of index type.
struct GridPoint {
  mlir::Value batch, chunk, panel;
};

/// Loops over the kernel's grid slice. `prepare`, if given, is called for the code that runs when
/// the chunk (or batch) is not that of the point before.
mlir::LogicalResult
buildGridLoop(KernelBuilder &kernel, const ContractionGrid &grid,
              llvm::function_ref<void(const IndexMath &, const GridPoint &)> prepare,
              llvm::function_ref<mlir::LogicalResult(const IndexMath &, const GridPoint &)> tile);

/// Where the products of a tile go: into the scratch sums, or straight into the result if nothing
/// is left to do and the panel is whole.
struct Sums {
  mlir::Value pointer;
  mlir::Value stride;
};

/// Computes a tile: `products` makes the calls, then the epilogue runs.
class TileWriter {
public:
  /// `element` is the sums': f32 or i32.
  TileWriter(KernelBuilder &kernel, Epilogue &epilogue, int64_t rows, mlir::Type element = {});

  /// The tile is panel number `panel` of the `count` columns that begin at `begin`; the last panel
  /// may have fewer than 32.
  struct Columns {
    mlir::Value begin, panel;
    mlir::AffineExpr count;
  };
  /// Rows in lines of so many, each `pitch` rows of the sums behind the one before: what lies
  /// between them belongs to nothing.
  struct Lines {
    mlir::Value count, rows;
    int64_t pitch;
  };
  mlir::LogicalResult write(const IndexMath &math, mlir::Value firstRow, mlir::Value rows,
                            const Columns &columns,
                            llvm::function_ref<void(const IndexMath &, const Sums &)> products,
                            const std::optional<Lines> &lines = {});

private:
  mlir::LogicalResult finish(const IndexMath &math, const Tile &tile,
                             const std::optional<Lines> &lines);

  KernelBuilder &kernel;
  Epilogue &epilogue;
  mlir::Value scratch;
};

/// A scratch buffer for the whole kernel, of f32 if nothing else is said.
mlir::Value allocate(KernelBuilder &kernel, llvm::ArrayRef<mlir::Value> sizes,
                     mlir::Type element = {});

/// The weight operand's packed buffer if it comes through tn.unpack, else null.
mlir::Value packedBuffer(KernelBuilder &kernel, mlir::Value operand);

/// The weight of a product or convolution in panels of the micro-kernel's columns.
std::optional<dispatch::WeightLayout> panelsOfWeight(mlir::func::FuncOp source);

/// Fails if an operand of `root` is neither an argument of the region nor unpacked from one.
mlir::LogicalResult checkBuffers(mlir::Operation *root);

/// Products of f32, f16 and bf16, of 32-bit integers, and of u8 by s8.
bool canLowerMatmul(tn::MatmulOp matmul);
/// What its micro-kernels multiply: f16 is widened before.
ProductType productType(tn::MatmulOp matmul);
/// What they multiply of a convolution whose elements are not widened before; none for others.
std::optional<ProductType> productType(tn::ConvOp conv);
/// `tileRows` are the most rows of a tile.
mlir::FailureOr<mlir::AffineExpr> lowerMatmul(KernelBuilder &kernel, mlir::func::FuncOp source,
                                              tn::MatmulOp matmul, int64_t tileRows);
/// Convolutions of whole words, channels last, whose weight has constant sizes (canLowerConv).
mlir::FailureOr<mlir::AffineExpr> lowerConv(KernelBuilder &kernel, mlir::func::FuncOp source,
                                            tn::ConvOp conv, engine::CpuLevel level,
                                            int64_t tileRows);
bool canLowerConv(tn::ConvOp conv);
/// The same, whether or not the channels of a group fill words.
bool hasConstantSizes(tn::ConvOp conv);
/// Whether the weight is an argument as it lies, or laid out in such panels (common/Weights.h). Of
/// several elements a word it must be laid out, or be an argument that may be.
bool hasWeight(tn::ConvOp conv, int64_t panel, int64_t groups, int64_t elements = 1);

} // namespace tenon::codegen::cpu
