// The strategy of attention: for a head and a block of queries, scores by the product kernel into a
// strip of scratch, softmax along its rows, and the product with V. Keys and values are brought
// into panels once for all query blocks of a head.
#include "compiler/codegen/common/Reduce.h"
#include "compiler/codegen/cpu/Contraction.h"
#include "compiler/codegen/cpu/KernelFamily.h"
#include "compiler/codegen/cpu/Levels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// A vector of floats as one of f32.
Value widen(OpBuilder &builder, Location location, Value x) {
  Type type = x.getType(), wide = builder.getF32Type();
  if (VectorType vector = dyn_cast<VectorType>(type)) {
    wide = vector.clone(wide);
  }
  return type == wide ? x : arith::ExtFOp::create(builder, location, wide, x).getResult();
}

/// Fewest queries worth a grid point of their own.
constexpr int64_t kLeastQueries = 14;

/// One of q, k, v and the result: a buffer whose rows are those of one head.
struct HeadRows {
  Value buffer;
  bool headsInner;
  tn::Dims dims; ///< as stored

  AffineExpr heads() const { return dims[headsInner ? 2 : 1]; }
  AffineExpr length() const { return dims[headsInner ? 1 : 2]; }
  AffineExpr width() const { return dims[3]; }
};

/// A block of queries of one head; all of index type.
struct QueryBlock {
  Value batch, head, first, count;
  /// Keys that any of them sees.
  Value keys;
};

class AttentionLowering {
public:
  AttentionLowering(KernelBuilder &kernel, tn::AttentionOp attention, engine::CpuLevel level,
                    int64_t most);

  FailureOr<AffineExpr> lower();

private:
  Value rowStride(const IndexMath &math, const HeadRows &rows) const;
  Value rowOffset(const IndexMath &math, const HeadRows &rows, Value batch, Value head,
                  Value row) const;
  Value rowsView(const IndexMath &math, const HeadRows &rows, Value batch, Value head, Value first,
                 Value count, Value column, Value width) const;
  void allocateScratch(const IndexMath &math);
  void packKeysAndValues(const IndexMath &math, Value batchAndHead);
  QueryBlock blockOf(const IndexMath &math, const GridPoint &point) const;
  void computeScores(const IndexMath &math, const QueryBlock &block);
  void softmaxRow(const IndexMath &math, const QueryBlock &block, Value row);
  Value scaledScores(const IndexMath &math, const QueryBlock &block, Value row, Value column,
                     Value active) const;
  Value maskAt(const IndexMath &math, const QueryBlock &block, Value row, Value column,
               Value active) const;
  void computeResult(const IndexMath &math, const QueryBlock &block);

  Value broadcast(const IndexMath &math, Value scalar) const {
    return vector::BroadcastOp::create(math.builder, math.location, vector, scalar);
  }
  Value number(const IndexMath &math, double value) const {
    return arith::ConstantOp::create(math.builder, math.location,
                                     math.builder.getF32FloatAttr(value));
  }
  void forPanels(const IndexMath &math, Value count,
                 llvm::function_ref<void(const IndexMath &, Value)> body) const;

  KernelBuilder &kernel;
  int64_t mostQueries; ///< of a grid point
  VectorType vector;
  bool causal;
  double scale;
  HeadRows q, k, v, result;
  Value mask; ///< buffer, or null
  tn::Dims maskDims;
  ContractionGrid grid;
  Value queries, keys, depth, width; ///< Sq, Sk, D, Dv
  Value keyPanels, valuePanels;
  Value packedKeys;   ///< [key panels * D, 32]
  Value packedValues; ///< [value panels * Sk, 32]
  Value scores;       ///< [most queries, key panels * 32]
  Value sums;         ///< [most queries, value panels * 32]
  Value inverses;     ///< [most queries]: 1 / sum of the row's exponentials
  Value wideQueries;  ///< [most queries, D]: of narrow elements, else null
  Value wideKeys;     ///< [32, D]: of narrow elements, else null
};

