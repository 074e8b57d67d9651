// Draws of tokens, a block a row. Where top-k and top-p end is found bit by bit of what tokens are
// ordered by, by a reduction of the block for each bit: over the few that may be within, which lie
// in shared memory, or where a distribution is too flat for that, over the row.
//
// One file: the steps of one kernel, in their order.
#include "compiler/codegen/common/math/Draws.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/selection/Selection.h"
#include "compiler/dispatch/Strategy.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;
using tuning::kSampleThreads;

constexpr int64_t kSampleWarps = kSampleThreads / kWarp;
/// Values that one reduction takes at most.
constexpr int64_t kReduced = 3;
/// Of a token's number, behind its key, in what tokens are ordered by.
constexpr int64_t kTokenBits = 20;
/// Bits of a key that is only a bound.
constexpr int64_t kBoundBits = 16;
/// Behind every token.
constexpr int64_t kNoOrder = int64_t{1} << (kKeyBits + kTokenBits);

Value compare(const ThreadBuilder &t, arith::CmpFPredicate predicate, Value a, Value b) {
  return arith::CmpFOp::create(t.builder, t.location, predicate, a, b);
}
Value f64(const ThreadBuilder &t, double value) {
  return arith::ConstantOp::create(t.builder, t.location, t.builder.getF64FloatAttr(value));
}
Value toF64(const ThreadBuilder &t, Value value) {
  return arith::ExtFOp::create(t.builder, t.location, t.builder.getF64Type(), value);
}

class SampleKernel {
public:
  SampleKernel(RegionBuilder &region, tn::SampleOp op, const Ports &ports)
      : dims(tn::getDims(op.getLogits().getType())), vocabulary(*tn::constantDim(dims[1])),
        capacity(std::min(vocabulary, (region.gpu.sharedBytes - kListOffset) / kListBytes)),
        frame(region, ports.buffers, ports.reads, kSampleThreads) {
    capacity = std::min(capacity, tuning::kSampleList);
  }

  void emit();

private:
  /// Places in the list of buffers.
  enum Buffer : uint32_t { kLogits, kNumbers, kIntegers, kIds, kLogprobs };
  /// Of shared memory: what reductions exchange, how many are listed, their orders and shares.
  static constexpr int64_t kCountOffset = kReduced * kSampleWarps * 8,
                           kListOffset = kCountOffset + 16, kListBytes = 16;

  /// The tokens of the list, or all of the row.
  enum class Source { List, Row };
  /// A token that may be drawn: its order (i64), its share (i64), and its scaled logit (f32).
  struct Item {
    Value order, share, scaled;
  };
  /// What the row asks for.
  struct Cuts {
    Value topK, topP;         ///< i64, f64
    Value asksTopK, asksTopP; ///< i1
  };
  using ItemBody = llvm::function_ref<Values(const ThreadBuilder &, const Item &, ValueRange)>;
  using Combine = llvm::function_ref<Values(const ThreadBuilder &, ValueRange, ValueRange)>;

  void findPlaces(const ThreadBuilder &t);
  Value real(const ThreadBuilder &t, int64_t which) const;
  Value whole(const ThreadBuilder &t, int64_t which) const;
  Value logitAt(const ThreadBuilder &t, Value token) const {
    return t.load(t.f32Type(), t.offset(row, t.f32Type(), token), 4);
  }
  /// Over the thread's own logits of the row.
  Values
  overRow(const ThreadBuilder &t, ValueRange inits,
          llvm::function_ref<Values(const ThreadBuilder &, Value token, Value logit, ValueRange)>
              body) const;
  /// Over the thread's own tokens that min-p leaves; from the row without their shares unless asked
  /// for.
  Values overItems(const ThreadBuilder &t, Source source, bool needsShares, ValueRange inits,
                   ItemBody body) const;
  void exchange(const ThreadBuilder &t, Values &values) const;
  /// The same values on all threads.
  Values reduce(const ThreadBuilder &t, ValueRange own, Combine combine) const;
  /// Of i32 or i64 that are not negative.
  Value total(const ThreadBuilder &t, Value own) const;

