// The k largest or smallest of each row: a heap of the best so far with the last of them on top. A
// vector of elements is compared with the top at once; only where one stands before it does the
// heap change. Rows are shared among threads.
#include "compiler/codegen/common/lower/Ranked.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/gemm/Contraction.h"
#include "engine/Level.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

class TopKLowering {
public:
  TopKLowering(KernelBuilder &kernel, tn::TopKOp op, engine::CpuLevel level);

  AffineExpr lower();

private:
  Ranked heapAt(const IndexMath &math, Value place) const;
  void putHeap(const IndexMath &math, Ranked ranked, Value place) const;
  Ranked elementAt(const IndexMath &math, Value place) const;
  Value isBefore(const IndexMath &math, Ranked a, Ranked b) const {
    return codegen::isBefore(math.builder, math.location, op, a, b);
  }
  void sink(const IndexMath &math, Ranked ranked, Value hole, Value length) const;
  void takeRow(const IndexMath &math, Value outerIndex, Value innerIndex);
  void fillHeap(const IndexMath &math);
  void offer(const IndexMath &math, Value place);
  void offerVector(const IndexMath &math, Value place);
  void emptyHeap(const IndexMath &math, Value outerIndex, Value innerIndex);
  void putResult(const IndexMath &math, Value result, Value element, Value place);
  void selectRow(const IndexMath &math, Value row);

  KernelBuilder &kernel;
  tn::TopKOp op;
  int64_t lanes;
  Type element, wide, storage;
  tn::Dims dims, kept;
  Value row;             ///< [length] widened elements of a row
  Value values, numbers; ///< the heap: [k] elements and their places
  Value length, wanted;
  AffineExpr outer, inner;
};

TopKLowering::TopKLowering(KernelBuilder &kernel, tn::TopKOp op, engine::CpuLevel level)
    : kernel(kernel), op(op), lanes(floatLanes(level)), element(getElementTypeOrSelf(op.getX())),
      wide(accumulatorType(element)), storage(storageType(element)),
      dims(tn::getDims(op.getX().getType())), kept(tn::getDims(op.getValues().getType())) {
  MLIRContext *context = op.getContext();
  size_t axis = op.getAxis();
  outer = tn::elementCount(context, ArrayRef<AffineExpr>(dims).take_front(axis));
  inner = tn::elementCount(context, ArrayRef<AffineExpr>(dims).drop_front(axis + 1));
}

Ranked TopKLowering::heapAt(const IndexMath &math, Value place) const {
  return {memref::LoadOp::create(math.builder, math.location, values, place),
          memref::LoadOp::create(math.builder, math.location, numbers, place)};
}

void TopKLowering::putHeap(const IndexMath &math, Ranked ranked, Value place) const {
  memref::StoreOp::create(math.builder, math.location, ranked.value, values, place);
  memref::StoreOp::create(math.builder, math.location, ranked.index, numbers, place);
}

Ranked TopKLowering::elementAt(const IndexMath &math, Value place) const {
  return {memref::LoadOp::create(math.builder, math.location, row, place), math.toI64(place)};
}

/// Puts an element where the heap has a hole, or below it: a child that stands later moves up.
void TopKLowering::sink(const IndexMath &math, Ranked ranked, Value hole, Value size) const {
  Location location = math.location;
  Value yes = arith::ConstantOp::create(math.builder, location, math.builder.getBoolAttr(true));
  scf::WhileOp loop = scf::WhileOp::create(
      math.builder, location, TypeRange{math.builder.getIndexType(), math.builder.getI1Type()},
      ValueRange{hole, yes},
      [&](OpBuilder &b, Location, ValueRange state) {
        IndexMath in(b, location);
        Value child = in.add(in.mul(state[0], 2), in.constant(1));
        Value goesOn = arith::AndIOp::create(b, location, state[1], in.isLess(child, size));
        scf::ConditionOp::create(b, location, goesOn, state);
      },
      [&](OpBuilder &b, Location, ValueRange state) {
        IndexMath in(b, location);
        Value first = in.add(in.mul(state[0], 2), in.constant(1));
        Value second = in.min(in.add(first, in.constant(1)), in.sub(size, in.constant(1)));
        Ranked left = heapAt(in, first), right = heapAt(in, second);
        Value isRight = isBefore(in, left, right);
        auto choose = [&](Value a, Value other) -> Value {
          return arith::SelectOp::create(b, location, isRight, a, other);
        };
        Ranked child{choose(right.value, left.value), choose(right.index, left.index)};
        Value place = choose(second, first);
        Value moves = isBefore(in, ranked, child);
        scf::IfOp::create(b, location, moves, [&](OpBuilder &then, Location) {
          putHeap(IndexMath(then, location), child, state[0]);
          scf::YieldOp::create(then, location);
        });
        Value next = arith::SelectOp::create(b, location, moves, place, state[0]);
        scf::YieldOp::create(b, location, ValueRange{next, moves});
      });
  putHeap(math, ranked, loop.getResult(0));
}

