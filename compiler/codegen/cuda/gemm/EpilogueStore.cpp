// Relies on the linalg form asking for a sum only at the places of the result that it belongs to.
#include "compiler/codegen/cuda/gemm/EpilogueStore.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// The f16 whose code of an 8-bit float an element is (common/math/LowBits.h), or null.
Value encodedHalf(Value element) {
  arith::BitcastOp bits = element.getDefiningOp<arith::BitcastOp>();
  arith::TruncFOp code = bits ? bits.getIn().getDefiningOp<arith::TruncFOp>() : arith::TruncFOp();
  bool isCode = code && isa<Float8E4M3FNType>(code.getType());
  arith::ExtFOp widened = isCode ? code.getIn().getDefiningOp<arith::ExtFOp>() : arith::ExtFOp();
  return widened && widened.getIn().getType().isF16() ? widened.getIn() : Value();
}

/// Neighbours as a vector. Codes are made two at a time of vectors, from which LLVM makes vectors
/// of the arithmetic before them.
Value packed(const ThreadBuilder &t, ArrayRef<Value> elements) {
  if (elements.size() % 2 != 0 || !llvm::all_of(elements, encodedHalf)) {
    return t.pack(elements);
  }
  ThreadBuilder::Values codes;
  for (size_t i = 0; i < elements.size(); i += 2) {
    Value pair = t.pack({encodedHalf(elements[i]), encodedHalf(elements[i + 1])});
    codes.push_back(t.intrinsic("llvm.nvvm.f16x2.to.e4m3x2.rn", t.builder.getI16Type(), pair));
  }
  Value all = codes.size() > 1 ? t.pack(codes) : codes.front();
  return t.bitcast(t.vectorType(static_cast<int64_t>(elements.size()), t.builder.getI8Type()), all);
}

} // namespace

void storeThroughEpilogue(ElementEmitter &emitter, const GemmTensors &tensors,
                          ArrayRef<ResultStrip> strips) {
  KernelFrame &kernel = emitter.kernel;
  IndexMath &math = emitter.math;
  tn::Dims dims = kernel.region.dims(tensors.result);
  // One strip's accumulators differ by their columns alone.
  auto keyIn = [isOne = strips.size() == 1](ArrayRef<Index> place) {
    return keyOf(isOne ? place.take_back() : place);
  };
  std::map<IndicesKey, Value> accumulators;
  SmallVector<Indices> places;
  for (const ResultStrip &strip : strips) {
    int64_t width = strip.accumulators.size() / strip.parts;
    for (auto [i, accumulator] : llvm::enumerate(strip.accumulators)) {
      int64_t part = int64_t(i) / width, neighbour = int64_t(i) % width;
      Index distance = Index::constant(part * strip.partColumns + neighbour);
      Indices place = strip.place;
      place.back() = math.add(place.back(), distance);
      accumulators[keyIn(place)] = accumulator;
      if (part > 0) {
        continue;
      }
      places.push_back(place);
      if (strip.readsLinear) {
        emitter.setLinear(dims, place, math.add(strip.linear, distance));
      }
    }
  }
  emitter.hold(tensors.sum, [accumulators, keyIn](ArrayRef<Index> place) {
    // A single column may be asked for as column 0.
    return accumulators.size() == 1 ? accumulators.begin()->second : accumulators.at(keyIn(place));
  });
  SmallVector<Value> elements = emitter.elements(tensors.result, places);
  if (emitter.hasFailed()) {
    return;
  }
  ArrayRef<Value> rest = elements;
  for (const ResultStrip &strip : strips) {
    size_t width = strip.accumulators.size() / strip.parts;
    Value stored = width > 1 ? packed(kernel.code(), rest.take_front(width)) : rest.front();
    kernel.store(kernel.region.output(0), stored, strip.linear, strip.isStored);
    rest = rest.drop_front(width);
  }
}

} // namespace tenon::codegen::cuda
