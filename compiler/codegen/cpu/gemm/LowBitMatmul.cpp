// Products by weights of 4 or 8 bits: tiles of few rows multiply by panels as they lie, which is
// bound by the stream of weights; tiles of more rows take a part of a panel into scratch and
// multiply it by the micro-kernel of f32, or of bf16 where rows are bf16 and the level multiplies
// such words by one instruction. Rounded rows (tn.round_blocks) multiply by panels as they lie,
// however many they are.
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/gemm/Contraction.h"
#include "compiler/codegen/cpu/gemm/DotStep.h"
#include "compiler/codegen/cpu/gemm/LowBitKernels.h"
#include "compiler/graph/TnRare.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Fewest rows of a chunk worth a grid point of its own.
constexpr int64_t kMinLowBitRows = 14;
/// Numbers of a column that are words of bf16 in scratch at a time: what tiles take at once.
constexpr int64_t kDepthOfWords = 384;

/// Whether tiles of many rows multiply words of bf16.
bool multipliesWords(Region &region, tn::MatmulOp matmul) {
  tn::BlockRows layout = matmul.getB().getDefiningOp<tn::DecodeRowsOp>().layout();
  return getElementTypeOrSelf(matmul.getA()).isBF16() && layout.depth % 2 == 0 &&
         DotStep::isOneInstruction(region.target().level, ProductType::BF16);
}

class LowBitMatmul {
public:
  LowBitMatmul(KernelBuilder &kernel, Region &region, tn::MatmulOp matmul, int64_t tileRows)
      : kernel(kernel), tileRows(tileRows), matmul(matmul),
        layout(matmul.getB().getDefiningOp<tn::DecodeRowsOp>().layout()),
        rounded(matmul.getA().getDefiningOp<tn::RoundBlocksOp>()),
        epilogue(kernel, region.source, matmul, Value()), writer(kernel, epilogue, tileRows),
        dims(tn::getDims(matmul.getType())), n(dims.back()) {
    m = tn::elementCount(matmul.getContext(), ArrayRef(dims).drop_back());
    grid.batches = getAffineConstantExpr(1, matmul.getContext());
    grid.panels = n.ceilDiv(kPanel);
    grid.chunks = chunkCount(m, tileRows, kMinLowBitRows, grid.panels);
    bool areWords = multipliesWords(region, matmul);
    type = areWords ? ProductType::BF16 : ProductType::F32;
    partOfProduct = areWords ? kDepthOfWords : kLowBitChain;
    depthPart = layout.block * std::max<int64_t>(1, partOfProduct / layout.block);
  }

  FailureOr<AffineExpr> lower();

private:
  struct Range {
    Value first, count;
  };
  Range rowsOf(const IndexMath &math, const GridPoint &point) const {
    Value chunks = math.size(kernel, grid.chunks), rows = math.size(kernel, m);
    Value first = math.div(math.mul(point.chunk, rows), chunks);
    Value next = math.div(math.mul(math.add(point.chunk, math.constant(1)), rows), chunks);
    return {first, math.sub(next, first)};
  }

  Value inputOfA() {
    Value rows = rounded ? rounded.getX() : matmul.getA();
    return kernel.input(cast<BlockArgument>(rows).getArgNumber());
  }

  /// The chunk's rows of A.
  void copyRows(const IndexMath &math, const Range &range, Value to) {
    Value zero = math.constant(0), depth = math.constant(layout.depth);
    Value from = math.view(math.asRows(inputOfA()), {range.first, zero}, {range.count, depth});
    copyElements(math, from, math.view(to, {zero, zero}, {range.count, depth}),
                 math.builder.getMultiDimIdentityMap(2));
  }

  Value rowsOfA(const IndexMath &math, const Range &range) {
    return rowCopy ? math.pointer(rowCopy, math.constant(0))
                   : math.pointer(inputOfA(), math.mul(range.first, wordsOf(layout.depth)));
  }

  /// What holds so many elements of a row as the product of many rows reads them.
  int64_t wordsOf(int64_t elements) const { return elements / elementsOfWord(type); }

  /// Calls `few` for a chunk of at most kLowBitRows rows, else `many`, which may be null.
  void chooseByRows(const IndexMath &math, Value count,
                    llvm::function_ref<void(const IndexMath &)> few,
                    llvm::function_ref<void(const IndexMath &)> many) {
    if (!panelCopy) {
      return few(math);
    }
    Value isFew = math.isLess(count, math.constant(kLowBitRows + 1));
    scf::IfOp::create(
        math.builder, math.location, isFew,
        [&](OpBuilder &then, Location at) {
          few(IndexMath(then, at));
          scf::YieldOp::create(then, at);
        },
        [&](OpBuilder &otherwise, Location at) {
          many(IndexMath(otherwise, at));
          scf::YieldOp::create(otherwise, at);
        });
  }