  Value look(const ThreadBuilder &t);
  Value orderOf(const ThreadBuilder &t, Value key, Value token) const;
  Value bound(const ThreadBuilder &t, const Cuts &cuts) const;
  void list(const ThreadBuilder &t, Value lastListed) const;
  /// How many tokens (i32), or shares (i64), are below an order.
  Value below(const ThreadBuilder &t, Source source, bool byShares, Value order) const;
  /// The largest order below which there are less than `wanted` tokens or shares (i64).
  Value find(const ThreadBuilder &t, Source source, bool byShares, Value wanted) const;
  /// The last order that top-k and top-p leave.
  Value cut(const ThreadBuilder &t, Source source, const Cuts &cuts, Value rowShares) const;
  Value drawn(const ThreadBuilder &t, Source source, Value lastOrder) const;
  Value drawnBehindCuts(const ThreadBuilder &t, const Cuts &cuts) const;
  Value logprob(const ThreadBuilder &t, Value token) const;

  tn::Dims dims;
  int64_t vocabulary, capacity;
  KernelFrame frame;
  Value thread;      ///< i32
  Value number, row; ///< of the row, and where its logits begin
  Value shared, counter, orders, shares;
  Value largest, ownLargest, isFinite;
  LogitScale scale;
  Value last; ///< the last key that min-p leaves
};

void SampleKernel::findPlaces(const ThreadBuilder &t) {
  thread = t.thread();
  number = t.toI64(t.block());
  row = t.offset(frame.buffer(kLogits), t.f32Type(), t.mul(number, vocabulary));
  shared = frame.dynamicShared();
  Type byte = t.builder.getI8Type();
  counter = t.offset(shared, byte, kCountOffset);
  orders = t.offset(shared, byte, kListOffset);
  shares = t.offset(orders, t.i64Type(), capacity);
}

Value SampleKernel::real(const ThreadBuilder &t, int64_t which) const {
  Type type = t.builder.getF64Type();
  return t.load(type, t.offset(frame.buffer(kNumbers), type, t.add(t.mul(number, 3), which)), 8);
}
Value SampleKernel::whole(const ThreadBuilder &t, int64_t which) const {
  Value place = t.add(t.mul(number, 3), which);
  return t.load(t.i64Type(), t.offset(frame.buffer(kIntegers), t.i64Type(), place), 8);
}

Values SampleKernel::overRow(
    const ThreadBuilder &t, ValueRange inits,
    llvm::function_ref<Values(const ThreadBuilder &, Value, Value, ValueRange)> body) const {
  // Several loads are under way at once.
  constexpr int64_t kUnrolled = 4, kStep = kUnrolled * kSampleThreads;
  int64_t whole = vocabulary / kStep * kStep;
  Values carried = t.loop(thread, t.i32(whole), t.i32(kStep), inits,
                          [&](const ThreadBuilder &b, Value first, ValueRange now) {
                            Values tokens, logits, next(now);
                            for (int64_t i = 0; i < kUnrolled; ++i) {
                              tokens.push_back(b.add(first, i * kSampleThreads));
                              logits.push_back(logitAt(b, tokens.back()));
                            }
                            for (int64_t i = 0; i < kUnrolled; ++i) {
                              next = body(b, tokens[i], logits[i], next);
                            }
                            return next;
                          });
  return t.loop(t.add(thread, whole), t.i32(vocabulary), t.i32(kSampleThreads), carried,
                [&](const ThreadBuilder &b, Value token, ValueRange now) {
                  return body(b, token, logitAt(b, token), now);
                });
}