/// A row side by side in scratch, in the type in which elements are compared.
void TopKLowering::takeRow(const IndexMath &math, Value outerIndex, Value innerIndex) {
  Value columns = math.size(kernel, inner);
  Value x = math.asLine(kernel.input(0));
  Value start = math.add(math.mul(math.mul(outerIndex, length), columns), innerIndex);
  if (tn::constantDim(inner) == 1) {
    return copyElements(math, math.view(x, {start}, {length}), row,
                        math.builder.getMultiDimIdentityMap(1));
  }
  linalg::GenericOp::create(
      math.builder, math.location, ValueRange(), ValueRange{row},
      ArrayRef<AffineMap>{math.builder.getMultiDimIdentityMap(1)},
      ArrayRef<utils::IteratorType>{utils::IteratorType::parallel},
      [&](OpBuilder &body, Location location, ValueRange) {
        IndexMath in(body, location);
        Value place = in.add(start, in.mul(linalg::IndexOp::create(body, location, 0), columns));
        Value single = memref::LoadOp::create(body, location, x, place);
        linalg::YieldOp::create(body, location, widen(body, location, single));
      });
}

void TopKLowering::fillHeap(const IndexMath &math) {
  Value zero = math.constant(0), one = math.constant(1);
  forEach(math, zero, wanted, 1,
          [&](const IndexMath &in, Value i) { putHeap(in, elementAt(in, i), i); });
  Value half = math.div(wanted, math.constant(2));
  forEach(math, zero, half, 1, [&](const IndexMath &in, Value i) {
    Value place = in.sub(in.sub(half, one), i);
    sink(in, heapAt(in, place), place, wanted);
  });
}

/// Takes an element in the place of the top if it stands before it.
void TopKLowering::offer(const IndexMath &math, Value place) {
  Ranked here = elementAt(math, place), top = heapAt(math, math.constant(0));
  scf::IfOp::create(math.builder, math.location, isBefore(math, here, top),
                    [&](OpBuilder &then, Location location) {
                      IndexMath in(then, location);
                      sink(in, here, in.constant(0), wanted);
                      scf::YieldOp::create(then, location);
                    });
}

/// A vector of elements, of which those may be taken that stand before the top.
void TopKLowering::offerVector(const IndexMath &math, Value place) {
  OpBuilder &b = math.builder;
  Location location = math.location;
  VectorType type = VectorType::get(lanes, wide);
  Value vector = vector::LoadOp::create(b, location, type, row, place);
  Value top = vector::BroadcastOp::create(b, location, type, heapAt(math, math.constant(0)).value);
  Value before;
  if (isa<FloatType>(wide)) {
    // Unordered, as NaN stands before numbers or is looked at closely.
    before = arith::CmpFOp::create(
        b, location, op.getLargest() ? arith::CmpFPredicate::UGT : arith::CmpFPredicate::ULT,
        vector, top);
  } else {
    using P = arith::CmpIPredicate;
    bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
    P predicate = op.getLargest() ? (isUnsigned ? P::ugt : P::sgt) : (isUnsigned ? P::ult : P::slt);
    before = arith::CmpIOp::create(b, location, predicate, vector, top);
  }
  // One bit a lane; those that are set are looked at one by one.
  Type bits = b.getIntegerType(lanes);
  Value packed = vector::BitCastOp::create(b, location, VectorType::get(1, bits), before);
  Value set = vector::ExtractOp::create(b, location, packed, 0);
  Value none = arith::ConstantOp::create(b, location, b.getIntegerAttr(bits, 0));
  Value one = arith::ConstantOp::create(b, location, b.getIntegerAttr(bits, 1));
  scf::WhileOp::create(
      b, location, TypeRange{bits}, ValueRange{set},
      [&](OpBuilder &inner, Location, ValueRange state) {
        Value isAny =
            arith::CmpIOp::create(inner, location, arith::CmpIPredicate::ne, state[0], none);
        scf::ConditionOp::create(inner, location, isAny, state);
      },
      [&](OpBuilder &inner, Location, ValueRange state) {
        IndexMath in(inner, location);
        Value lane = math::CountTrailingZerosOp::create(inner, location, state[0]);
        lane = arith::IndexCastUIOp::create(inner, location, inner.getIndexType(), lane);
        offer(in, in.add(place, lane));
        Value less = arith::SubIOp::create(inner, location, state[0], one);
        Value rest = arith::AndIOp::create(inner, location, state[0], less);
        scf::YieldOp::create(inner, location, rest);
      });
}