AttentionLowering::AttentionLowering(KernelBuilder &kernel, tn::AttentionOp attention,
                                     engine::CpuLevel level, int64_t most)
    : kernel(kernel), mostQueries(most),
      vector(VectorType::get(floatLanes(level), kernel.builder.getF32Type())),
      causal(attention.getCausal()), scale(attention.getScale().convertToDouble()) {
  auto buffer = [&](Value operand) {
    return kernel.input(cast<BlockArgument>(operand).getArgNumber());
  };
  ArrayRef<bool> inner = attention.getHeadsInner();
  q = {buffer(attention.getQ()), inner[0], tn::getDims(attention.getQ().getType())};
  k = {buffer(attention.getK()), inner[1], tn::getDims(attention.getK().getType())};
  v = {buffer(attention.getV()), inner[2], tn::getDims(attention.getV().getType())};
  result = {kernel.output(0), inner[3], tn::getDims(attention.getY().getType())};
  if (attention.getMask()) {
    mask = buffer(attention.getMask());
    maskDims = tn::getDims(attention.getMask().getType());
  }
  grid.batches = q.dims[0] * q.heads();
  grid.chunks = getAffineConstantExpr(1, attention.getContext());
  grid.panels = chunkCount(q.length(), mostQueries, kLeastQueries, grid.batches);
}

Value AttentionLowering::rowStride(const IndexMath &math, const HeadRows &rows) const {
  AffineExpr stride = rows.headsInner ? rows.heads() * rows.width() : rows.width();
  return math.size(kernel, stride);
}

Value AttentionLowering::rowOffset(const IndexMath &math, const HeadRows &rows, Value batch,
                                   Value head, Value row) const {
  Value outer = rows.headsInner ? row : head, inner = rows.headsInner ? head : row;
  Value offset = batch;
  offset = math.add(math.mul(offset, math.size(kernel, rows.dims[1])), outer);
  offset = math.add(math.mul(offset, math.size(kernel, rows.dims[2])), inner);
  return math.mul(offset, math.size(kernel, rows.width()));
}

/// Rows [first, first + count) of a head and some of their columns as a memref of two dims.
Value AttentionLowering::rowsView(const IndexMath &math, const HeadRows &rows, Value batch,
                                  Value head, Value first, Value count, Value column,
                                  Value columns) const {
  Value one = math.constant(1);
  SmallVector<Value> offsets = {batch, head, first, column}, sizes = {one, one, count, columns};
  if (rows.headsInner) {
    std::swap(offsets[1], offsets[2]);
    std::swap(sizes[1], sizes[2]);
  }
  SmallVector<OpFoldResult> strides(4, math.builder.getIndexAttr(1));
  SmallVector<OpFoldResult> mixedOffsets = getAsOpFoldResult(ValueRange(offsets));
  SmallVector<OpFoldResult> mixedSizes = getAsOpFoldResult(ValueRange(sizes));
  SmallVector<int64_t> shape = {getConstantIntValue(count).value_or(ShapedType::kDynamic),
                                getConstantIntValue(columns).value_or(ShapedType::kDynamic)};
  // The dims of size one to drop are ambiguous by shape alone, so the strides are picked here.
  MemRefType full = cast<MemRefType>(memref::SubViewOp::inferResultType(
      cast<MemRefType>(rows.buffer.getType()), mixedOffsets, mixedSizes, strides));
  auto [fullStrides, offset] = full.getStridesAndOffset();
  StridedLayoutAttr layout = StridedLayoutAttr::get(
      math.builder.getContext(), offset, {fullStrides[rows.headsInner ? 1 : 2], fullStrides[3]});
  MemRefType type = MemRefType::get(shape, full.getElementType(), layout);
  return memref::SubViewOp::create(math.builder, math.location, type, rows.buffer, mixedOffsets,
                                   mixedSizes, strides);
}

void AttentionLowering::allocateScratch(const IndexMath &math) {
  queries = math.size(kernel, q.length());
  keys = math.size(kernel, k.length());
  depth = math.size(kernel, q.width());
  width = math.size(kernel, v.width());
  keyPanels = math.size(kernel, k.length().ceilDiv(kPanel));
  valuePanels = math.size(kernel, v.width().ceilDiv(kPanel));
  Value panel = math.constant(kPanel), most = math.constant(mostQueries);
  packedKeys = allocate(kernel, {math.size(kernel, k.length().ceilDiv(kPanel) * q.width()), panel});
  packedValues =
      allocate(kernel, {math.size(kernel, v.width().ceilDiv(kPanel) * k.length()), panel});
  // One panel more, so that the rows do not all fall into the same cache sets.
  scores = allocate(kernel, {most, math.size(kernel, (k.length().ceilDiv(kPanel) + 1) * kPanel)});
  sums = allocate(kernel, {most, math.size(kernel, v.width().ceilDiv(kPanel) * kPanel)});
  inverses = allocate(kernel, {most});
  if (!cast<MemRefType>(q.buffer.getType()).getElementType().isF32()) {
    wideQueries = allocate(kernel, {most, depth});
    wideKeys = allocate(kernel, {panel, depth});
  }
}