  void prepareChunk(const IndexMath &math, const GridPoint &point) {
    Range range = rowsOf(math, point);
    auto copy = [&](const IndexMath &in) {
      if (rowCopy) {
        copyRows(in, range, rowCopy);
      }
    };
    if (wideRows) {
      chooseByRows(
          math, range.count, [&](const IndexMath &in) { copyRows(in, range, wideRows); }, copy);
    } else {
      copy(math);
    }
    if (rounded) {
      callSupport(math, kernel.function(), roundSymbol(layout),
                  {rowsOfA(math, range), math.toI64(rowStride),
                   math.pointer(roundedRows, math.constant(0)), math.toI64(roundedStride(math)),
                   math.toI64(math.constant(layout.depth)), math.toI64(math.constant(layout.block)),
                   math.toI64(range.count)});
    }
  }

  Value roundedStride(const IndexMath &math) const {
    return math.constant(RoundedRows{layout}.stride());
  }

  void multiplyFew(const IndexMath &math, Value a, Value panel, const Sums &sums, Value count) {
    Value rows = rounded    ? math.pointer(roundedRows, math.constant(0))
                 : wideRows ? math.pointer(wideRows, math.constant(0))
                            : a;
    Value stride = rounded    ? roundedStride(math)
                   : wideRows ? math.constant(layout.depth)
                              : rowStride;
    callSupport(math, kernel.function(), rounded ? integerSymbol(layout) : lowBitSymbol(layout),
                {rows, math.toI64(stride), panel, sums.pointer, math.toI64(sums.stride),
                 math.toI64(math.constant(layout.depth)), math.toI64(math.constant(layout.block)),
                 math.toI64(count)});
  }

  void multiplyMany(const IndexMath &math, Value a, Value panel, const Sums &sums, Value count) {
    Value depth = math.constant(layout.depth);
    int64_t partWords = depthPart / layout.block * layout.blockWords();
    forEach(math, math.constant(0), depth, depthPart, [&](const IndexMath &in, Value first) {
      Value length = in.min(in.constant(depthPart), in.sub(depth, first));
      Value part = in.div(first, in.constant(depthPart));
      Value from = in.offset(panel, in.mul(part, partWords * kPanel));
      Value to = in.pointer(panelCopy, in.constant(0));
      bool areWords = type == ProductType::BF16;
      callSupport(in, kernel.function(),
                  areWords ? decodeWordsSymbol(layout) : decodeSymbol(layout),
                  {from, to, in.toI64(length), in.toI64(in.constant(layout.block))});
      forEach(in, in.constant(0), length, partOfProduct, [&](const IndexMath &each, Value at) {
        Value from = each.add(first, at), perWord = each.constant(elementsOfWord(type));
        Value part = each.min(each.constant(partOfProduct), each.sub(length, at));
        callProduct(each, kernel.function(),
                    {each.offset(a, each.div(from, perWord)), rowStride,
                     each.offset(to, each.mul(each.div(at, perWord), kPanel)),
                     each.constant(kPanel), sums.pointer, sums.stride, each.div(part, perWord),
                     count, each.isLess(each.constant(0), from), type});
      });
    });
  }

  LogicalResult buildTile(const IndexMath &math, const GridPoint &point) {
    Range range = rowsOf(math, point);
    Value panel = math.pointer(packed, math.mul(point.panel, layout.rowWords() * kPanel));
    Value a = rowsOfA(math, range);
    return writer.write(
        math, range.first, range.count, {math.constant(0), point.panel, n},
        [&](const IndexMath &inner, const Sums &sums) {
          chooseByRows(
              inner, range.count,
              [&](const IndexMath &in) { multiplyFew(in, a, panel, sums, range.count); },
              [&](const IndexMath &in) { multiplyMany(in, a, panel, sums, range.count); });
        });
  }

  KernelBuilder &kernel;
  int64_t tileRows;
  tn::MatmulOp matmul;
  tn::BlockRows layout;
  tn::RoundBlocksOp rounded; ///< what A's rows go through, or null
  Epilogue epilogue;
  TileWriter writer;
  tn::Dims dims;
  AffineExpr m, n;
  ContractionGrid grid;
  ProductType type;      ///< of the product of many rows
  int64_t partOfProduct; ///< of the depth, that it multiplies at once
  int64_t depthPart;     ///< of it, that is in scratch
  Value packed;          ///< panels of rows of blocks
  Value rowCopy;         ///< scratch for a chunk of A's rows, or null
  Value rowStride;       ///< of A's rows as the product of many reads them
  Value wideRows;        ///< scratch for few rows as f32, where that product reads others; or null
  Value roundedRows;     ///< scratch for a chunk's rows of A, or null
  Value panelCopy;       ///< scratch for a part of a panel; null where all tiles have few rows
};