/// Where a result leaves the region, if it does.
void TopKLowering::putResult(const IndexMath &math, Value result, Value element, Value place) {
  for (OpOperand &use : result.getUses()) {
    Value line = math.asLine(kernel.output(use.getOperandNumber()));
    memref::StoreOp::create(math.builder, math.location, element, line, place);
  }
}

/// Takes the tops, which come in the reverse order.
void TopKLowering::emptyHeap(const IndexMath &math, Value outerIndex, Value innerIndex) {
  Value columns = math.size(kernel, inner);
  Value start = math.add(math.mul(math.mul(outerIndex, wanted), columns), innerIndex);
  forEach(math, math.constant(0), wanted, 1, [&](const IndexMath &in, Value i) {
    Value last = in.sub(in.sub(wanted, in.constant(1)), i);
    Ranked top = heapAt(in, in.constant(0));
    Value place = in.add(start, in.mul(last, columns));
    Value stored = narrow(in.builder, in.location, top.value, storage);
    putResult(in, op.getValues(), stored, place);
    putResult(in, op.getIndices(), top.index, place);
    sink(in, heapAt(in, last), in.constant(0), last);
  });
}

void TopKLowering::selectRow(const IndexMath &math, Value number) {
  Value columns = math.size(kernel, inner);
  Value outerIndex = math.div(number, columns), innerIndex = math.rem(number, columns);
  Value isAny = math.isLess(math.constant(0), wanted);
  scf::IfOp::create(math.builder, math.location, isAny, [&](OpBuilder &then, Location location) {
    IndexMath in(then, location);
    takeRow(in, outerIndex, innerIndex);
    fillHeap(in);
    Value rest = in.sub(length, wanted);
    Value whole = in.add(wanted, in.mul(in.div(rest, in.constant(lanes)), lanes));
    forEach(in, wanted, whole, lanes,
            [&](const IndexMath &body, Value i) { offerVector(body, i); });
    forEach(in, whole, length, 1, [&](const IndexMath &body, Value i) { offer(body, i); });
    emptyHeap(in, outerIndex, innerIndex);
    scf::YieldOp::create(then, location);
  });
}

AffineExpr TopKLowering::lower() {
  IndexMath math(kernel.builder, kernel.location);
  length = math.size(kernel, dims[op.getAxis()]);
  wanted = math.size(kernel, kept[op.getAxis()]);
  row = allocate(kernel, {length}, wide);
  values = allocate(kernel, {wanted}, wide);
  numbers = allocate(kernel, {wanted}, kernel.builder.getI64Type());
  forEach(math, kernel.begin, kernel.end, 1,
          [&](const IndexMath &in, Value number) { selectRow(in, number); });
  return outer * inner;
}

FamilyMatch matchTopK(Region &region) {
  tn::TopKOp op = onlyOp<tn::TopKOp>(region.source);
  return op && !tn::getDims(op.getX().getType()).empty()
             ? FamilyMatch::take(op)
             : FamilyMatch::refuse("not a selection of the largest");
}

FailureOr<AffineExpr> lowerTopK(KernelBuilder &kernel, Region &region, const tn::TopKOp &op) {
  return TopKLowering(kernel, op, region.level()).lower();
}

} // namespace

constexpr KernelFamily kTopKHeap = {
    .name = "topk_heap",
    .what = "the k largest of rows: a heap, changed only where a vector has one that stands before "
            "its top",
    .strategies = {dispatch::kSingle},
    .needs = {"top_k"},
    .needsElements = true,
    .match = matchTopK,
    .emit = emitKernel<lowerTopK>,
    .order = noSums<Region>};

} // namespace tenon::codegen::cpu
