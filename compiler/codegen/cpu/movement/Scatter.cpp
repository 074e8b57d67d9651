// Scatters over several threads: a grid point owns a part of the result. It copies that part of the
// data, where the result lies elsewhere, and then takes the updates that go there, in their order,
// so that updates of one place meet in the order that is defined.
#include "compiler/codegen/common/lower/ElementFn.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/gemm/Contraction.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Columns of a grid point: some cache lines of each row.
constexpr int64_t kColumns = 32;
/// Steps ahead of which a point's columns are fetched: those of the next step lie on another page,
/// which hardware does not foresee.
constexpr int64_t kStepsAhead = 8;
constexpr int64_t kCacheLine = 64; // bytes
/// Columns of a slice that one grid point writes.
constexpr int64_t kSliceColumns = 4096;
/// Columns by which at least as many threads share the work as parts of the rows would give.
constexpr int64_t kEnoughPoints = 4;

/// How many parts the rows are owned in. Every part looks at all indices, which for short slices
/// costs as much as writing them.
int64_t partsOf(AffineExpr slice) {
  int64_t length = tn::constantDim(slice).value_or(64);
  return length < 32 ? 4 : length < 256 ? 8 : 16;
}

Operation *scatterOf(func::FuncOp source) {
  Block &body = source.getBody().front();
  bool isAlone = llvm::hasSingleElement(body.without_terminator());
  return isAlone && isa<tn::ScatterElementsOp, tn::ScatterNdOp>(body.front()) ? &body.front()
                                                                              : nullptr;
}

class ScatterLowering {
public:
  ScatterLowering(KernelBuilder &kernel, Operation *op)
      : kernel(kernel), context(op->getContext()), x(op->getOperand(0)), indices(op->getOperand(1)),
        updates(op->getOperand(2)), element(getElementTypeOrSelf(x)),
        dims(tn::getDims(x.getType())) {}

  AffineExpr scatterElements(tn::ScatterElementsOp scatter);
  AffineExpr scatterSlices(tn::ScatterNdOp scatter);

private:
  AffineExpr count(ArrayRef<AffineExpr> some) const { return tn::elementCount(context, some); }
  Value input(Value operand) const {
    return kernel.input(cast<BlockArgument>(operand).getArgNumber());
  }
  Value shaped(const IndexMath &math, Value buffer, ArrayRef<AffineExpr> shape) const;
  void copyOwned(const IndexMath &math, Value from, Value to, ArrayRef<Value> start,
                 ArrayRef<Value> sizes) const;
  void fetch(const IndexMath &math, Value buffer, ArrayRef<Value> start, Value end) const;
  void combineSlices(const IndexMath &math, Value update, Value place) const;
  Value owns(const IndexMath &math, Value row, Value first, Value end) const;

  KernelBuilder &kernel;
  MLIRContext *context;
  Value x, indices, updates;
  Type element;
  tn::Dims dims;
  tn::ScatterKind kind = tn::ScatterKind::none;
};

/// A buffer with other dims.
Value ScatterLowering::shaped(const IndexMath &math, Value buffer,
                              ArrayRef<AffineExpr> shape) const {
  SmallVector<OpFoldResult> sizes;
  for (AffineExpr size : shape) {
    sizes.push_back(getAsOpFoldResult(math.size(kernel, size)));
  }
  return memrefAt(math.builder, math.location, math.pointer(buffer, math.constant(0)),
                  cast<MemRefType>(buffer.getType()).getElementType(), sizes);
}

Value ScatterLowering::owns(const IndexMath &math, Value row, Value first, Value end) const {
  // Both ends by one comparison.
  Value distance = math.sub(row, first), length = math.sub(end, first);
  return arith::CmpIOp::create(math.builder, math.location, arith::CmpIPredicate::ult, distance,
                               length);
}

/// Copies the data of what a point owns, unless the result is written over it, as the state of a
/// session is.
void ScatterLowering::copyOwned(const IndexMath &math, Value from, Value to, ArrayRef<Value> start,
                                ArrayRef<Value> sizes) const {
  auto address = [&](Value buffer) -> Value {
    return memref::ExtractAlignedPointerAsIndexOp::create(math.builder, math.location, buffer);
  };
  Value isElsewhere = arith::CmpIOp::create(math.builder, math.location, arith::CmpIPredicate::ne,
                                            address(from), address(to));
  scf::IfOp::create(math.builder, math.location, isElsewhere, [&](OpBuilder &then, Location) {
    IndexMath inner(then, math.location);
    copyElements(inner, inner.view(from, start, sizes), inner.view(to, start, sizes),
                 then.getMultiDimIdentityMap(static_cast<unsigned>(sizes.size())));
    scf::YieldOp::create(then, math.location);
  });
}