void AttentionLowering::forPanels(const IndexMath &math, Value count,
                                  llvm::function_ref<void(const IndexMath &, Value)> body) const {
  scf::ForOp::create(math.builder, math.location, math.constant(0), count, math.constant(1),
                     ValueRange(),
                     [&](OpBuilder &inner, Location location, Value index, ValueRange) {
                       body(IndexMath(inner, location), index);
                       scf::YieldOp::create(inner, location);
                     });
}

void AttentionLowering::packKeysAndValues(const IndexMath &math, Value batchAndHead) {
  Value heads = math.size(kernel, q.heads());
  Value batch = math.div(batchAndHead, heads);
  Value sharing = math.div(heads, math.size(kernel, k.heads()));
  Value head = math.div(math.rem(batchAndHead, heads), sharing);
  Value zero = math.constant(0), panel = math.constant(kPanel);
  forPanels(math, keyPanels, [&](const IndexMath &inner, Value index) {
    Value first = inner.mul(index, kPanel);
    Value count = inner.min(panel, inner.sub(keys, first));
    Value to = inner.pointer(packedKeys, inner.mul(inner.mul(index, depth), panel));
    if (wideKeys) {
      Value rows = rowsView(inner, k, batch, head, first, count, zero, depth);
      copyElements(inner, rows, inner.view(wideKeys, {zero, zero}, {count, depth}),
                   inner.builder.getMultiDimIdentityMap(2));
      callPackTransposed(inner, kernel.function(), inner.pointer(wideKeys, zero), depth, to, depth,
                         count);
      return;
    }
    Value from = inner.pointer(k.buffer, rowOffset(inner, k, batch, head, first));
    callPackTransposed(inner, kernel.function(), from, rowStride(inner, k), to, depth, count);
  });
  if (std::optional<int64_t> constant = getConstantIntValue(width);
      !constant || *constant % kPanel) {
    clear(math, packedValues);
  }
  forPanels(math, valuePanels, [&](const IndexMath &inner, Value index) {
    Value first = inner.mul(index, kPanel);
    Value count = inner.min(panel, inner.sub(width, first));
    Value from = rowsView(inner, v, batch, head, zero, keys, first, count);
    Value to = inner.view(packedValues, {inner.mul(index, keys), zero}, {keys, count});
    copyElements(inner, from, to, inner.builder.getMultiDimIdentityMap(2));
  });
}

QueryBlock AttentionLowering::blockOf(const IndexMath &math, const GridPoint &point) const {
  Value heads = math.size(kernel, q.heads());
  Value blocks = math.size(kernel, grid.panels);
  Value one = math.constant(1);
  QueryBlock block;
  block.batch = math.div(point.batch, heads);
  block.head = math.rem(point.batch, heads);
  block.first = math.div(math.mul(point.panel, queries), blocks);
  Value next = math.div(math.mul(math.add(point.panel, one), queries), blocks);
  block.count = math.sub(next, block.first);
  block.keys = keys;
  if (causal) {
    // The last query sees `next + Sk - Sq` keys.
    block.keys = math.min(keys, math.max(one, math.sub(math.add(next, keys), queries)));
  }
  return block;
}

void AttentionLowering::computeScores(const IndexMath &math, const QueryBlock &block) {
  Value a, stride, zero = math.constant(0);
  if (wideQueries) {
    Value rows = rowsView(math, q, block.batch, block.head, block.first, block.count, zero, depth);
    copyElements(math, rows, math.view(wideQueries, {zero, zero}, {block.count, depth}),
                 math.builder.getMultiDimIdentityMap(2));
    a = math.pointer(wideQueries, zero);
    stride = depth;
  } else {
    a = math.pointer(q.buffer, rowOffset(math, q, block.batch, block.head, block.first));
    stride = rowStride(math, q);
  }
  Value panel = math.constant(kPanel);
  Value strip = math.builder.createOrFold<memref::DimOp>(math.location, scores, 1);
  Value seen = math.div(math.add(block.keys, math.constant(kPanel - 1)), panel);
  forPanels(math, seen, [&](const IndexMath &inner, Value index) {
    callProduct(inner, kernel.function(),
                {a, stride, inner.pointer(packedKeys, inner.mul(inner.mul(index, depth), panel)),
                 panel, inner.pointer(scores, inner.mul(index, kPanel)), strip, depth, block.count,
                 Value()});
  });
}

