// Matrix products: A's rows are read where they lie unless their stride would fill one cache set; B
// comes in panels, packed at compile time or one panel at a time into scratch. Floats of 16 bits
// are widened on the way into scratch; integers of 8 bits are read as words of four of the depth.
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cpu/gemm/Contraction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// Fewest rows of a chunk worth a grid point of its own.
constexpr int64_t kLeastRows = 14;

/// Products of so few rows read an unpacked B in place, some panels side by side and a block of the
/// depth at a time: a panel alone touches a page for each 128 bytes. More rows are worth the copy.
constexpr int64_t kMostRowsInPlace = 64;
constexpr int64_t kPanelsInPlace = 8, kDepthInPlace = 128;
/// Fewest columns of such a B, and grid points that let several threads share the work.
constexpr int64_t kLeastColumnsInPlace = 256, kEnoughPoints = 16;

class MatmulLowering {
public:
  MatmulLowering(KernelBuilder &kernel, func::FuncOp source, tn::MatmulOp matmul, int64_t tileRows);

  FailureOr<AffineExpr> lower();

private:
  Value batchOffset(const IndexMath &math, Value operand, Value batch) const;
  Value inputOf(Value operand) const {
    return kernel.input(cast<BlockArgument>(operand).getArgNumber());
  }
  void packRows(const IndexMath &math, const GridPoint &point);
  Value packWords(const IndexMath &math, Value matrix, Value first, Value count);
  Value packPanel(const IndexMath &math, const GridPoint &point);
  LogicalResult buildTile(const IndexMath &math, const GridPoint &point);
  int64_t panelsInPlace();
  LogicalResult buildTilesInPlace(const IndexMath &math, const GridPoint &point);
  void multiplyInPlace(const IndexMath &math, const GridPoint &point, Value firstPanel,
                       Value panels);
  Value rowsOfA(const IndexMath &math, const GridPoint &point);
  struct Range {
    Value first, count;
  };
  Range rowsOf(const IndexMath &math, const GridPoint &point) const;

  KernelBuilder &kernel;
  int64_t tileRows;
  tn::MatmulOp matmul;
  Type element; ///< in which sums are taken: f32 or i32
  ProductType type;
  bool isNarrow; ///< whether the operands' is another, and widened
  Epilogue epilogue;
  TileWriter writer;
  MLIRContext *context;
  tn::Dims dims, batchDims;
  AffineExpr m, n, k;
  ContractionGrid grid;
  int64_t group = 1; ///< panels of a grid point, if it reads B in place; else 1
  Value groupSums;   ///< [rows, group * 32] if so, or null
  Value rows, columns, depth;
  Value words;     ///< that hold the depth: one for each element but of 8 bits
  Value packedB;   ///< panels packed at compile time, or null
  Value panelCopy; ///< scratch for one panel of B, or null
  Value wideRows;  ///< scratch for rows of a transposed B of narrow elements, or null
  Value rowCopy;   ///< scratch for a chunk of A's rows, or null
  Value rowStride; ///< of A's rows as the kernel reads them, in words
};

MatmulLowering::MatmulLowering(KernelBuilder &kernel, func::FuncOp source, tn::MatmulOp matmul,
                               int64_t tileRows)
    : kernel(kernel), tileRows(tileRows), matmul(matmul),
      element(accumulatorType(getElementTypeOrSelf(matmul.getType()))), type(productType(matmul)),
      isNarrow(element != storageType(getElementTypeOrSelf(matmul.getType()))),
      epilogue(kernel, source, matmul, Value()), writer(kernel, epilogue, tileRows, element),
      context(matmul.getContext()), dims(tn::getDims(matmul.getType())) {
  tn::Dims a = tn::getDims(matmul.getA().getType());
  tn::Dims b = tn::getDims(matmul.getB().getType());
  m = dims[dims.size() - 2];
  n = dims.back();
  k = a[a.size() - (matmul.getTransposeA() ? 2 : 1)];
  batchDims.assign(dims.begin(), dims.end() - 2);
  packedB = packedBuffer(kernel, matmul.getB());
  // One B for all batches: they are more rows of one product.
  bool sharesB = llvm::all_of(ArrayRef(b).drop_back(2),
                              [](AffineExpr dim) { return tn::constantDim(dim) == 1; });
  bool hasAllBatches = a.size() == dims.size() && tn::sameDims(ArrayRef(a).drop_back(2), batchDims);
  if (sharesB && hasAllBatches && !matmul.getTransposeA()) {
    m = tn::elementCount(context, batchDims) * m;
    batchDims.clear();
  }
  grid.batches = tn::elementCount(context, batchDims);
  group = panelsInPlace();
  grid.panels = n.ceilDiv(kPanel * group);
  grid.chunks = chunkCount(m, tileRows, kLeastRows, grid.batches * grid.panels);
}

