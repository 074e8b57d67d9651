// A binary heap of numbers in a tensor of i64, which loops update in place.
#pragma once

#include "compiler/codegen/common/lower/LoopCode.h"

namespace tenon::codegen {

struct Heap {
  mlir::Value list;   ///< [n] i64, of which the first `length` are in use
  mlir::Value length; ///< of index type
};

/// Whether the number `a` stands nearer to the top than `b`; a total order.
using HeapOrder = llvm::function_ref<mlir::Value(Code, mlir::Value a, mlir::Value b)>;

/// A list of numbers in any order as a heap.
Heap makeHeap(Code code, Heap numbers, HeapOrder order);

/// The heap with another number in place of the top, where that comes after it in the order.
Heap replaceTop(Code code, Heap heap, mlir::Value number, HeapOrder order);

struct Taken {
  mlir::Value top;
  Heap rest;
};
/// The top of a heap that is not empty.
Taken takeTop(Code code, Heap heap, HeapOrder order);

} // namespace tenon::codegen
