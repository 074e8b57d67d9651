// A thread moves an element: neighbours store beside each other, and what they read is read again
// from the caches.
#include "compiler/codegen/cuda/conv/ConvFilter.h"

#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "compiler/codegen/cuda/conv/Tuning.h"

using namespace mlir;

namespace tenon::codegen::cuda {

unsigned layOutFilter(RegionBuilder &region, const StridedTensor &from, ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  Indices dims;
  for (int64_t size : sizes) {
    count *= size;
    dims.push_back(Index::constant(size));
  }
  MLIRContext *context = region.source.getContext();
  unsigned to = region.addTemporary(getAffineConstantExpr(count * byteSize(from.element), context));
  KernelFrame kernel(region, tuning::kFilterBlock);
  IndexMath &math = kernel.math;
  ThreadBuilder t(kernel.builder, kernel.location);
  Index number = math.add(math.multiply(kernel.block(), Index::constant(tuning::kFilterBlock)),
                          kernel.thread());
  t.when(t.isLess(math.value(number), math.constant(count)), [&](const ThreadBuilder &) {
    math.openScope();
    Index place = kernel.size(from.offset);
    for (auto [index, stride] : llvm::zip(math.delinearize(number, dims), from.strides)) {
      place = math.add(place, math.multiply(index, kernel.size(stride)));
    }
    kernel.store(to, kernel.load(from.buffer, from.element, place), number);
    math.closeScope();
  });
  int64_t blocks = (count + tuning::kFilterBlock - 1) / tuning::kFilterBlock;
  kernel.finish(getAffineConstantExpr(blocks, context));
  return to;
}

} // namespace tenon::codegen::cuda