/// Panels of a grid point where B is read in place; 1 where it is not.
int64_t MatmulLowering::panelsInPlace() {
  std::optional<int64_t> rowCount = tn::constantDim(m), columnCount = tn::constantDim(n);
  bool isPlain = !packedB && !isNarrow && type != ProductType::U8S8 && !matmul.getTransposeB();
  if (!isPlain || !rowCount || *rowCount > kMostRowsInPlace || !columnCount ||
      *columnCount < kLeastColumnsInPlace) {
    return 1;
  }
  int64_t points = *columnCount / kPanel * tn::constantDim(grid.batches).value_or(1);
  return std::clamp<int64_t>(points / kEnoughPoints, 1, kPanelsInPlace);
}

/// Which of an operand's matrices belongs to a batch of the result.
Value MatmulLowering::batchOffset(const IndexMath &math, Value operand, Value batch) const {
  Value offset = math.constant(0), stride = math.constant(1), rest = batch;
  tn::Dims own = tn::getDims(operand.getType());
  own.resize(own.size() - 2);
  size_t missing = batchDims.size() - std::min(own.size(), batchDims.size());
  for (size_t i = batchDims.size(); i-- > missing;) {
    Value size = math.size(kernel, batchDims[i]);
    if (tn::constantDim(own[i - missing]) != 1) {
      Value index = i == 0 ? rest : math.rem(rest, size);
      offset = math.add(offset, math.mul(index, stride));
      stride = math.mul(stride, size);
    }
    rest = math.div(rest, size);
  }
  return offset;
}

MatmulLowering::Range MatmulLowering::rowsOf(const IndexMath &math, const GridPoint &point) const {
  Value chunks = math.size(kernel, grid.chunks);
  Value first = math.div(math.mul(point.chunk, rows), chunks);
  Value next = math.div(math.mul(math.add(point.chunk, math.constant(1)), rows), chunks);
  return {first, math.sub(next, first)};
}

/// The chunk's rows of A, side by side in k, with a stride that spreads them over the cache.
void MatmulLowering::packRows(const IndexMath &math, const GridPoint &point) {
  Range range = rowsOf(math, point);
  Value matrix = batchOffset(math, matmul.getA(), point.batch);
  Value a = math.asRows(inputOf(matmul.getA()));
  Value zero = math.constant(0);
  Value to = math.view(rowCopy, {zero, zero}, {range.count, depth});
  AffineExpr row = math.builder.getAffineDimExpr(0), column = math.builder.getAffineDimExpr(1);
  if (matmul.getTransposeA()) {
    Value from = math.view(a, {math.mul(matrix, depth), range.first}, {depth, range.count});
    copyElements(math, from, to, AffineMap::get(2, 0, {column, row}, context));
    return;
  }
  Value first = math.add(math.mul(matrix, rows), range.first);
  Value from = math.view(a, {first, zero}, {range.count, depth});
  copyElements(math, from, to, AffineMap::get(2, 0, {row, column}, context));
}