/// Asks for the cache lines of kColumns columns, as far as they lie before `end`.
void ScatterLowering::fetch(const IndexMath &math, Value buffer, ArrayRef<Value> start,
                            Value end) const {
  int64_t width = cast<MemRefType>(buffer.getType()).getElementType().getIntOrFloatBitWidth();
  int64_t step = kCacheLine * 8 / std::max<int64_t>(width, 8);
  SmallVector<Value> at(start);
  for (int64_t column = 0; column < kColumns; column += step) {
    at.back() =
        math.min(math.add(start.back(), math.constant(column)), math.sub(end, math.constant(1)));
    memref::PrefetchOp::create(math.builder, math.location, buffer, at, /*isWrite=*/false,
                               /*localityHint=*/3, /*isDataCache=*/true);
  }
}

/// place = combine(place, update) for lines of one length.
void ScatterLowering::combineSlices(const IndexMath &math, Value update, Value place) const {
  AffineMap line = math.builder.getMultiDimIdentityMap(2);
  SmallVector<utils::IteratorType> loops(2, utils::IteratorType::parallel);
  linalg::GenericOp::create(math.builder, math.location, ValueRange{update}, ValueRange{place},
                            ArrayRef<AffineMap>{line, line}, loops,
                            [&](OpBuilder &b, Location location, ValueRange elements) {
                              Value combined = combineUpdate(b, location, kind, element,
                                                             elements[1], elements[0]);
                              linalg::YieldOp::create(b, location, combined);
                            });
}

/// The data as [outer, length, inner] and updates as [outer, count, inner]: a point owns some rows
/// of the axis and some columns.
AffineExpr ScatterLowering::scatterElements(tn::ScatterElementsOp scatter) {
  kind = scatter.getKind();
  size_t axis = scatter.getAxis();
  AffineExpr outer = count(ArrayRef<AffineExpr>(dims).take_front(axis)), length = dims[axis];
  AffineExpr inner = count(ArrayRef<AffineExpr>(dims).drop_front(axis + 1));
  AffineExpr steps = tn::getDims(updates.getType())[axis], groups = inner.ceilDiv(kColumns);
  std::optional<int64_t> points = tn::constantDim(outer * groups);
  // Every part looks at all indices, which for a single column costs as much as writing them.
  bool hasColumns = tn::constantDim(inner) != 1;
  int64_t partCountOf = hasColumns && points && *points < kEnoughPoints ? kEnoughPoints : 1;
  AffineExpr parts = getAffineConstantExpr(partCountOf, context);
  IndexMath outside(kernel.builder, kernel.location);
  Value from = shaped(outside, input(x), {outer, length, inner});
  Value to = shaped(outside, kernel.output(0), {outer, length, inner});
  Value chosen = shaped(outside, input(indices), {outer, steps, inner});
  Value given = shaped(outside, input(updates), {outer, steps, inner});
  // Columns of few lines far apart would fall into few sets of the caches.
  Value tile;
  if (hasColumns) {
    tile = allocate(kernel,
                    {outside.constant(1), outside.size(kernel, length), outside.constant(kColumns)},
                    storageType(element));
  }
  forEach(outside, kernel.begin, kernel.end, 1, [&](const IndexMath &math, Value point) {
    Value partCount = math.size(kernel, parts), groupCount = math.size(kernel, groups);
    Value size = math.size(kernel, length), one = math.constant(1);
    Value part = math.rem(point, partCount), rest = math.div(point, partCount);
    Value first = math.div(math.mul(part, size), partCount);
    Value end = math.div(math.mul(math.add(part, one), size), partCount);
    Value column = math.mul(math.rem(rest, groupCount), kColumns);
    Value row = math.div(rest, groupCount);
    Value lastColumn =
        math.min(math.size(kernel, inner), math.add(column, math.constant(kColumns)));
    SmallVector<Value> start = {row, first, column}, zeros(3, math.constant(0));
    SmallVector<Value> sizes = {one, math.sub(end, first), math.sub(lastColumn, column)};
    AffineMap same = math.builder.getMultiDimIdentityMap(3);
    Value owned = tile ? math.view(tile, zeros, sizes) : math.view(to, start, sizes);
    if (tile) {
      copyElements(math, math.view(from, start, sizes), owned, same);
    } else {
      copyOwned(math, from, to, start, sizes);
    }
    forEach(
        math, math.constant(0), math.size(kernel, steps), 1, [&](const IndexMath &in, Value step) {
          if (tile) {
            Value last = in.sub(in.size(kernel, steps), one);
            Value ahead = in.min(in.add(step, in.constant(kStepsAhead)), last);
            fetch(in, chosen, {row, ahead, column}, lastColumn);
            fetch(in, given, {row, ahead, column}, lastColumn);
          }
          forEach(in, column, lastColumn, 1, [&](const IndexMath &each, Value c) {
            OpBuilder &b = each.builder;
            Location location = each.location;
            SmallVector<Value> at = {row, step, c};
            Value index = memref::LoadOp::create(b, location, chosen, at);
            Value place = indexInDim(b, location, indices, index, length, size);
            auto put = [&](const IndexMath &here) {
              SmallVector<Value> target = {here.constant(0), here.sub(place, first),
                                           here.sub(c, column)};
              Value update = memref::LoadOp::create(here.builder, location, given, at);
              Value old = memref::LoadOp::create(here.builder, location, owned, target);
              Value combined = combineUpdate(here.builder, location, kind, element, old, update);
              memref::StoreOp::create(here.builder, location, combined, owned, target);
            };
            if (tn::constantDim(parts) == 1) {
              return put(each);
            }
            scf::IfOp::create(b, location, owns(each, place, first, end),
                              [&](OpBuilder &then, Location) {
                                put(IndexMath(then, location));
                                scf::YieldOp::create(then, location);
                              });
          });
        });
    if (tile) {
      copyElements(math, owned, math.view(to, start, sizes), same);
    }
  });
  return outer * groups * parts;
}