Values SampleKernel::overItems(const ThreadBuilder &t, Source source, bool needsShares,
                               ValueRange inits, ItemBody body) const {
  if (source == Source::List) {
    Value end = t.load(t.i32Type(), counter, 4);
    return t.loop(thread, end, t.i32(kSampleThreads), inits,
                  [&](const ThreadBuilder &b, Value i, ValueRange now) {
                    Value order = b.load(b.i64Type(), b.offset(orders, b.i64Type(), i), 8);
                    Value share = b.load(b.i64Type(), b.offset(shares, b.i64Type(), i), 8);
                    Value key = b.toI32(shiftRight(b, order, b.i64(kTokenBits)));
                    return body(b, {order, share, logitOfKey(b.builder, b.location, key)}, now);
                  });
  }
  return overRow(t, inits, [&](const ThreadBuilder &b, Value token, Value logit, ValueRange now) {
    Value scaled = scale.scaled(b.builder, b.location, logit);
    Value key = logitKey(b.builder, b.location, scaled), share;
    if (needsShares) {
      share = shareOf(b.builder, b.location, exponential(b.builder, b.location, scaled));
    }
    Values next = body(b, {orderOf(b, key, token), share, scaled}, now);
    Value isIn = b.isLess(key, b.add(last, 1));
    for (auto [value, before] : llvm::zip_equal(next, now)) {
      value = b.select(isIn, value, before);
    }
    return next;
  });
}

/// Of each warp's values, each lane gets those of the warp of its number.
void SampleKernel::exchange(const ThreadBuilder &t, Values &values) const {
  auto address = [&](const ThreadBuilder &b, int64_t array, Value warp) {
    return b.offset(b.offset(shared, b.i64Type(), array * kSampleWarps), b.i64Type(), warp);
  };
  t.when(t.isEqual(t.lane(), t.i32(0)), [&](const ThreadBuilder &b) {
    for (auto [array, value] : llvm::enumerate(values)) {
      b.store(value, address(b, array, b.div(b.thread(), kWarp)), 8);
    }
  });
  t.barrier();
  for (auto [array, value] : llvm::enumerate(values)) {
    value = t.load(value.getType(), address(t, array, t.lane()), 8);
  }
  // Before the next reduction writes them.
  t.barrier();
}

Values SampleKernel::reduce(const ThreadBuilder &t, ValueRange own, Combine combine) const {
  Values values(own);
  auto reduceWarp = [&](int64_t lanes) {
    for (int64_t mask = lanes / 2; mask > 0; mask /= 2) {
      Values others;
      for (Value value : values) {
        others.push_back(shuffleXor(t, value, mask));
      }
      values = combine(t, values, others);
    }
  };
  reduceWarp(kWarp);
  exchange(t, values);
  reduceWarp(kSampleWarps);
  return values;
}

/// By the warp's own sums of 32 bits: counts are small enough, shares go as two parts whose sums
/// over all threads are.
Value SampleKernel::total(const ThreadBuilder &t, Value own) const {
  constexpr int64_t kLowBits = 21;
  bool isWide = own.getType() == t.i64Type();
  Values parts = {own};
  if (isWide) {
    Value low = t.bitAnd(own, t.i64((int64_t{1} << kLowBits) - 1));
    parts = {t.toI32(low), t.toI32(shiftRight(t, own, t.i64(kLowBits)))};
  }
  for (Value &part : parts) {
    part = sumOfWarp(t, part);
  }
  exchange(t, parts);
  for (Value &part : parts) {
    part = sumOfWarp(t, part);
  }
  if (!isWide) {
    return parts[0];
  }
  // Of kMostShares equal tokens the upper part has all of its bits.
  for (Value &part : parts) {
    part = arith::ExtUIOp::create(t.builder, t.location, t.i64Type(), part);
  }
  return t.add(shiftLeft(t, parts[1], t.i64(kLowBits)), parts[0]);
}