/// The same of 8-bit elements, four of a column to a word; the last word is filled up with zeros.
Value MatmulLowering::packWords(const IndexMath &math, Value matrix, Value first, Value count) {
  Value zero = math.constant(0), four = math.constant(elementsOfWord(type));
  Value pointer = math.pointer(panelCopy, zero);
  bool isWhole = tn::constantDim(k).value_or(1) % elementsOfWord(type) == 0;
  Value b = inputOf(matmul.getB());
  if (matmul.getTransposeB() && isWhole) {
    Value row = math.add(math.mul(matrix, columns), first);
    callPackTransposed(math, kernel.function(), math.pointer(b, math.mul(row, words)), words,
                       pointer, words, count);
    return pointer;
  }
  clear(math, panelCopy);
  AffineExpr word = math.builder.getAffineDimExpr(0), column = math.builder.getAffineDimExpr(1);
  AffineExpr element = math.builder.getAffineDimExpr(2);
  // Whole words first, then the elements behind them.
  Value whole = math.div(depth, four), begin = zero;
  for (bool isRest : {false, true}) {
    Value size = isRest ? math.sub(depth, begin) : math.mul(whole, four);
    AffineExpr inDepth = isRest ? element : word * elementsOfWord(type) + element;
    Value from = matmul.getTransposeB()
                     ? math.view(math.asRows(b),
                                 {math.add(math.mul(matrix, columns), first), begin}, {count, size})
                     : math.view(math.asRows(b), {math.add(math.mul(matrix, depth), begin), first},
                                 {size, count});
    Value to = isRest ? math.view(panelCopy, {whole, zero, zero}, {math.constant(1), count, size})
                      : math.view(panelCopy, {zero, zero, zero}, {whole, count, four});
    SmallVector<AffineExpr> place = {inDepth, column};
    if (matmul.getTransposeB()) {
      std::swap(place[0], place[1]);
    }
    copyElements(math, from, to, AffineMap::get(3, 0, place, context));
    if (isWhole) {
      break;
    }
    begin = size;
  }
  return pointer;
}

/// One panel of B into scratch, its missing columns zero; the address of the panel.
Value MatmulLowering::packPanel(const IndexMath &math, const GridPoint &point) {
  Value matrix = batchOffset(math, matmul.getB(), point.batch);
  Value zero = math.constant(0);
  Value first = math.mul(point.panel, kPanel);
  Value count = math.min(math.constant(kPanel), math.sub(columns, first));
  std::optional<int64_t> constantColumns = tn::constantDim(n);
  bool isWhole = constantColumns && *constantColumns % kPanel == 0;
  if (type == ProductType::U8S8) {
    return packWords(math, matrix, first, count);
  }
  Value pointer = math.pointer(panelCopy, zero);
  AffineMap identity = math.builder.getMultiDimIdentityMap(2);
  if (packedB) {
    Value from = math.view(math.asRows(packedB), {math.mul(point.panel, depth), zero},
                           {depth, math.constant(kPanel)});
    copyElements(math, from, panelCopy, identity);
    return pointer;
  }
  if (matmul.getTransposeB()) {
    Value row = math.add(math.mul(matrix, columns), first);
    Value from;
    if (wideRows) {
      Value rows = math.view(math.asRows(inputOf(matmul.getB())), {row, zero}, {count, depth});
      copyElements(math, rows, math.view(wideRows, {zero, zero}, {count, depth}), identity);
      from = math.pointer(wideRows, zero);
    } else {
      from = math.pointer(inputOf(matmul.getB()), math.mul(row, depth));
    }
    callPackTransposed(math, kernel.function(), from, depth, pointer, depth, count);
    return pointer;
  }
  if (isWhole) {
    count = math.constant(kPanel);
  } else {
    clear(math, panelCopy);
  }
  Value b = math.asRows(inputOf(matmul.getB()));
  Value from = math.view(b, {math.mul(matrix, depth), first}, {depth, count});
  Value to = math.view(panelCopy, {zero, zero}, {depth, count});
  copyElements(math, from, to, identity);
  return pointer;
}

