// One-shot all-reduce with a residual and an RMSNorm behind it, a block a row: what a decoder does
// between its halves. Each step rounds as if it were alone.
#include "compiler/codegen/cuda/collective/Collective.h"
#include "compiler/codegen/cuda/collective/Exchange.h"

#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/gemm/SlicedGemm.h"
#include "support/text/Text.h"

#include <algorithm>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

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

  bool isAlone() const { return kernel.ranks == 1; }
  /// Behind an all-reduce, its sums lie where their norm will.
  Value summands() const { return isAlone() ? exchange.output(1) : exchange.input(0); }
  Value residual() const { return exchange.input(isAlone() ? 0 : 1); }
  Value weight() const { return exchange.input(isAlone() ? 1 : 2); }
  int64_t each() const { return (vectors + threads - 1) / threads; }
  /// The thread's column of vectors number k, in the row also where the row has none, and whether
  /// it has (null: always).
  Value column(const ThreadBuilder &t, int64_t k, Value &isInside) const {
    Value column = t.add(t.toI64(t.thread()), t.i64(k * threads));
    if ((k + 1) * threads > vectors) {
      isInside = t.isLess(column, t.i64(vectors));
      column = t.min(column, t.i64(vectors - 1));
    }
    return column;
  }
  /// Whether the thread's block writes its column of vectors number k (null: always).
  Value isOwn(const ThreadBuilder &t, int64_t k, Value part, Value isInside) const {
    Value isPart = part && each() > 1 ? t.isEqual(part, t.i64(k)) : Value();
    return isPart && isInside ? t.bitAnd(isPart, isInside) : isPart ? isPart : isInside;
  }
  static void when(const ThreadBuilder &t, Value condition,
                   llvm::function_ref<void(const ThreadBuilder &)> body) {
    condition ? t.when(condition, body) : body(t);
  }

  SmallVector<Values> sums(const ThreadBuilder &t, ArrayRef<Value> numbers, Value first,
                           Value part) const;
  void run(const ThreadBuilder &t, Value row, Value part) const;
};

/// Of all ranks, for the vectors of these numbers; f32 as they are after rounding. The block sends
/// its part of the row that begins with vector `first`.
SmallVector<Values> RowKernel::sums(const ThreadBuilder &t, ArrayRef<Value> numbers, Value first,
                                    Value part) const {
  Values own;
  if (!isAlone()) {
    Value column = t.add(t.mul(part, threads), t.toI64(t.thread()));
    t.when(t.isLess(column, t.i64(vectors)), [&](const ThreadBuilder &b) {
      Value number = b.add(first, column);
      exchange.send(b, number, exchange.load(b, summands(), number));
    });
  }
  for (Value number : numbers) {
    own.push_back(exchange.load(t, summands(), number));
  }
  if (isAlone()) {
    return llvm::map_to_vector(own, [&](Value vector) { return exchange.toFloats(t, vector); });
  }
  return exchange.receive(t, numbers, own);
}

/// A block receives the whole row, whose squares it adds up, and writes its part of it (null: all).
void RowKernel::run(const ThreadBuilder &t, Value row, Value part) const {
  Value first = t.mul(row, vectors);
  Values numbers, isInside(each()), residuals;
  for (int64_t k = 0; k < each(); ++k) {
    numbers.push_back(t.add(first, column(t, k, isInside[k])));
  }
  for (Value number : numbers) {
    residuals.push_back(exchange.load(t, residual(), number));
  }
  SmallVector<Values> hidden = sums(t, numbers, first, part);
  Value squares = t.f32(0);
  for (int64_t k = 0; k < each(); ++k) {
    for (auto [sum, add] : llvm::zip_equal(hidden[k], exchange.toFloats(t, residuals[k]))) {
      sum = exchange.rounded(t, t.addF(add, sum));
    }
    when(t, isOwn(t, k, part, isInside[k]), [&](const ThreadBuilder &b) {
      exchange.store(b, exchange.output(0), numbers[k], exchange.toVector(b, hidden[k]));
    });
    for (Value &value : hidden[k]) {
      value = isInside[k] ? t.select(isInside[k], value, t.f32(0)) : value;
      squares = t.fma(value, value, squares);
    }
  }
  Value mean = t.fma(sumOfBlock(frame, t, squares, memory, threads / kWarp),
                     t.f32(1.0 / double(kernel.width)), t.f32(kernel.epsilon));
  Value scale = t.intrinsic("llvm.nvvm.rsqrt.approx.f", t.f32Type(), {mean});
  for (int64_t k = 0; k < each(); ++k) {
    when(t, isOwn(t, k, part, isInside[k]), [&](const ThreadBuilder &b) {
      Values normal;
      for (auto [value, weight] : llvm::zip_equal(hidden[k], exchange.toFloats(b, weights[k]))) {
        normal.push_back(b.mulF(b.mulF(value, scale), weight));
      }
      exchange.store(b, exchange.output(1), numbers[k], exchange.toVector(b, normal));
    });
  }
}

} // namespace

int64_t threadsOf(const AllReduceNormKernel &kernel) {
  return std::min((vectorsOf(kernel) + kWarp - 1) / kWarp, kSlices) * kWarp;
}

int64_t blocksOfRow(const AllReduceNormKernel &kernel) {
  return kernel.ranks == 1 ? 1 : (vectorsOf(kernel) + threadsOf(kernel) - 1) / threadsOf(kernel);
}

std::string nameOf(const AllReduceNormKernel &kernel) {
  return strCat("tenon_all_reduce_norm_", nameOf(kernel.type), "_", kernel.ranks, "_",
                kernel.width);
}

void emitAllReduceNorm(RegionBuilder &region, const AllReduceNormKernel &kernel) {
  int64_t threads = threadsOf(kernel);
  unsigned inputs = kernel.ranks == 1 ? 2 : 3;
  KernelFrame frame(region, Exchange::buffers(kernel.ranks, inputs, 2), inputs, unsigned(threads));
  Exchange exchange(frame, kernel.type, kernel.ranks, inputs, 2);
  ThreadBuilder t = frame.code();
  RowKernel rows{frame,   exchange,
                 kernel,  vectorsOf(kernel),
                 threads, frame.shared(t.f32Type(), threads / kWarp),
                 {}};
  // The weight of the norm is there before the kernels in front of this one have ended.
  for (int64_t k = 0; k < rows.each(); ++k) {
    Value isInside, column = rows.column(t, k, isInside);
    rows.weights.push_back(exchange.load(t, rows.weight(), column));
  }
  frame.waitHere();
  if (kernel.ranks == 1) {
    rows.run(t, exchange.block, Value());
  } else {
    frame.setMinBlocksPerSm(1);
    exchange.begin(t);
    t.loop(exchange.block, exchange.count, exchange.grid, {},
           [&](const ThreadBuilder &b, Value item, ValueRange) {
             rows.run(b, b.div(item, rows.each()), b.rem(item, rows.each()));
             return Values{};
           });
    exchange.end(t);
  }
  frame.finish(getAffineConstantExpr(1, region.source.getContext()));
}

} // namespace tenon::codegen::cuda
