// One-shot all-gather: each rank sends what it has to every other one.
#include "compiler/codegen/cuda/collective/Collective.h"
#include "compiler/codegen/cuda/collective/Exchange.h"

#include "support/text/Text.h"

using namespace mlir;

namespace tenon::codegen::cuda {

std::string nameOf(const AllGatherKernel &kernel) {
  return strCat("tenon_all_gather_", kernel.ranks);
}

void emitAllGather(RegionBuilder &region, const AllGatherKernel &kernel) {
  KernelFrame frame(region, Exchange::buffers(kernel.ranks, 1, 1), 1, unsigned(kernel.threads));
  frame.setMinBlocksPerSm(1);
  Exchange exchange(frame, DType::F32, kernel.ranks, 1, 1);
  ThreadBuilder t = frame.code();
  exchange.begin(t);
  Value first = t.add(t.mul(exchange.block, kernel.threads), t.toI64(t.thread()));
  Value stride = t.mul(exchange.grid, kernel.threads);
  auto placeOf = [&](const ThreadBuilder &b, Value from, Value number) {
    return b.add(b.mul(from, exchange.lastSize()), number);
  };
  auto forVectors = [&](llvm::function_ref<void(const ThreadBuilder &, Value)> body) {
    t.loop(first, exchange.count, stride, {}, [&](const ThreadBuilder &b, Value i, ValueRange) {
      body(b, i);
      return ThreadBuilder::Values{};
    });
  };
  forVectors([&](const ThreadBuilder &b, Value i) {
    Value own = exchange.load(b, exchange.input(0), i);
    exchange.send(b, i, own);
    exchange.store(b, exchange.output(0), placeOf(b, exchange.rank, i), own);
  });
  forVectors([&](const ThreadBuilder &b, Value i) {
    exchange.forOthers(b, [&](const ThreadBuilder &o, int64_t from) {
      exchange.store(o, exchange.output(0), placeOf(o, o.i64(from), i),
                     exchange.take(o, i, from).front());
    });
  });
  exchange.end(t);
  frame.finish(getAffineConstantExpr(1, region.source.getContext()));
}

} // namespace tenon::codegen::cuda