/// The first of the largest logits (i32).
Value SampleKernel::look(const ThreadBuilder &t) {
  Value zero = t.f32(0), least = t.f32(-std::numeric_limits<double>::infinity());
  Values own = overRow(t, {least, t.i32(vocabulary), zero},
                       [&](const ThreadBuilder &b, Value token, Value logit, ValueRange now) {
                         Value isMore = compare(b, arith::CmpFPredicate::OGT, logit, now[0]);
                         // The difference of an infinity to itself is not a number.
                         Value strange = b.addF(now[2], b.subF(logit, logit));
                         return Values{b.select(isMore, logit, now[0]),
                                       b.select(isMore, token, now[1]), strange};
                       });
  ownLargest = own[0];
  Values all = reduce(t, own, [](const ThreadBuilder &b, ValueRange x, ValueRange y) -> Values {
    Value isMore = compare(b, arith::CmpFPredicate::OGT, y[0], x[0]);
    Value isEqual = compare(b, arith::CmpFPredicate::OEQ, y[0], x[0]);
    Value isTaken = either(b, isMore, both(b, isEqual, b.isLess(y[1], x[1])));
    return {b.select(isTaken, y[0], x[0]), b.select(isTaken, y[1], x[1]), b.addF(x[2], y[2])};
  });
  largest = all[0];
  isFinite = compare(t, arith::CmpFPredicate::OEQ, all[2], zero);
  return all[1];
}

Value SampleKernel::orderOf(const ThreadBuilder &t, Value key, Value token) const {
  return bitOr(t, shiftLeft(t, t.toI64(key), t.i64(kTokenBits)), t.toI64(token));
}

/// A key up to which there are at least as many tokens as top-k asks for, or as a list has room
/// for: as many threads have one of their own up to it.
Value SampleKernel::bound(const ThreadBuilder &t, const Cuts &cuts) const {
  Value own = logitKey(t.builder, t.location, scale.scaled(t.builder, t.location, ownLargest));
  Value isNone = t.isEqual(t.bitcast(t.i32Type(), ownLargest),
                           t.bitcast(t.i32Type(), t.f32(-std::numeric_limits<double>::infinity())));
  own = t.select(isNone, t.i32(kNoKey), own);
  Value most = t.i64(tuning::kSampleBoundThreads);
  Value wanted = t.toI32(t.select(cuts.asksTopK, t.min(cuts.topK, most), most));
  Value key = t.loop(t.i32(0), t.i32(kBoundBits), t.i32(1), t.i32(0),
                     [&](const ThreadBuilder &b, Value i, ValueRange now) -> Values {
                       Value bit = shiftLeft(b, b.i32(1), b.sub(b.i32(kKeyBits - 1), i));
                       Value tried = bitOr(b, now[0], bit);
                       Value isBelow = b.isLess(own, tried);
                       Value below = total(b, b.select(isBelow, b.i32(1), b.i32(0)));
                       return {b.select(b.isLess(below, wanted), tried, now[0])};
                     })[0];
  return bitOr(t, key, t.i32((int64_t{1} << (kKeyBits - kBoundBits)) - 1));
}

/// Those up to a key; how many there are is counted also where they do not fit.
void SampleKernel::list(const ThreadBuilder &t, Value lastListed) const {
  t.when(t.isEqual(thread, t.i32(0)),
         [&](const ThreadBuilder &b) { b.store(b.i32(0), counter, 4); });
  t.barrier();
  overRow(t, {}, [&](const ThreadBuilder &b, Value token, Value logit, ValueRange) -> Values {
    Value scaled = scale.scaled(b.builder, b.location, logit);
    Value key = logitKey(b.builder, b.location, scaled);
    b.when(b.isLess(key, b.add(lastListed, 1)), [&](const ThreadBuilder &c) {
      Value place = LLVM::AtomicRMWOp::create(c.builder, c.location, LLVM::AtomicBinOp::add,
                                              counter, c.i32(1), LLVM::AtomicOrdering::monotonic);
      c.when(c.isLess(place, c.i32(capacity)), [&](const ThreadBuilder &d) {
        Value share = shareOf(d.builder, d.location, exponential(d.builder, d.location, scaled));
        d.store(orderOf(d, key, token), d.offset(orders, d.i64Type(), place), 8);
        d.store(share, d.offset(shares, d.i64Type(), place), 8);
      });
    });
    return {};
  });
  t.barrier();
}