/// The mask's elements for a row of the block and a vector of keys (`active` of them, or all).
Value AttentionLowering::maskAt(const IndexMath &math, const QueryBlock &block, Value row,
                                Value column, Value active) const {
  SmallVector<Value> position = {block.batch, block.head, math.add(block.first, row), column};
  SmallVector<Value> indices;
  for (auto [i, dim] : llvm::enumerate(maskDims)) {
    bool repeats = tn::constantDim(dim) == 1;
    indices.push_back(repeats ? math.constant(0) : position[4 - maskDims.size() + i]);
  }
  auto wide = [&](Value x) { return widen(math.builder, math.location, x); };
  if (maskDims.empty() || tn::constantDim(maskDims.back()) == 1) {
    Value single = memref::LoadOp::create(math.builder, math.location, mask, indices);
    return broadcast(math, wide(single));
  }
  VectorType stored =
      VectorType::get(vector.getShape(), cast<MemRefType>(mask.getType()).getElementType());
  if (!active) {
    return wide(vector::LoadOp::create(math.builder, math.location, stored, mask, indices));
  }
  VectorType flags = VectorType::get(vector.getShape(), math.builder.getI1Type());
  Value lanes = vector::CreateMaskOp::create(math.builder, math.location, flags, active);
  Value none =
      arith::ConstantOp::create(math.builder, math.location, math.builder.getZeroAttr(stored));
  return wide(vector::MaskedLoadOp::create(math.builder, math.location, stored, mask, indices,
                                           lanes, none));
}

/// A vector of scores with scale and mask; -inf in the lanes from `active` on.
Value AttentionLowering::scaledScores(const IndexMath &math, const QueryBlock &block, Value row,
                                      Value column, Value active) const {
  OpBuilder &builder = math.builder;
  Value x = vector::LoadOp::create(builder, math.location, vector, scores, ValueRange{row, column});
  x = arith::MulFOp::create(builder, math.location, x, broadcast(math, number(math, scale)));
  if (mask) {
    x = arith::AddFOp::create(builder, math.location, x, maskAt(math, block, row, column, active));
  }
  if (!active) {
    return x;
  }
  VectorType flags = VectorType::get(vector.getShape(), builder.getI1Type());
  Value lanes = vector::CreateMaskOp::create(builder, math.location, flags, active);
  Value none = broadcast(math, number(math, -std::numeric_limits<double>::infinity()));
  return arith::SelectOp::create(builder, math.location, lanes, x, none);
}

/// Three passes over a row of the strip: largest, exponentials and their sum, zeros for unseen
/// keys.
void AttentionLowering::softmaxRow(const IndexMath &math, const QueryBlock &block, Value row) {
  OpBuilder &builder = math.builder;
  Location location = math.location;
  Value zero = math.constant(0), lanes = math.constant(vector.getDimSize(0));
  Value seen = keys;
  if (causal) {
    Value query = math.add(math.add(block.first, row), math.constant(1));
    seen = math.min(keys, math.max(math.constant(1), math.sub(math.add(query, keys), queries)));
  }
  Value rest = math.rem(seen, lanes);
  Value whole = math.sub(seen, rest);
  auto larger = [&](OpBuilder &b, Value x, Value most) -> Value {
    Value isLarger = arith::CmpFOp::create(b, location, arith::CmpFPredicate::OGT, x, most);
    return arith::SelectOp::create(b, location, isLarger, x, most);
  };
  auto prepare = [&](OpBuilder &b, Value column, Value active, Value most) -> Value {
    Value x = scaledScores(IndexMath(b, location), block, row, column, active);
    vector::StoreOp::create(b, location, x, scores, ValueRange{row, column});
    return larger(b, x, most);
  };
  Value none = broadcast(math, number(math, -std::numeric_limits<double>::infinity()));
  Value most = scf::ForOp::create(builder, location, zero, whole, lanes, ValueRange{none},
                                  [&](OpBuilder &b, Location, Value column, ValueRange state) {
                                    Value next = prepare(b, column, Value(), state[0]);
                                    scf::YieldOp::create(b, location, next);
                                  })
                   .getResult(0);
  Value hasRest = math.isLess(zero, rest);
  most = scf::IfOp::create(
             builder, location, hasRest,
             [&](OpBuilder &b, Location) {
               scf::YieldOp::create(b, location, prepare(b, whole, rest, most));
             },
             [&](OpBuilder &b, Location) { scf::YieldOp::create(b, location, most); })
             .getResult(0);
  Value largest =
      vector::ReductionOp::create(builder, location, vector::CombiningKind::MAXNUMF, most);
  Value shift = broadcast(math, largest);
  Value end =
      math.mul(math.div(math.add(seen, math.constant(vector.getDimSize(0) - 1)), lanes), lanes);
  Value total =
      scf::ForOp::create(
          builder, location, zero, end, lanes, ValueRange{broadcast(math, number(math, 0))},
          [&](OpBuilder &b, Location, Value column, ValueRange state) {
            Value x = vector::LoadOp::create(b, location, vector, scores, ValueRange{row, column});
            x = arith::SubFOp::create(b, location, x, shift);
            Value e = math::ExpOp::create(b, location, x);
            vector::StoreOp::create(b, location, e, scores, ValueRange{row, column});
            Value sum = arith::AddFOp::create(b, location, state[0], e);
            scf::YieldOp::create(b, location, sum);
          })
          .getResult(0);
  Value sum = vector::ReductionOp::create(builder, location, vector::CombiningKind::ADD, total);
  Value inverse = arith::DivFOp::create(builder, location, number(math, 1), sum);
  if (!tn::constantDim(k.length())) {
    // Of no keys there is no sum, and the product with V is 0.
    Value isNone = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, end, zero);
    inverse = arith::SelectOp::create(builder, location, isNone, number(math, 0), inverse);
  }
  memref::StoreOp::create(builder, location, inverse, inverses, ValueRange{row});
  if (causal) {
    Value nothing = broadcast(math, number(math, 0));
    scf::ForOp::create(
        builder, location, end, block.keys, lanes, ValueRange(),
        [&](OpBuilder &b, Location, Value column, ValueRange) {
          vector::StoreOp::create(b, location, nothing, scores, ValueRange{row, column});
          scf::YieldOp::create(b, location);
        });
  }
}

