// All-reduces: each rank sums everything (one-shot), or a part that it sends round (two-shot).
// Relies on a thread reading what it overwrites first, so that the result may lie over the summand.
#include "compiler/codegen/cuda/collective/Collective.h"
#include "compiler/codegen/cuda/collective/Exchange.h"

#include "compiler/codegen/cuda/base/WarpOps.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;
/// Vectors that a thread of a two-shot kernel has under way, of all summands together where it
/// sums.
constexpr int64_t kAhead = 4, kSummandsAhead = 8;

/// What a thread does of [first, end): every `stride`th; `ahead` of them at once while they last.
void forVectors(const ThreadBuilder &t, Value first, Value end, Value stride, int64_t ahead,
                llvm::function_ref<void(const ThreadBuilder &, ArrayRef<Value>)> body) {
  Value step = t.mul(stride, ahead);
  Value some = t.sub(end, t.mul(stride, ahead - 1));
  Value at = first;
  if (ahead > 1) {
    at = t.loop(first, t.max(some, first), step, {first},
                [&](const ThreadBuilder &b, Value i, ValueRange) {
                  Values numbers;
                  for (int64_t k = 0; k < ahead; ++k) {
                    numbers.push_back(b.add(i, b.mul(stride, k)));
                  }
                  body(b, numbers);
                  return Values{b.add(i, step)};
                })
             .front();
  }
  t.loop(at, t.max(end, at), stride, {}, [&](const ThreadBuilder &b, Value i, ValueRange) {
    body(b, {i});
    return Values{};
  });
}

void emitOneShot(Exchange &exchange, const ThreadBuilder &t, int64_t threads) {
  Value first = t.add(t.mul(exchange.block, threads), t.toI64(t.thread()));
  Value stride = t.mul(exchange.grid, threads);
  forVectors(t, first, exchange.count, stride, 1, [&](const ThreadBuilder &b, ArrayRef<Value> at) {
    exchange.send(b, at[0], exchange.load(b, exchange.input(0), at[0]));
  });
  forVectors(t, first, exchange.count, stride, 1, [&](const ThreadBuilder &b, ArrayRef<Value> at) {
    Value own = exchange.load(b, exchange.input(0), at[0]);
    Values sums = exchange.receive(b, at, own).front();
    exchange.store(b, exchange.output(0), at[0], exchange.toVector(b, sums));
  });
}

/// The parts of a message and this block's share of each.
class Parts {
public:
  Parts(const Exchange &exchange, const ThreadBuilder &t, int64_t threads)
      : exchange(exchange), stride(t.i64(threads)),
        vectors(t.ceilDiv(exchange.count, exchange.ranks)) {
    Value share = t.div(t.add(vectors, t.sub(exchange.grid, t.i64(1))), exchange.grid);
    begin = t.mul(exchange.block, share);
    end = t.min(t.add(begin, share), vectors);
  }

  /// Numbers of the message's vectors in part `part` (i64), and of the part's.
  void forEach(const ThreadBuilder &t, Value part, int64_t ahead,
               llvm::function_ref<void(const ThreadBuilder &, ArrayRef<Value> ofMessage,
                                       ArrayRef<Value> ofPart)>
                   body) const {
    Value before = t.mul(part, vectors);
    Value last = t.min(end, t.sub(exchange.count, before));
    forVectors(t, t.add(begin, t.toI64(t.thread())), last, stride, ahead,
               [&](const ThreadBuilder &b, ArrayRef<Value> numbers) {
                 Values ofMessage;
                 for (Value number : numbers) {
                   ofMessage.push_back(b.add(number, before));
                 }
                 body(b, ofMessage, numbers);
               });
  }

private:
  const Exchange &exchange;
  Value stride, vectors, begin, end;
};

void copyVectors(const Exchange &exchange, const ThreadBuilder &t, Value from, Value to,
                 ArrayRef<Value> read, ArrayRef<Value> written) {
  Values vectors;
  for (Value number : read) {
    vectors.push_back(exchange.load(t, from, number));
  }
  for (auto [number, vector] : llvm::zip_equal(written, vectors)) {
    exchange.store(t, to, number, vector);
  }
}