Value SampleKernel::below(const ThreadBuilder &t, Source source, bool byShares, Value order) const {
  Value none = byShares ? t.i64(0) : t.i32(0);
  return total(t,
               overItems(t, source, byShares, none,
                         [&](const ThreadBuilder &b, const Item &item, ValueRange sum) -> Values {
                           Value isBelow = b.isLess(item.order, order);
                           Value one = byShares ? item.share : b.i32(1);
                           Value own = b.select(isBelow, one, b.constantOfType(one, 0));
                           return {b.add(sum[0], own)};
                         })[0]);
}

Value SampleKernel::find(const ThreadBuilder &t, Source source, bool byShares, Value wanted) const {
  auto search = [&](const ThreadBuilder &at, int64_t bits, int64_t lowest, Value from) {
    return at.loop(at.i32(0), at.i32(bits), at.i32(1), from,
                   [&](const ThreadBuilder &b, Value i, ValueRange now) -> Values {
                     Value shift = b.toI64(b.sub(b.i32(lowest + bits - 1), i));
                     Value tried = bitOr(b, now[0], shiftLeft(b, b.i64(1), shift));
                     Value isLess = b.isLess(b.toI64(below(b, source, byShares, tried)), wanted);
                     return {b.select(isLess, tried, now[0])};
                   });
  };
  constexpr int64_t kTokens = int64_t{1} << kTokenBits;
  Value key = search(t, kKeyBits, kTokenBits, t.i64(0))[0];
  Value equals = t.sub(below(t, source, false, t.add(key, kTokens)), below(t, source, false, key));
  // Of several with the last key, the tokens decide.
  return t.choose(
      t.isLess(t.i32(1), equals),
      [&](const ThreadBuilder &b) { return search(b, kTokenBits, 0, key); },
      [&](const ThreadBuilder &b) { return Values{b.add(key, kTokens - 1)}; })[0];
}

/// `rowShares` are all that min-p leaves, where top-p is asked for alone.
Value SampleKernel::cut(const ThreadBuilder &t, Source source, const Cuts &cuts,
                        Value rowShares) const {
  Value byCount = t.choose(
      cuts.asksTopK,
      [&](const ThreadBuilder &b) { return Values{find(b, source, false, cuts.topK)}; },
      [&](const ThreadBuilder &b) { return Values{b.i64(kNoOrder)}; })[0];
  return t.choose(
      cuts.asksTopP,
      [&](const ThreadBuilder &b) {
        Value all = b.choose(
            cuts.asksTopK,
            [&](const ThreadBuilder &c) {
              return Values{below(c, source, true, c.add(byCount, 1))};
            },
            [&](const ThreadBuilder &) { return Values{rowShares}; })[0];
        Value wanted = wantedShares(b.builder, b.location, cuts.topP, all);
        return Values{find(b, source, true, wanted)};
      },
      [&](const ThreadBuilder &) { return Values{byCount}; })[0];
}

