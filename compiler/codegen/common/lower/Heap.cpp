#include "compiler/codegen/common/lower/Heap.h"

using namespace mlir;

namespace tenon::codegen {
namespace {

/// Lets the number at a place sink below those that stand nearer to the top, if `goesOn`; gives the
/// list.
Value sink(Code code, Heap heap, Value place, Value goesOn, HeapOrder order) {
  return code.loopWhile(
      {heap.list, place, goesOn}, [](Code, ValueRange carried) { return carried[2]; },
      [&](Code inner, ValueRange carried) {
        Value list = carried[0], parent = carried[1], best = parent;
        Value first = inner.add(inner.add(parent, parent), inner.index(1));
        for (Value child : {first, inner.add(first, inner.index(1))}) {
          Value isThere = inner.compare(arith::CmpIPredicate::slt, child, heap.length);
          Value looked = inner.select(isThere, child, best);
          Value isBetter = order(inner, inner.at(list, looked), inner.at(list, best));
          best = inner.select(isBetter, looked, best);
        }
        Value up = inner.at(list, best), down = inner.at(list, parent);
        list = inner.put(down, inner.put(up, list, parent), best);
        Value hasMoved = inner.compare(arith::CmpIPredicate::ne, best, parent);
        return SmallVector<Value>{list, best, hasMoved};
      })[0];
}

Value always(Code code) {
  return arith::ConstantOp::create(code.b, code.location, code.b.getBoolAttr(true));
}

} // namespace

Heap makeHeap(Code code, Heap numbers, HeapOrder order) {
  Value half = code.half(numbers.length);
  Value list = code.loop(half, numbers.list, [&](Code inner, Value i, ValueRange lists) {
    Value place = inner.sub(inner.sub(half, i), inner.index(1));
    return SmallVector<Value>{sink(inner, {lists[0], numbers.length}, place, always(inner), order)};
  })[0];
  return {list, numbers.length};
}

Heap replaceTop(Code code, Heap heap, Value number, HeapOrder order) {
  Value none = code.index(0), top = code.at(heap.list, none);
  Value isLater = order(code, top, number);
  Value list = code.put(code.select(isLater, number, top), heap.list, none);
  return {sink(code, {list, heap.length}, none, isLater, order), heap.length};
}

Taken takeTop(Code code, Heap heap, HeapOrder order) {
  Value none = code.index(0), last = code.sub(heap.length, code.index(1));
  Value top = code.at(heap.list, none);
  Value list = code.put(code.at(heap.list, last), heap.list, none);
  return {top, {sink(code, {list, last}, none, always(code), order), last}};
}

} // namespace tenon::codegen