Value MatmulLowering::rowsOfA(const IndexMath &math, const GridPoint &point) {
  if (rowCopy) {
    return math.pointer(rowCopy, math.constant(0));
  }
  Value matrix = batchOffset(math, matmul.getA(), point.batch);
  Value first = math.add(math.mul(matrix, rows), rowsOf(math, point).first);
  return math.pointer(inputOf(matmul.getA()), math.mul(first, words));
}

/// Of a group of panels all products, by blocks of the depth: a row of B is read for all of them
/// before the next block. A last panel with fewer columns lies in scratch.
void MatmulLowering::multiplyInPlace(const IndexMath &math, const GridPoint &point,
                                     Value firstPanel, Value panels) {
  Value matrix = batchOffset(math, matmul.getB(), point.batch);
  Value b = inputOf(matmul.getB()), a = rowsOfA(math, point);
  Value zero = math.constant(0);
  Value count = rowsOf(math, point).count, stride = math.constant(group * kPanel);
  // Of no depth there is one block, which writes zeros.
  Value end = math.max(depth, math.constant(1));
  auto block = [&](const IndexMath &in, Value start) {
    Value length = in.min(in.constant(kDepthInPlace), in.sub(depth, start));
    auto panel = [&](const IndexMath &each, Value index) {
      Value column = each.mul(each.add(firstPanel, index), kPanel);
      Value row = each.add(each.mul(matrix, depth), start);
      Value from = each.pointer(b, each.add(each.mul(row, columns), column)), ldb = columns;
      if (panelCopy) {
        Value isTail = each.isLess(columns, each.add(column, each.constant(kPanel)));
        Value copied = each.pointer(panelCopy, each.mul(start, kPanel));
        from = arith::SelectOp::create(each.builder, each.location, isTail, copied, from);
        ldb = arith::SelectOp::create(each.builder, each.location, isTail, each.constant(kPanel),
                                      ldb);
      }
      callProduct(each, kernel.function(),
                  {each.offset(a, start), rowStride, from, ldb,
                   each.pointer(groupSums, each.mul(index, kPanel)), stride, length, count,
                   each.isLess(zero, start), type});
    };
    forEach(in, zero, panels, 1, panel);
  };
  forEach(math, zero, end, kDepthInPlace, block);
}

LogicalResult MatmulLowering::buildTilesInPlace(const IndexMath &math, const GridPoint &point) {
  Range range = rowsOf(math, point);
  Value all = math.size(kernel, n.ceilDiv(kPanel));
  Value firstPanel = math.mul(point.panel, group);
  Value panels = math.min(math.constant(group), math.sub(all, firstPanel));
  if (panelCopy) {
    Value last = math.sub(math.add(firstPanel, panels), math.constant(1));
    Value hasTail = math.isLess(columns, math.mul(math.add(last, math.constant(1)), kPanel));
    scf::IfOp::create(math.builder, math.location, hasTail, [&](OpBuilder &then, Location at) {
      packPanel(IndexMath(then, at), {point.batch, point.chunk, last});
      scf::YieldOp::create(then, at);
    });
  }
  multiplyInPlace(math, point, firstPanel, panels);
  Value firstRow = math.add(math.mul(point.batch, rows), range.first);
  LogicalResult status = success();
  forEach(math, math.constant(0), panels, 1, [&](const IndexMath &in, Value index) {
    TileWriter::Columns tile{in.constant(0), in.add(firstPanel, index), n};
    status =
        writer.write(in, firstRow, range.count, tile, [&](const IndexMath &each, const Sums &sums) {
          forEach(each, each.constant(0), range.count, 1, [&](const IndexMath &body, Value row) {
            Value at = body.add(body.mul(row, group * kPanel), body.mul(index, kPanel));
            OpFoldResult width = body.builder.getIndexAttr(kPanel);
            Value from =
                memrefAt(body.builder, body.location, body.pointer(groupSums, at), element, width);
            Value target = body.offset(sums.pointer, body.mul(row, sums.stride));
            Value to = memrefAt(body.builder, body.location, target, element, width);
            copyElements(body, from, to, body.builder.getMultiDimIdentityMap(1));
          });
        });
  });
  return status;
}