/// The largest with its noise, the lowest of equal ones (i32).
Value SampleKernel::drawn(const ThreadBuilder &t, Source source, Value lastOrder) const {
  Value seed = whole(t, 1), position = whole(t, 2);
  Value least = f64(t, -std::numeric_limits<double>::infinity());
  Value infinite = f64(t, std::numeric_limits<double>::infinity());
  Values own = overItems(
      t, source, false, {least, t.i32(vocabulary), infinite},
      [&](const ThreadBuilder &b, const Item &item, ValueRange now) -> Values {
        OpBuilder &builder = b.builder;
        Value token = b.toI32(b.bitAnd(item.order, b.i64((int64_t{1} << kTokenBits) - 1)));
        Value number = uniform(builder, b.location, seed, position, token);
        Value probability = toF64(b, exponential(builder, b.location, item.scaled));
        // -log(u) is at least 1 - u: most are seen to be too small without a logarithm.
        Value room = arith::MulFOp::create(builder, b.location, probability, now[2]);
        Value rest = arith::SubFOp::create(builder, b.location, f64(b, 1), number);
        Value isSmall = compare(b, arith::CmpFPredicate::OGT, rest, room);
        Value isKept = b.isLess(item.order, b.add(lastOrder, 1));
        Value no = b.constantOfType(isKept, 0);
        return b.choose(
            b.select(isSmall, no, isKept),
            [&](const ThreadBuilder &c) -> Values {
              Value noise = gumbel(c.builder, c.location, number);
              Value value =
                  arith::AddFOp::create(c.builder, c.location, toF64(c, item.scaled), noise);
              Value isMore = compare(c, arith::CmpFPredicate::OGT, value, now[0]);
              Value isEqual = compare(c, arith::CmpFPredicate::OEQ, value, now[0]);
              Value isBest = either(c, isMore, both(c, isEqual, c.isLess(token, now[1])));
              constexpr double kRounding = 1 + 1e-6; // of probabilities
              Value small = arith::NegFOp::create(c.builder, c.location,
                                                  logarithm(c.builder, c.location, number));
              Value held = arith::DivFOp::create(c.builder, c.location, small, probability);
              held = arith::MulFOp::create(c.builder, c.location, held, f64(c, kRounding));
              return {c.select(isBest, value, now[0]), c.select(isBest, token, now[1]),
                      c.select(isBest, held, now[2])};
            },
            [&](const ThreadBuilder &) { return Values(now); });
      });
  return reduce(t, {own[0], own[1]},
                [](const ThreadBuilder &b, ValueRange x, ValueRange y) -> Values {
                  Value isMore = compare(b, arith::CmpFPredicate::OGT, y[0], x[0]);
                  Value isEqual = compare(b, arith::CmpFPredicate::OEQ, y[0], x[0]);
                  Value isTaken = either(b, isMore, both(b, isEqual, b.isLess(y[1], x[1])));
                  return {b.select(isTaken, y[0], x[0]), b.select(isTaken, y[1], x[1])};
                })[1];
}

/// From the list, where nothing that may be within is left out of it.
Value SampleKernel::drawnBehindCuts(const ThreadBuilder &t, const Cuts &cuts) const {
  Value isAlone = t.select(cuts.asksTopK, t.constantOfType(cuts.asksTopK, 0), cuts.asksTopP);
  Value none = t.i64(kNoOrder), lastListed = t.min(bound(t, cuts), last);
  list(t, lastListed);
  Value count = t.load(t.i32Type(), counter, 4);
  Value fits = t.isLess(count, t.i32(capacity + 1));
  Values shares = t.choose(
      isAlone,
      [&](const ThreadBuilder &b) {
        Value all = below(b, Source::Row, true, none);
        // Of what does not fit, nothing is listed that could be summed.
        Value listed = b.choose(
            fits,
            [&](const ThreadBuilder &c) { return Values{below(c, Source::List, true, none)}; },
            [&](const ThreadBuilder &c) { return Values{c.i64(0)}; })[0];
        return Values{all, listed};
      },
      [&](const ThreadBuilder &b) { return Values{b.i64(0), b.i64(0)}; });
  Value wanted = wantedShares(t.builder, t.location, cuts.topP, shares[0]);
  Value hasShares =
      t.select(isAlone, isAtLeast(t, shares[1], wanted), t.constantOfType(isAlone, 1));
  Value hasCount = isAtLeast(t, t.toI64(count), t.max(cuts.topK, t.i64(0)));
  Value isWhole = t.isEqual(lastListed, last);
  fits = both(t, fits, either(t, isWhole, both(t, hasCount, hasShares)));
  auto from = [&](Source source) {
    return [&, source](const ThreadBuilder &b) {
      return Values{drawn(b, source, cut(b, source, cuts, shares[0]))};
    };
  };
  return t.choose(fits, from(Source::List), from(Source::Row))[0];
}

