// One-shot all-reduce with a residual and an RMSNorm behind it, a block a row: what a decoder does
// between its halves. Each step rounds as if it were alone.
#include "compiler/codegen/cuda/collective/Collective.h"
#include "compiler/codegen/cuda/collective/Exchange.h"

#include "compiler/codegen/cuda/base/WarpOps.h"
#include "support/text/Text.h"

#include <algorithm>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

constexpr int64_t kMaxThreads = 1024;

int64_t vectorsOf(const AllReduceNormKernel &kernel) {
  return kernel.width * bitWidth(kernel.type) / 8 / engine::kCollectiveVector;
}

/// The sum of an f32 of each thread of the block, in the order of its warps.
Value sumOfBlock(KernelFrame &frame, const ThreadBuilder &t, Value own, Value memory,
                 int64_t warps) {
  for (int64_t mask = kWarp / 2; mask > 0; mask /= 2) {
    own = t.addF(own, t.shuffleXor(own, mask));
  }
  t.when(t.isEqual(t.lane(), t.i32(0)), [&](const ThreadBuilder &b) {
    b.store(own, b.offset(memory, b.f32Type(), b.div(b.thread(), kWarp)), 4);
  });
  t.barrier();
  Value sum = t.load(t.f32Type(), memory, 4);
  for (int64_t i = 1; i < warps; ++i) {
    sum = t.addF(sum, t.load(t.f32Type(), t.offset(memory, t.f32Type(), i), 4));
  }
  t.barrier();
  return sum;
}

struct RowKernel {
  KernelFrame &frame;
  const Exchange &exchange;
  const AllReduceNormKernel &kernel;
  int64_t vectors, threads;
  Value memory;
  Values weights; ///< of the thread's columns

  int64_t each() const { return (vectors + threads - 1) / threads; }
  /// The thread's column of vectors number k, and whether the row has it.
  Value column(const ThreadBuilder &t, int64_t k) const {
    return t.add(t.toI64(t.thread()), t.i64(k * threads));
  }
  /// `body` gives values of type `types` for column k; `empty` where the row has none.
  Values at(const ThreadBuilder &t, int64_t k, ThreadBuilder::Branch body,
            ThreadBuilder::Branch empty) const {
    if ((k + 1) * threads <= vectors) {
      return body(t);
    }
    return t.choose(t.isLess(column(t, k), t.i64(vectors)), body, empty);
  }
  Values zeros(const ThreadBuilder &t) const { return Values(exchange.lanes(), t.f32(0)); }

  void run(const ThreadBuilder &t, Value row) const;
};

void RowKernel::run(const ThreadBuilder &t, Value row) const {
  Value first = t.mul(row, vectors);
  SmallVector<Values> own, hidden;
  auto nothing = [](const ThreadBuilder &) { return Values{}; };
  for (int64_t k = 0; k < each(); ++k) {
    Value number = t.add(first, column(t, k));
    at(
        t, k,
        [&](const ThreadBuilder &b) {
          exchange.send(b, number, exchange.load(b, exchange.input(0), number));
          return Values{};
        },
        nothing);
  }
  Value squares = t.f32(0);
  for (int64_t k = 0; k < each(); ++k) {
    Value number = t.add(first, column(t, k));
    hidden.push_back(at(
        t, k,
        [&](const ThreadBuilder &b) {
          Value residual = exchange.load(b, exchange.input(1), number);
          Values sums = exchange.receive(b, number, exchange.load(b, exchange.input(0), number));
          for (auto [sum, add] : llvm::zip_equal(sums, exchange.toFloats(b, residual))) {
            sum = exchange.rounded(b, b.addF(add, sum));
          }
          exchange.store(b, exchange.output(0), number, exchange.toVector(b, sums));
          return sums;
        },
        [&](const ThreadBuilder &b) { return zeros(b); }));
    for (Value value : hidden.back()) {
      squares = t.fma(value, value, squares);
    }
  }
  Value mean = t.mulF(sumOfBlock(frame, t, squares, memory, threads / kWarp),
                      t.f32(1.0 / double(kernel.width)));
  Value scale =
      t.intrinsic("llvm.nvvm.rsqrt.approx.f", t.f32Type(), {t.addF(mean, t.f32(kernel.epsilon))});
  for (int64_t k = 0; k < each(); ++k) {
    at(
        t, k,
        [&](const ThreadBuilder &b) {
          Values normal;
          for (auto [value, weight] :
               llvm::zip_equal(hidden[k], exchange.toFloats(b, weights[k]))) {
            normal.push_back(b.mulF(b.mulF(value, scale), weight));
          }
          exchange.store(b, exchange.output(1), b.add(first, column(b, k)),
                         exchange.toVector(b, normal));
          return Values{};
        },
        nothing);
  }
}

} // namespace

int64_t threadsOf(const AllReduceNormKernel &kernel) {
  return std::min((vectorsOf(kernel) + kWarp - 1) / kWarp * kWarp, kMaxThreads);
}

std::string nameOf(const AllReduceNormKernel &kernel) {
  return strCat("tenon_all_reduce_norm_", nameOf(kernel.type), "_", kernel.ranks, "_",
                kernel.width);
}

void emitAllReduceNorm(RegionBuilder &region, const AllReduceNormKernel &kernel) {
  int64_t threads = threadsOf(kernel);
  KernelFrame frame(region, Exchange::buffers(kernel.ranks, 3, 2), 3, unsigned(threads));
  frame.setMinBlocksPerSm(1);
  Exchange exchange(frame, kernel.type, kernel.ranks, 3, 2);
  ThreadBuilder t = frame.code();
  RowKernel rows{frame,   exchange,
                 kernel,  vectorsOf(kernel),
                 threads, frame.shared(t.f32Type(), threads / kWarp),
                 {}};
  // The weight of the norm is there before the kernels in front of this one have ended.
  for (int64_t k = 0; k < rows.each(); ++k) {
    rows.weights.push_back(
        rows.at(
                t, k,
                [&](const ThreadBuilder &b) {
                  return Values{exchange.load(b, exchange.input(2), rows.column(b, k))};
                },
                [&](const ThreadBuilder &b) {
                  return Values{b.pack(Values(engine::kCollectiveVector / 4, b.i32(0)))};
                })
            .front());
  }
  frame.waitHere();
  exchange.begin(t);
  t.loop(exchange.block, exchange.count, exchange.grid, {},
         [&](const ThreadBuilder &b, Value row, ValueRange) {
           rows.run(b, row);
           return Values{};
         });
  exchange.end(t);
  frame.finish(getAffineConstantExpr(1, region.source.getContext()));
}

} // namespace tenon::codegen::cuda