/// The product with V, then the division by the rows' sums on the way to the result.
void AttentionLowering::computeResult(const IndexMath &math, const QueryBlock &block) {
  Value panel = math.constant(kPanel), zero = math.constant(0);
  Value strip = math.builder.createOrFold<memref::DimOp>(math.location, scores, 1);
  Value stride = math.builder.createOrFold<memref::DimOp>(math.location, sums, 1);
  Value a = math.pointer(scores, zero);
  forPanels(math, valuePanels, [&](const IndexMath &inner, Value index) {
    callProduct(inner, kernel.function(),
                {a, strip, inner.pointer(packedValues, inner.mul(inner.mul(index, keys), panel)),
                 panel, inner.pointer(sums, inner.mul(index, kPanel)), stride, block.keys,
                 block.count, Value()});
  });
  OpBuilder &builder = math.builder;
  Value from = math.view(sums, {zero, zero}, {block.count, width});
  Value factors = math.view(inverses, {zero}, {block.count});
  Value to = rowsView(math, result, block.batch, block.head, block.first, block.count, zero, width);
  AffineMap identity = builder.getMultiDimIdentityMap(2);
  AffineMap byRow = AffineMap::get(2, 0, builder.getAffineDimExpr(0));
  SmallVector<utils::IteratorType> loops(2, utils::IteratorType::parallel);
  linalg::GenericOp::create(builder, math.location, ValueRange{from, factors}, ValueRange{to},
                            ArrayRef<AffineMap>{identity, byRow, identity}, loops,
                            [](OpBuilder &body, Location location, ValueRange args) {
                              Value scaled =
                                  arith::MulFOp::create(body, location, args[0], args[1]);
                              scaled = narrow(body, location, scaled, args[2].getType());
                              linalg::YieldOp::create(body, location, scaled);
                            });
}

FailureOr<AffineExpr> AttentionLowering::lower() {
  allocateScratch(IndexMath(kernel.builder, kernel.location));
  auto prepare = [&](const IndexMath &math, const GridPoint &point) {
    packKeysAndValues(math, point.batch);
  };
  auto tile = [&](const IndexMath &math, const GridPoint &point) {
    QueryBlock block = blockOf(math, point);
    computeScores(math, block);
    forPanels(math, block.count,
              [&](const IndexMath &inner, Value row) { softmaxRow(inner, block, row); });
    computeResult(math, block);
    return success();
  };
  if (failed(buildGridLoop(kernel, grid, prepare, tile))) {
    return failure();
  }
  return grid.points();
}

} // namespace

bool isFlashAttention(func::FuncOp source) {
  auto ops = source.getOps<tn::AttentionOp>();
  return !ops.empty() && !getElementTypeOrSelf((*ops.begin()).getQ()).isF64();
}

FailureOr<AffineExpr> lowerAttention(KernelBuilder &kernel, func::FuncOp source,
                                     engine::CpuLevel level, int64_t queries) {
  tn::AttentionOp attention = *source.getOps<tn::AttentionOp>().begin();
  if (failed(checkBuffers(attention))) {
    return failure();
  }
  return AttentionLowering(kernel, attention, level, queries).lower();
}

} // namespace tenon::codegen::cpu