FailureOr<AffineExpr> LowBitMatmul::lower() {
  IndexMath math(kernel.builder, kernel.location);
  packed = packedBuffer(kernel, matmul.getB().getDefiningOp<tn::DecodeRowsOp>().getRows());
  if (!packed) {
    return matmul.emitOpError("reads weights that are not in panels");
  }
  std::optional<int64_t> constantRows = tn::constantDim(m);
  if (!rounded && (!constantRows || *constantRows > kLowBitRows)) {
    panelCopy = allocate(kernel, {math.constant(wordsOf(depthPart)), math.constant(kPanel)});
  }
  Type element = getElementTypeOrSelf(matmul.getType());
  bool areWords = panelCopy && type == ProductType::BF16;
  type = areWords ? type : ProductType::F32;
  bool isNarrow = !areWords && !element.isF32();
  bool isBadStride = panelCopy && wordsOf(layout.depth) % kBadStride == 0;
  rowStride = math.constant(wordsOf(layout.depth));
  if (isNarrow || isBadStride) {
    int64_t stride = wordsOf(layout.depth) + kStridePad;
    rowStride = math.constant(stride);
    rowCopy =
        allocate(kernel, {math.constant(tileRows), math.constant(stride * elementsOfWord(type))},
                 areWords ? element : Type());
  }
  if (areWords) {
    wideRows = allocate(kernel, {math.constant(kLowBitRows), math.constant(layout.depth)});
  }
  if (rounded) {
    roundedRows = allocate(kernel, {math.constant(tileRows), roundedStride(math)});
  }
  auto prepare = [&](const IndexMath &inner, const GridPoint &point) {
    prepareChunk(inner, point);
  };
  auto tile = [&](const IndexMath &inner, const GridPoint &point) {
    return buildTile(inner, point);
  };
  if (failed(buildGridLoop(kernel, grid, prepare, tile))) {
    return failure();
  }
  return grid.points();
}

/// The product of a region by decoded weights, or null.
tn::MatmulOp lowBitProduct(func::FuncOp source) {
  tn::MatmulOp matmul = firstOp<tn::MatmulOp>(source);
  bool isDecoded = matmul && matmul.getB().getDefiningOp<tn::DecodeRowsOp>();
  return isDecoded ? matmul : tn::MatmulOp();
}

FamilyMatch matchLowBits(Region &region) {
  tn::MatmulOp matmul = lowBitProduct(region.source);
  return matmul ? FamilyMatch::take(matmul.getOperation())
                : FamilyMatch::refuse("its weights are no rows of 4-bit or 8-bit numbers");
}

double lowBitSeconds(Region &region, Operation *const &, const dispatch::KernelChoice &) {
  return ratedSeconds(region);
}

std::optional<dispatch::WeightLayout> lowBitWeights(Region &, Operation *const &root) {
  Value rows = cast<tn::MatmulOp>(root).getB().getDefiningOp<tn::DecodeRowsOp>().getRows();
  std::optional<unsigned> input = packableInput(rows);
  return input ? std::optional(dispatch::WeightLayout{
                     .input = *input, .packing = panelsOfWords(/*dim=*/0, kPanel, /*elements=*/4)})
               : std::nullopt;
}

/// Few rows beside words of bf16 are floats, with other roundings.
std::string lowBitOrder(Region &region, Operation *const &root, const dispatch::KernelChoice &) {
  return multipliesWords(region, cast<tn::MatmulOp>(root)) ? "" : "the depth in chains of 32";
}

FailureOr<AffineExpr> lowerLowBits(KernelBuilder &kernel, Region &region, Operation *const &root,
                                   int64_t tileRows) {
  tn::MatmulOp matmul = cast<tn::MatmulOp>(root);
  tn::RoundBlocksOp rounded = matmul.getA().getDefiningOp<tn::RoundBlocksOp>();
  if (!isa<BlockArgument>(rounded ? rounded.getX() : matmul.getA())) {
    return matmul.emitOpError("reads a value that has no buffer");
  }
  return LowBitMatmul(kernel, region, matmul, tileRows).lower();
}

} // namespace

constexpr KernelFamily kGemmLowBits = {
    .name = "gemm_low_bits",
    .what =
        "GEMM by weights of 4 or 8 bits with a scale for each block: few rows by panels as "
        "they lie, more by parts of a panel taken apart, rounded rows as integers, the epilogue "
        "on the tile",
    .strategies = {dispatch::kContraction},
    .needs = {"tn.decode_rows"},
    .needsElements = true,
    .match = matchLowBits,
    .parameter = "tile_rows",
    .candidates = {128, 64, 32, 16},
    .seconds = on<lowBitSeconds>,
    .weights = on<lowBitWeights>,
    .emit = emitKernel<lowerLowBits>,
    .order = on<lowBitOrder>};

} // namespace tenon::codegen::cpu
