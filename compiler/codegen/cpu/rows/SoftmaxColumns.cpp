// Softmax along a dim that is not the last, with running maxima: some columns side by side are read
// row by row, each with its largest element and sum of exponentials so far, and once more for the
// result. Nothing but those lies between the two passes, however long the columns are.
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/gemm/Contraction.h"
#include "engine/Level.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Rows between two changes of the largest elements: that costs an exponential beside theirs.
constexpr int64_t kRowsPerStep = 8;

class ColumnSoftmax {
public:
  ColumnSoftmax(KernelBuilder &kernel, tn::SoftmaxOp softmax, engine::CpuLevel level,
                int64_t columns);

  AffineExpr lower();

private:
  using Columns = llvm::function_ref<void(const IndexMath &, Value, Value)>;

  Value buffer(const IndexMath &math, Value of) const;
  Value load(const IndexMath &math, Value row, Value column, Value active) const;
  void store(const IndexMath &math, Value vector, Value row, Value column, Value active) const;
  Value splat(const IndexMath &math, double value) const;
  Value exponential(const IndexMath &math, Value x, Value shift) const;
  Value columnOf(const IndexMath &math, Value column) const { return math.sub(column, first); }
  void forColumns(const IndexMath &math, Columns body) const;
  void addRows(const IndexMath &math, Value row, int64_t rows) const;
  void finishColumns(const IndexMath &math) const;
  void writeRow(const IndexMath &math, Value row) const;

  KernelBuilder &kernel;
  bool isLog;
  Type storage;
  VectorType wide;
  int64_t lanes, columns;
  AffineExpr outer, length, inner;
  Value x, y;         ///< [outer, length, inner]
  Value most, total;  ///< [columns]: the largest so far; the sum, and then what results are times
  Value batch;        ///< of the tile
  Value first, width; ///< columns of the tile
};

ColumnSoftmax::ColumnSoftmax(KernelBuilder &kernel, tn::SoftmaxOp softmax, engine::CpuLevel level,
                             int64_t columns)
    : kernel(kernel), isLog(softmax.getLog()),
      storage(storageType(getElementTypeOrSelf(softmax.getType()))),
      wide(VectorType::get(floatLanes(level), kernel.builder.getF32Type())),
      lanes(floatLanes(level)), columns(columns) {
  tn::Dims dims = tn::getDims(softmax.getType());
  size_t axis = softmax.getAxis();
  MLIRContext *context = softmax.getContext();
  outer = tn::elementCount(context, ArrayRef<AffineExpr>(dims).take_front(axis));
  length = dims[axis];
  inner = tn::elementCount(context, ArrayRef<AffineExpr>(dims).drop_front(axis + 1));
}

Value ColumnSoftmax::buffer(const IndexMath &math, Value of) const {
  SmallVector<OpFoldResult> sizes;
  for (AffineExpr size : {outer, length, inner}) {
    sizes.push_back(getAsOpFoldResult(math.size(kernel, size)));
  }
  return memrefAt(math.builder, math.location, math.pointer(of, math.constant(0)), storage, sizes);
}

Value ColumnSoftmax::splat(const IndexMath &math, double value) const {
  return arith::ConstantOp::create(math.builder, math.location,
                                   DenseElementsAttr::get(wide, static_cast<float>(value)));
}

/// A vector of a row, widened; zeros in the lanes from `active` on, if that is given.
Value ColumnSoftmax::load(const IndexMath &math, Value row, Value column, Value active) const {
  return loadLanes(math, wide, x, {batch, row, column}, active);
}

void ColumnSoftmax::store(const IndexMath &math, Value vector, Value row, Value column,
                          Value active) const {
  storeLanes(math, vector, y, {batch, row, column}, active);
}

Value ColumnSoftmax::exponential(const IndexMath &math, Value x, Value shift) const {
  Value shifted = arith::SubFOp::create(math.builder, math.location, x, shift);
  return math::ExpOp::create(math.builder, math.location, shifted);
}

/// The tile's columns by vectors; the last, if it is short, with how many lanes are active.
void ColumnSoftmax::forColumns(const IndexMath &math, Columns body) const {
  Value rest = math.rem(width, math.constant(lanes)), whole = math.sub(width, rest);
  forEach(math, first, math.add(first, whole), lanes,
          [&](const IndexMath &in, Value column) { body(in, column, Value()); });
  if (getConstantIntValue(rest) == 0) {
    return;
  }
  Value hasRest = math.isLess(math.constant(0), rest);
  scf::IfOp::create(math.builder, math.location, hasRest, [&](OpBuilder &then, Location location) {
    IndexMath in(then, location);
    body(in, in.add(first, whole), rest);
    scf::YieldOp::create(then, location);
  });
}

/// Takes some rows into the columns' largest elements and sums.
void ColumnSoftmax::addRows(const IndexMath &math, Value row, int64_t rows) const {
  forColumns(math, [&](const IndexMath &in, Value column, Value active) {
    OpBuilder &b = in.builder;
    Location location = in.location;
    Value place = columnOf(in, column);
    Value before = vector::LoadOp::create(b, location, wide, most, place);
    Value sum = vector::LoadOp::create(b, location, wide, total, place);
    SmallVector<Value> elements;
    Value now = before;
    for (int64_t i = 0; i < rows; ++i) {
      elements.push_back(load(in, in.add(row, in.constant(i)), column, active));
      Value isMore =
          arith::CmpFOp::create(b, location, arith::CmpFPredicate::OGT, elements.back(), now);
      now = arith::SelectOp::create(b, location, isMore, elements.back(), now);
    }
    sum = arith::MulFOp::create(b, location, sum, exponential(in, before, now));
    // In pairs: a short chain, and less is lost.
    for (Value &element : elements) {
      element = exponential(in, element, now);
    }
    for (size_t step = 1; step < elements.size(); step *= 2) {
      for (size_t i = 0; i + step < elements.size(); i += 2 * step) {
        elements[i] = arith::AddFOp::create(b, location, elements[i], elements[i + step]);
      }
    }
    sum = arith::AddFOp::create(b, location, sum, elements.front());
    vector::StoreOp::create(b, location, now, most, place);
    vector::StoreOp::create(b, location, sum, total, place);
  });
}