/// The data as [rows, slice]: a point owns some rows, and some columns of long slices.
AffineExpr ScatterLowering::scatterSlices(tn::ScatterNdOp scatter) {
  kind = scatter.getKind();
  tn::Dims indexDims = tn::getDims(indices.getType());
  int64_t tuple = *tn::constantDim(indexDims.back());
  AffineExpr rows = count(ArrayRef<AffineExpr>(dims).take_front(tuple));
  AffineExpr slice = count(ArrayRef<AffineExpr>(dims).drop_front(tuple));
  AffineExpr steps = count(ArrayRef<AffineExpr>(indexDims).drop_back());
  AffineExpr parts = getAffineConstantExpr(partsOf(slice), context);
  AffineExpr groups = slice.ceilDiv(kSliceColumns);
  IndexMath outside(kernel.builder, kernel.location);
  Value from = shaped(outside, input(x), {rows, slice});
  Value to = shaped(outside, kernel.output(0), {rows, slice});
  Value chosen = shaped(outside, input(indices), {steps, getAffineConstantExpr(tuple, context)});
  Value given = shaped(outside, input(updates), {steps, slice});
  forEach(outside, kernel.begin, kernel.end, 1, [&](const IndexMath &math, Value point) {
    Value partCount = math.size(kernel, parts), total = math.size(kernel, rows);
    Value one = math.constant(1), part = math.rem(point, partCount);
    Value first = math.div(math.mul(part, total), partCount);
    Value end = math.div(math.mul(math.add(part, one), total), partCount);
    Value column = math.mul(math.div(point, partCount), kSliceColumns);
    Value width =
        math.min(math.constant(kSliceColumns), math.sub(math.size(kernel, slice), column));
    SmallVector<Value> start = {first, column}, sizes = {math.sub(end, first), width};
    copyOwned(math, from, to, start, sizes);
    forEach(
        math, math.constant(0), math.size(kernel, steps), 1, [&](const IndexMath &in, Value step) {
          OpBuilder &b = in.builder;
          Location location = in.location;
          Value row = in.constant(0);
          for (int64_t i = 0; i < tuple; ++i) {
            Value size = in.size(kernel, dims[i]);
            Value index =
                memref::LoadOp::create(b, location, chosen, ValueRange{step, in.constant(i)});
            Value place = indexInDim(b, location, indices, index, dims[i], size);
            row = in.add(in.mul(row, size), place);
          }
          scf::IfOp::create(b, location, owns(in, row, first, end), [&](OpBuilder &then, Location) {
            IndexMath inner(then, location);
            combineSlices(inner, inner.view(given, {step, column}, {one, width}),
                          inner.view(to, {row, column}, {one, width}));
            scf::YieldOp::create(then, location);
          });
        });
  });
  return groups * parts;
}

/// Whether the dims but the axis are the same for data and updates.
bool hasWholeRows(tn::ScatterElementsOp scatter) {
  tn::Dims data = tn::getDims(scatter.getX().getType());
  tn::Dims updates = tn::getDims(scatter.getUpdates().getType());
  data.erase(data.begin() + scatter.getAxis());
  updates.erase(updates.begin() + scatter.getAxis());
  return tn::sameDims(data, updates);
}

/// Whether the result can be owned in parts.
bool isOwned(Operation *op) {
  if (!op || !llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>)) {
    return false;
  }
  if (tn::ScatterElementsOp elements = dyn_cast<tn::ScatterElementsOp>(op)) {
    return hasWholeRows(elements);
  }
  tn::Dims indices = tn::getDims(op->getOperand(1).getType());
  return tn::constantDim(indices.back()).value_or(0) > 0;
}

FamilyMatch matchScatter(Region &region) {
  Operation *op = scatterOf(region.source);
  return isOwned(op) ? FamilyMatch::take(op)
                     : FamilyMatch::refuse("not a scatter over all rows of its data");
}

FailureOr<AffineExpr> lowerScatter(KernelBuilder &kernel, Region &, Operation *const &op) {
  ScatterLowering lowering(kernel, op);
  if (tn::ScatterElementsOp elements = dyn_cast<tn::ScatterElementsOp>(op)) {
    return lowering.scatterElements(elements);
  }
  return lowering.scatterSlices(cast<tn::ScatterNdOp>(op));
}

} // namespace

constexpr KernelFamily kScatterOwned = {
    .name = "scatter_owned",
    .what = "scatters: each grid point owns a part of the result and takes its updates in order",
    .strategies = {dispatch::kSingle},
    .needs = {"scatter"},
    .needsElements = true,
    .match = matchScatter,
    .emit = emitKernel<lowerScatter>};

} // namespace tenon::codegen::cpu
