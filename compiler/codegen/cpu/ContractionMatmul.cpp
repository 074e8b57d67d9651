// Matrix products: A's rows are read where they lie unless their stride would fill one cache set; B
// comes in panels, packed at compile time or one panel at a time into scratch. Elements of 16 bits
// are widened on the way into scratch.
#include "compiler/codegen/common/Reduce.h"
#include "compiler/codegen/common/ScalarBody.h"
#include "compiler/codegen/cpu/Contraction.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// Fewest rows of a chunk worth a grid point of its own.
constexpr int64_t kLeastRows = 14;

class MatmulLowering {
public:
  MatmulLowering(KernelBuilder &kernel, func::FuncOp source, tn::MatmulOp matmul, int64_t tileRows);

  FailureOr<AffineExpr> lower();

private:
  Value batchOffset(const IndexMath &math, Value operand, Value batch) const;
  bool isInteger() const { return isa<IntegerType>(element); }
  Value inputOf(Value operand) const {
    return kernel.input(cast<BlockArgument>(operand).getArgNumber());
  }
  void packRows(const IndexMath &math, const GridPoint &point);
  Value packPanel(const IndexMath &math, const GridPoint &point);
  LogicalResult buildTile(const IndexMath &math, const GridPoint &point);
  struct Range {
    Value first, count;
  };
  Range rowsOf(const IndexMath &math, const GridPoint &point) const;

  KernelBuilder &kernel;
  int64_t tileRows;
  tn::MatmulOp matmul;
  Type element;  ///< in which sums are taken: f32 or i32
  bool isNarrow; ///< whether the operands' is another
  Epilogue epilogue;
  TileWriter writer;
  MLIRContext *context;
  tn::Dims dims, batchDims;
  AffineExpr m, n, k;
  ContractionGrid grid;
  Value rows, columns, depth;
  Value packedB;   ///< panels packed at compile time, or null
  Value panelCopy; ///< scratch for one panel of B, or null
  Value wideRows;  ///< scratch for rows of a transposed B of narrow elements, or null
  Value rowCopy;   ///< scratch for a chunk of A's rows, or null
  Value rowStride; ///< of A's rows as the kernel reads them
};

MatmulLowering::MatmulLowering(KernelBuilder &kernel, func::FuncOp source, tn::MatmulOp matmul,
                               int64_t tileRows)
    : kernel(kernel), tileRows(tileRows), matmul(matmul),
      element(accumulatorType(getElementTypeOrSelf(matmul.getType()))),
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
  grid.panels = n.ceilDiv(kPanel);
  grid.chunks = chunkCount(m, tileRows, kLeastRows, grid.batches * grid.panels);
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

/// One panel of B into scratch, its missing columns zero; the address of the panel.
Value MatmulLowering::packPanel(const IndexMath &math, const GridPoint &point) {
  Value matrix = batchOffset(math, matmul.getB(), point.batch);
  Value zero = math.constant(0);
  Value first = math.mul(point.panel, kPanel);
  Value count = math.min(math.constant(kPanel), math.sub(columns, first));
  std::optional<int64_t> constantColumns = tn::constantDim(n);
  bool isWhole = constantColumns && *constantColumns % kPanel == 0;
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

LogicalResult MatmulLowering::buildTile(const IndexMath &math, const GridPoint &point) {
  Range range = rowsOf(math, point);
  Value firstColumn = math.mul(point.panel, kPanel);
  Value panel =
      panelCopy ? packPanel(math, point) : math.pointer(packedB, math.mul(firstColumn, depth));
  Value a;
  if (rowCopy) {
    a = math.pointer(rowCopy, math.constant(0));
  } else {
    Value matrix = batchOffset(math, matmul.getA(), point.batch);
    Value first = math.add(math.mul(matrix, rows), range.first);
    a = math.pointer(inputOf(matmul.getA()), math.mul(first, depth));
  }
  Value firstRow = math.add(math.mul(point.batch, rows), range.first);
  std::optional<int64_t> constantColumns = tn::constantDim(n);
  bool isWhole = constantColumns && *constantColumns % kPanel == 0;
  bool isOnePanel = constantColumns && *constantColumns <= kPanel;
  Value used = isWhole ? Value() : isOnePanel ? columns : math.sub(columns, firstColumn);
  return writer.write(math, firstRow, range.count, {math.constant(0), point.panel, n},
                      [&](const IndexMath &inner, const Sums &sums) {
                        callProduct(inner, kernel.function(),
                                    {a, rowStride, panel, inner.constant(kPanel), sums.pointer,
                                     sums.stride, depth, range.count, Value(), isInteger(), used});
                      });
}

FailureOr<AffineExpr> MatmulLowering::lower() {
  IndexMath math(kernel.builder, kernel.location);
  rows = math.size(kernel, m);
  columns = math.size(kernel, n);
  depth = math.size(kernel, k);
  rowStride = depth;
  if (!packedB || isNarrow) {
    panelCopy = allocate(kernel, {depth, math.constant(kPanel)}, element);
  }
  if (isNarrow && !packedB && matmul.getTransposeB()) {
    wideRows = allocate(kernel, {math.constant(kPanel), depth}, element);
  }
  std::optional<int64_t> constantDepth = tn::constantDim(k), constantRows = tn::constantDim(m);
  bool isBadStride = constantDepth && *constantDepth % kBadStride == 0 &&
                     !(constantRows && *constantRows < kLeastRows);
  if (matmul.getTransposeA() || isBadStride || isNarrow) {
    rowStride = math.add(depth, math.constant(kStridePad));
    rowCopy = allocate(kernel, {math.constant(tileRows), rowStride}, element);
  }
  auto prepare = [&](const IndexMath &inner, const GridPoint &point) { packRows(inner, point); };
  auto tile = [&](const IndexMath &inner, const GridPoint &point) {
    return buildTile(inner, point);
  };
  llvm::function_ref<void(const IndexMath &, const GridPoint &)> none;
  if (failed(rowCopy ? buildGridLoop(kernel, grid, prepare, tile)
                     : buildGridLoop(kernel, grid, none, tile))) {
    return failure();
  }
  return grid.points();
}

} // namespace

bool canLowerMatmul(tn::MatmulOp matmul) {
  Type element = getElementTypeOrSelf(matmul.getType());
  return element.isF32() || element.isF16() || element.isBF16() ||
         storageType(element).isInteger(32);
}

FailureOr<AffineExpr> lowerMatmul(KernelBuilder &kernel, func::FuncOp source, tn::MatmulOp matmul,
                                  int64_t tileRows) {
  return MatmulLowering(kernel, source, matmul, tileRows).lower();
}

} // namespace tenon::codegen::cpu