LogicalResult MatmulLowering::buildTile(const IndexMath &math, const GridPoint &point) {
  Range range = rowsOf(math, point);
  Value firstColumn = math.mul(point.panel, kPanel);
  Value panel =
      panelCopy ? packPanel(math, point) : math.pointer(packedB, math.mul(firstColumn, words));
  Value a = rowsOfA(math, point);
  Value firstRow = math.add(math.mul(point.batch, rows), range.first);
  std::optional<int64_t> constantColumns = tn::constantDim(n);
  bool isWhole = constantColumns && *constantColumns % kPanel == 0;
  bool isOnePanel = constantColumns && *constantColumns <= kPanel;
  Value used = isWhole ? Value() : isOnePanel ? columns : math.sub(columns, firstColumn);
  return writer.write(math, firstRow, range.count, {math.constant(0), point.panel, n},
                      [&](const IndexMath &inner, const Sums &sums) {
                        callProduct(inner, kernel.function(),
                                    {a, rowStride, panel, inner.constant(kPanel), sums.pointer,
                                     sums.stride, words, range.count, Value(), type, used});
                      });
}

FailureOr<AffineExpr> MatmulLowering::lower() {
  IndexMath math(kernel.builder, kernel.location);
  rows = math.size(kernel, m);
  columns = math.size(kernel, n);
  depth = math.size(kernel, k);
  words = math.size(kernel, k.ceilDiv(elementsOfWord(type)));
  rowStride = words;
  bool hasTail = tn::constantDim(n).value_or(1) % kPanel != 0;
  if (group > 1) {
    groupSums = allocate(kernel, {rows, math.constant(group * kPanel)}, element);
  }
  if (type == ProductType::U8S8) {
    panelCopy =
        packedB
            ? Value()
            : allocate(kernel, {words, math.constant(kPanel), math.constant(elementsOfWord(type))},
                       math.builder.getI8Type());
  } else if (group > 1 ? hasTail : !packedB || isNarrow) {
    panelCopy = allocate(kernel, {depth, math.constant(kPanel)}, element);
  }
  if (isNarrow && !packedB && matmul.getTransposeB()) {
    wideRows = allocate(kernel, {math.constant(kPanel), depth}, element);
  }
  std::optional<int64_t> constantDepth = tn::constantDim(k), constantRows = tn::constantDim(m);
  bool isBadStride = constantDepth && *constantDepth % (kBadStride * elementsOfWord(type)) == 0 &&
                     !(constantRows && *constantRows < kLeastRows);
  bool isWhole = constantDepth.value_or(1) % elementsOfWord(type) == 0;
  if (matmul.getTransposeA() || isBadStride || isNarrow || !isWhole) {
    rowStride = math.add(words, math.constant(kStridePad));
    Type stored = type == ProductType::U8S8 ? Type(math.builder.getI8Type()) : element;
    rowCopy = allocate(kernel, {math.constant(tileRows), math.mul(rowStride, elementsOfWord(type))},
                       stored);
  }
  auto prepare = [&](const IndexMath &inner, const GridPoint &point) { packRows(inner, point); };
  auto tile = [&](const IndexMath &inner, const GridPoint &point) {
    return group > 1 ? buildTilesInPlace(inner, point) : buildTile(inner, point);
  };
  llvm::function_ref<void(const IndexMath &, const GridPoint &)> none;
  if (failed(rowCopy ? buildGridLoop(kernel, grid, prepare, tile)
                     : buildGridLoop(kernel, grid, none, tile))) {
    return failure();
  }
  return grid.points();
}

} // namespace

FailureOr<AffineExpr> lowerMatmul(KernelBuilder &kernel, func::FuncOp source, tn::MatmulOp matmul,
                                  int64_t tileRows) {
  return MatmulLowering(kernel, source, matmul, tileRows).lower();
}

} // namespace tenon::codegen::cpu