/// Of a sum its inverse, or the largest element and the sum's logarithm together.
void ColumnSoftmax::finishColumns(const IndexMath &math) const {
  forColumns(math, [&](const IndexMath &in, Value column, Value) {
    OpBuilder &b = in.builder;
    Location location = in.location;
    Value place = columnOf(in, column);
    Value sum = vector::LoadOp::create(b, location, wide, total, place);
    if (isLog) {
      Value log = math::LogOp::create(b, location, sum);
      vector::StoreOp::create(b, location, log, total, place);
      return;
    }
    Value inverse = arith::DivFOp::create(b, location, splat(in, 1), sum);
    vector::StoreOp::create(b, location, inverse, total, place);
  });
}

void ColumnSoftmax::writeRow(const IndexMath &math, Value row) const {
  forColumns(math, [&](const IndexMath &in, Value column, Value active) {
    OpBuilder &b = in.builder;
    Location location = in.location;
    Value place = columnOf(in, column);
    Value largest = vector::LoadOp::create(b, location, wide, most, place);
    Value factor = vector::LoadOp::create(b, location, wide, total, place);
    Value element = load(in, row, column, active);
    Value result;
    if (isLog) {
      Value shifted = arith::SubFOp::create(b, location, element, largest);
      result = arith::SubFOp::create(b, location, shifted, factor);
    } else {
      result = arith::MulFOp::create(b, location, exponential(in, element, largest), factor);
    }
    store(in, result, row, column, active);
  });
}

AffineExpr ColumnSoftmax::lower() {
  IndexMath outside(kernel.builder, kernel.location);
  x = buffer(outside, kernel.input(0));
  y = buffer(outside, kernel.output(0));
  // Whole vectors also where the last columns are fewer.
  most = allocate(kernel, {outside.constant(columns)});
  total = allocate(kernel, {outside.constant(columns)});
  AffineExpr groups = inner.ceilDiv(columns);
  forEach(outside, kernel.begin, kernel.end, 1, [&](const IndexMath &math, Value point) {
    Value count = math.size(kernel, groups), rows = math.size(kernel, length);
    batch = math.div(point, count);
    first = math.mul(math.rem(point, count), columns);
    width = math.min(math.constant(columns), math.sub(math.size(kernel, inner), first));
    std::optional<int64_t> known = tn::constantDim(inner);
    if (known && *known % columns == 0) {
      width = math.constant(columns);
    }
    forEach(math, math.constant(0), math.constant(columns), lanes,
            [&](const IndexMath &in, Value place) {
              vector::StoreOp::create(in.builder, in.location,
                                      splat(in, std::numeric_limits<float>::lowest()), most, place);
              vector::StoreOp::create(in.builder, in.location, splat(in, 0), total, place);
            });
    Value rest = math.rem(rows, math.constant(kRowsPerStep)), whole = math.sub(rows, rest);
    forEach(math, math.constant(0), whole, kRowsPerStep,
            [&](const IndexMath &in, Value row) { addRows(in, row, kRowsPerStep); });
    forEach(math, whole, rows, 1, [&](const IndexMath &in, Value row) { addRows(in, row, 1); });
    finishColumns(math);
    forEach(math, math.constant(0), rows, 1,
            [&](const IndexMath &in, Value row) { writeRow(in, row); });
  });
  return outer * groups;
}

FamilyMatch matchColumnSoftmax(Region &region) {
  tn::SoftmaxOp softmax = onlyOp<tn::SoftmaxOp>(region.source);
  if (!softmax || !isa<BlockArgument>(softmax.getX())) {
    return FamilyMatch::refuse("not a lone softmax of an input");
  }
  tn::Dims dims = tn::getDims(softmax.getType());
  bool isWide = storageType(getElementTypeOrSelf(softmax.getType())).isF64();
  AffineExpr inner = tn::elementCount(softmax.getContext(),
                                      ArrayRef<AffineExpr>(dims).drop_front(softmax.getAxis() + 1));
  return !isWide && tn::constantDim(inner) != 1
             ? FamilyMatch::take(softmax)
             : FamilyMatch::refuse("along the last dim, or of f64");
}

FailureOr<AffineExpr> lowerColumnSoftmax(KernelBuilder &kernel, Region &region,
                                         const tn::SoftmaxOp &softmax, int64_t columns) {
  return ColumnSoftmax(kernel, softmax, region.level(), columns).lower();
}

} // namespace

constexpr KernelFamily kSoftmaxColumns = {
    .name = "softmax_columns",
    .what = "softmax across rows with running maxima: columns side by side, read twice",
    .strategies = {dispatch::kRows, dispatch::kSingle},
    .needs = {"softmax"},
    .needsElements = true,
    .match = matchColumnSoftmax,
    .parameter = "columns",
    // 2 KiB of each row, which memory streams; maxima and sums of them stay in the L1 cache.
    .candidates = {512, 256, 1024, 128},
    .emit = emitKernel<lowerColumnSoftmax>};

} // namespace tenon::codegen::cpu