/// This rank's part from all summands, here and on the others.
void sumPart(const Exchange &exchange, const Parts &parts, const ThreadBuilder &t) {
  Values places;
  for (int64_t from = 0; from < exchange.ranks; ++from) {
    places.push_back(exchange.part(t, exchange.own(), 0, t.i64(from)));
  }
  parts.forEach(t, exchange.rank, kSummandsAhead / exchange.ranks,
                [&](const ThreadBuilder &b, ArrayRef<Value> ofMessage, ArrayRef<Value> ofPart) {
                  Values sums;
                  for (auto [whole, own] : llvm::zip_equal(ofMessage, ofPart)) {
                    Values summands;
                    for (int64_t from = 0; from < exchange.ranks; ++from) {
                      Value isOwn = b.isEqual(exchange.rank, b.i64(from));
                      summands.push_back(
                          exchange.load(b, b.select(isOwn, exchange.input(0), places[from]),
                                        b.select(isOwn, whole, own)));
                    }
                    Values floats = exchange.toFloats(b, summands[0]);
                    for (Value summand : ArrayRef(summands).drop_front()) {
                      for (auto [sum, x] : llvm::zip_equal(floats, exchange.toFloats(b, summand))) {
                        sum = b.addF(sum, x);
                      }
                    }
                    sums.push_back(exchange.toVector(b, floats));
                  }
                  for (auto [i, sum] : llvm::enumerate(sums)) {
                    exchange.store(b, exchange.output(0), ofMessage[i], sum);
                  }
                  exchange.forOthers(b, [&](const ThreadBuilder &o, int64_t other) {
                    Value there = exchange.part(o, exchange.shared(other), 1, exchange.rank);
                    for (auto [i, sum] : llvm::enumerate(sums)) {
                      exchange.store(o, there, ofPart[i], sum);
                    }
                  });
                });
}

void emitTwoShot(Exchange &exchange, const ThreadBuilder &t, int64_t threads) {
  Parts parts(exchange, t, threads);
  exchange.forOthers(t, [&](const ThreadBuilder &o, int64_t other) {
    Value there = exchange.part(o, exchange.shared(other), 0, exchange.rank);
    parts.forEach(o, o.i64(other), kAhead,
                  [&](const ThreadBuilder &b, ArrayRef<Value> ofMessage, ArrayRef<Value> ofPart) {
                    copyVectors(exchange, b, exchange.input(0), there, ofMessage, ofPart);
                  });
  });
  exchange.signal(t, 0);
  exchange.await(t, 0);
  sumPart(exchange, parts, t);
  exchange.signal(t, 1);
  exchange.await(t, 1);
  exchange.forOthers(t, [&](const ThreadBuilder &o, int64_t other) {
    Value here = exchange.part(o, exchange.own(), 1, o.i64(other));
    parts.forEach(o, o.i64(other), kAhead,
                  [&](const ThreadBuilder &b, ArrayRef<Value> ofMessage, ArrayRef<Value> ofPart) {
                    copyVectors(exchange, b, here, exchange.output(0), ofPart, ofMessage);
                  });
  });
}

} // namespace

std::string nameOf(const AllReduceKernel &kernel) {
  return strCat("tenon_all_reduce_", kernel.isTwoShot ? "two_" : "one_", nameOf(kernel.type), "_",
                kernel.ranks);
}

void emitAllReduce(RegionBuilder &region, const AllReduceKernel &kernel) {
  KernelFrame frame(region, Exchange::buffers(kernel.ranks, 1, 1), 1, unsigned(kernel.threads));
  frame.setMinBlocksPerSm(1);
  Exchange exchange(frame, kernel.type, kernel.ranks, 1, 1);
  ThreadBuilder t = frame.code();
  exchange.begin(t);
  if (kernel.isTwoShot) {
    emitTwoShot(exchange, t, kernel.threads);
  } else {
    emitOneShot(exchange, t, kernel.threads);
  }
  exchange.end(t);
  frame.finish(getAffineConstantExpr(1, region.source.getContext()));
}

} // namespace tenon::codegen::cuda
