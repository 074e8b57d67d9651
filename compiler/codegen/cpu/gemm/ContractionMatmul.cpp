// Matrix products: A's rows are read where they lie unless their stride would fill one cache set; B
// comes in panels, packed at compile time or one panel at a time into scratch. f16 is widened on
// the way into scratch; bf16 and integers of 8 bits are read as words of two or four of the depth.
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cpu/gemm/MatmulLowering.h"
#include "compiler/graph/Invariance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// Fewest rows of a chunk worth a grid point of its own.
constexpr int64_t kMinRows = 14;

/// Products of so few rows read an unpacked B in place, some panels side by side and a block of the
/// depth at a time: a panel alone touches a page for each 128 bytes. More rows are worth the copy.
constexpr int64_t kMaxRowsInPlace = 64;
constexpr int64_t kPanelsInPlace = 8, kDepthInPlace = 128;
/// Fewest columns of such a B, and grid points that let several threads share the work.
constexpr int64_t kMinColumnsInPlace = 256, kEnoughPoints = 16;

} // namespace

MatmulLowering::MatmulLowering(KernelBuilder &kernel, func::FuncOp source, tn::MatmulOp matmul,
                               int64_t tileRows)
    : kernel(kernel), tileRows(tileRows), matmul(matmul),
      element(accumulatorType(getElementTypeOrSelf(matmul.getType()))), type(productType(matmul)),
      perWord(elementsOfWord(type)),
      isNarrow(perWord == 1 && element != storageType(getElementTypeOrSelf(matmul.getType()))),
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
  grid.chunks = chunkCount(m, tileRows, kMinRows, grid.batches * grid.panels);
}

/// Panels of a grid point where B is read in place; 1 where it is not.
int64_t MatmulLowering::panelsInPlace() {
  std::optional<int64_t> rowCount = tn::constantDim(m), columnCount = tn::constantDim(n);
  // Blocks of the depth that begin elsewhere are another order of sums.
  bool isPlain = !packedB && !isNarrow && perWord == 1 && !matmul.getTransposeB() &&
                 !kernel.function()->hasAttr(tn::kInvariant);
  if (!isPlain || !rowCount || *rowCount > kMaxRowsInPlace || !columnCount ||
      *columnCount < kMinColumnsInPlace) {
    return 1;
  }
  int64_t points = *columnCount / kPanel * tn::constantDim(grid.batches).value_or(1);
  return std::clamp<int64_t>(points / kEnoughPoints, 1, kPanelsInPlace);
}

MatmulLowering::Range MatmulLowering::rowsOf(const IndexMath &math, const GridPoint &point) const {
  Value chunks = math.size(kernel, grid.chunks);
  Value first = math.div(math.mul(point.chunk, rows), chunks);
  Value next = math.div(math.mul(math.add(point.chunk, math.constant(1)), rows), chunks);
  return {first, math.sub(next, first)};
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
  Value used = isWhole || type != ProductType::F32 ? Value()
               : isOnePanel                        ? columns
                                                   : math.sub(columns, firstColumn);
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
  words = math.size(kernel, k.ceilDiv(perWord));
  rowStride = words;
  bool hasTail = tn::constantDim(n).value_or(1) % kPanel != 0;
  if (group > 1) {
    groupSums = allocate(kernel, {rows, math.constant(group * kPanel)}, element);
  }
  Type stored = perWord > 1 ? storageType(getElementTypeOrSelf(matmul.getA().getType())) : element;
  if (perWord > 1) {
    SmallVector<Value> sizes = {words, math.constant(kPanel), math.constant(perWord)};
    panelCopy = packedB ? Value() : allocate(kernel, sizes, stored);
  } else if (group > 1 ? hasTail : !packedB || isNarrow) {
    panelCopy = allocate(kernel, {depth, math.constant(kPanel)}, element);
  }
  if (isNarrow && !packedB && matmul.getTransposeB()) {
    wideRows = allocate(kernel, {math.constant(kPanel), depth}, element);
  }
  std::optional<int64_t> constantDepth = tn::constantDim(k), constantRows = tn::constantDim(m);
  bool isBadStride = constantDepth && *constantDepth % (kBadStride * perWord) == 0 &&
                     !(constantRows && *constantRows < kMinRows);
  bool isWhole = constantDepth.value_or(1) % perWord == 0;
  if (matmul.getTransposeA() || isBadStride || isNarrow || !isWhole) {
    rowStride = math.add(words, math.constant(kStridePad));
    rowCopy = allocate(kernel, {math.constant(tileRows), math.mul(rowStride, perWord)}, stored);
    if (!isWhole) {
      // What lies behind a row is multiplied by zeros: it must be finite.
      clear(math, rowCopy);
    }
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

FailureOr<AffineExpr> lowerMatmul(KernelBuilder &kernel, func::FuncOp source, tn::MatmulOp matmul,
                                  int64_t tileRows) {
  return MatmulLowering(kernel, source, matmul, tileRows).lower();
}

} // namespace tenon::codegen::cpu