Value SampleKernel::logprob(const ThreadBuilder &t, Value token) const {
  Value own = overRow(
      t, f64(t, 0), [&](const ThreadBuilder &b, Value, Value logit, ValueRange now) -> Values {
        Value each = exponential(b.builder, b.location, b.subF(logit, largest));
        return {arith::AddFOp::create(b.builder, b.location, now[0], toF64(b, each))};
      })[0];
  Value sum = reduce(t, own, [](const ThreadBuilder &b, ValueRange x, ValueRange y) -> Values {
    return {arith::AddFOp::create(b.builder, b.location, x[0], y[0])};
  })[0];
  Value difference = toF64(t, t.subF(logitAt(t, token), largest));
  Value result = arith::SubFOp::create(t.builder, t.location, difference,
                                       logarithm(t.builder, t.location, sum));
  return t.toF32(result);
}

void SampleKernel::emit() {
  ThreadBuilder t = frame.code();
  findPlaces(t);
  Value first = look(t), temperature = real(t, 0);
  scale = LogitScale::make(t.builder, t.location, largest, temperature);
  last = lastKey(t.builder, t.location, real(t, 2));
  Cuts cuts;
  cuts.topK = whole(t, 0);
  cuts.topP = real(t, 1);
  cuts.asksTopK = t.isLess(t.i64(0), cuts.topK);
  cuts.asksTopP = compare(t, arith::CmpFPredicate::OLT, cuts.topP, f64(t, 1));
  Value isDrawn = compare(t, arith::CmpFPredicate::OGT, temperature, f64(t, 0));
  Values result = t.choose(
      isFinite,
      [&](const ThreadBuilder &b) {
        Value token = b.choose(
            isDrawn,
            [&](const ThreadBuilder &c) {
              return c.choose(
                  either(c, cuts.asksTopK, cuts.asksTopP),
                  [&](const ThreadBuilder &d) { return Values{drawnBehindCuts(d, cuts)}; },
                  [&](const ThreadBuilder &d) {
                    return Values{drawn(d, Source::Row, d.i64(kNoOrder))};
                  });
            },
            [&](const ThreadBuilder &) { return Values{first}; })[0];
        return Values{token, logprob(b, token)};
      },
      [&](const ThreadBuilder &b) {
        return Values{b.i32(-1), b.f32(std::numeric_limits<double>::quiet_NaN())};
      });
  t.when(t.isEqual(thread, t.i32(0)), [&](const ThreadBuilder &b) {
    b.store(b.toI64(result[0]), b.offset(frame.buffer(kIds), b.i64Type(), number), 8);
    b.store(result[1], b.offset(frame.buffer(kLogprobs), b.f32Type(), number), 4);
  });
  frame.finish(dims[0], kListOffset + capacity * kListBytes);
}

FamilyMatch matchSample(RegionBuilder &region) {
  Operation *op = region.source.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
  tn::SampleOp sample = dyn_cast_or_null<tn::SampleOp>(op);
  bool areInputs = sample && llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>);
  return areInputs ? FamilyMatch::take(sample, {kSample.name.str(), {}},
                                       "a block sees a row several times, and sorts nothing")
                   : FamilyMatch::refuse("it draws no tokens from rows that lie in memory");
}

LogicalResult emitSample(RegionBuilder &region, const tn::SampleOp &op,
                         const dispatch::KernelChoice &) {
  tn::SampleOp sample = op;
  SampleKernel(region, sample, portsOf(region, sample)).emit();
  return success();
}

} // namespace

constexpr KernelFamily kSample = {.name = "token_draws",
                                  .what = "draws of tokens, a block a row",
                                  .strategies = {dispatch::kSingle},
                                  .needs = {"sample"},
                                  .match = matchSample,
                                  .emit = on<emitSample>,
                                  .order = alongRows<RegionBuilder>};

} // namespace tenon::codegen::cuda
