// Words of 8 bytes carry 4 bytes of data and the run's number: the memory model has accesses of 8
// bytes whole, so who sees the number sees the data. Relies on runs being numbered alike on all
// ranks.
#include "compiler/codegen/cuda/collective/Exchange.h"

#include "compiler/codegen/cuda/base/WarpOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;
using engine::kCollectiveVector;

constexpr int64_t kWords = kCollectiveVector / 4;
/// Of the numbers of runs: after it comes 1 again, so that odd follows even.
constexpr int64_t kLastRun = 0xfffffffe;

Type elementTypeOf(MLIRContext *context, DType type) {
  Builder builder(context);
  return type == DType::F32   ? Type(builder.getF32Type())
         : type == DType::F16 ? Type(builder.getF16Type())
                              : Type(builder.getBF16Type());
}

Value bytesFrom(const ThreadBuilder &t, Value pointer, Value bytes) {
  return t.offset(pointer, t.builder.getI8Type(), bytes);
}

void sendWords(const ThreadBuilder &t, Value to, Value vector, Value run) {
  SmallVector<Value> operands = {to};
  for (int64_t i = 0; i < kWords; ++i) {
    operands.push_back(t.extract(vector, i));
  }
  operands.push_back(run);
  t.assembly(Type(),
             "{\n.reg .b64 a, b, c, d;\nmov.b64 a, {$1, $5};\nmov.b64 b, {$2, $5};\n"
             "mov.b64 c, {$3, $5};\nmov.b64 d, {$4, $5};\n"
             "st.relaxed.sys.global.v2.b64 [$0], {a, b};\n"
             "st.relaxed.sys.global.v2.b64 [$0+512], {c, d};\n}",
             "l,r,r,r,r,r,~{memory}", operands);
}

/// Four words of data, and one that is 0 if all carry the run's number.
Values lookForWords(const ThreadBuilder &t, Value from, Value run) {
  Type type = LLVM::LLVMStructType::getLiteral(t.builder.getContext(),
                                               SmallVector<Type>(kWords + 1, t.i32Type()));
  Value all = t.assembly(
      type,
      "{\n.reg .b64 a, b, c, d;\n.reg .b32 e, f, g, h;\n"
      "ld.relaxed.sys.global.v2.b64 {a, b}, [$5];\nld.relaxed.sys.global.v2.b64 {c, d}, [$5+512];\n"
      "mov.b64 {$0, e}, a;\nmov.b64 {$1, f}, b;\nmov.b64 {$2, g}, c;\nmov.b64 {$3, h}, d;\n"
      "xor.b32 e, e, $6;\nxor.b32 f, f, $6;\nxor.b32 g, g, $6;\nxor.b32 h, h, $6;\n"
      "or.b32 e, e, f;\nor.b32 g, g, h;\nor.b32 $4, e, g;\n}",
      "=&r,=&r,=&r,=&r,=&r,l,r,~{memory}", {from, run});
  Values parts;
  for (int64_t i = 0; i <= kWords; ++i) {
    parts.push_back(t.member(all, i));
  }
  return parts;
}

} // namespace

SmallVector<uint32_t> Exchange::buffers(int64_t ranks, unsigned inputs, unsigned outputs) {
  uint32_t ofGroup = ranks == 1 ? 0 : uint32_t(ranks) + 1;
  return llvm::to_vector(llvm::seq<uint32_t>(0, inputs + outputs + ofGroup));
}

Exchange::Exchange(KernelFrame &kernel, DType type, int64_t group, unsigned read, unsigned written)
    : ranks(group), frame(kernel), element(elementTypeOf(kernel.builder.getContext(), type)),
      inputs(read), outputs(written) {
  ThreadBuilder t = frame.code();
  block = t.toI64(t.block());
  grid = t.toI64(NVVM::GridDimXOp::create(t.builder, t.location, t.i32Type()));
  if (ranks == 1) {
    return;
  }
  MLIRContext *context = frame.builder.getContext();
  auto size = [&](unsigned i) { return frame.size64(getAffineSymbolExpr(i, context)); };
  count = size(0);
  rank = size(1);
  Value limit = size(2);
  partBytes = size(3);
  polls = t.toI32(limit);
  ownShared = shared(0);
  for (int64_t i = 1; i < ranks; ++i) {
    ownShared = t.select(isOwn(t, i), shared(i), ownShared);
  }
}

void Exchange::begin(const ThreadBuilder &t) {
  Value last = t.load(t.i32Type(), t.offset(own(), t.i32Type(), block), 4);
  Value broken =
      t.load(t.i32Type(), t.offset(own(), t.i32Type(), t.i64(engine::kCollectiveBroken / 4)), 4);
  run = t.select(t.isEqual(last, t.i32(int32_t(kLastRun))), t.i32(1), t.add(last, 1));
  parity = t.toI64(t.bitAnd(run, t.i32(1)));
  // What has failed once does not wait again.
  polls = t.select(t.isEqual(broken, t.i32(0)), polls, t.i32(0));
}

void Exchange::end(const ThreadBuilder &t) {
  t.barrier();
  Value thread = t.toI64(t.thread());
  t.when(t.isEqual(thread, t.i64(0)),
         [&](const ThreadBuilder &b) { b.store(run, b.offset(own(), b.i32Type(), block), 4); });
  // Blocks that this kernel has not.
  Value isFirst = t.isEqual(block, t.i64(0));
  Value isLeft = both(t, t.isLess(thread, t.i64(engine::kCollectiveBlocks)),
                      t.isLess(t.sub(grid, t.i64(1)), thread));
  t.when(both(t, isFirst, isLeft),
         [&](const ThreadBuilder &b) { b.store(run, b.offset(own(), b.i32Type(), thread), 4); });
}

Type Exchange::vectorType(const ThreadBuilder &t) const {
  return t.vectorType(kWords, t.i32Type());
}

Value Exchange::load(const ThreadBuilder &t, Value pointer, Value number) const {
  return t.load(vectorType(t), bytesFrom(t, pointer, t.mul(number, kCollectiveVector)),
                kCollectiveVector);
}

void Exchange::store(const ThreadBuilder &t, Value pointer, Value number, Value vector) const {
  t.store(vector, bytesFrom(t, pointer, t.mul(number, kCollectiveVector)), kCollectiveVector);
}

Value Exchange::isOwn(const ThreadBuilder &t, int64_t other) const {
  return t.isEqual(rank, t.i64(other));
}

void Exchange::forOthers(
    const ThreadBuilder &t,
    llvm::function_ref<void(const ThreadBuilder &, int64_t other)> body) const {
  for (int64_t other = 0; other < ranks; ++other) {
    t.when(isNot(t, rank, t.i64(other)), [&](const ThreadBuilder &b) { body(b, other); });
  }
}

Value Exchange::words(const ThreadBuilder &t, Value memory, Value from, Value number) const {
  // The halves of a warp's vectors lie side by side: an access of its lanes has no gaps.
  Value group = t.mul(t.div(number, kWarp), 2 * kWarp * kCollectiveVector);
  Value lane = t.mul(t.rem(number, kWarp), kCollectiveVector);
  Value place = t.add(t.mul(t.add(t.mul(parity, ranks), from), 2 * engine::kOneShotBytes),
                      t.add(group, lane));
  return bytesFrom(t, memory, t.add(place, engine::kCollectiveWords));
}

void Exchange::send(const ThreadBuilder &t, Value number, Value vector) const {
  forOthers(t, [&](const ThreadBuilder &b, int64_t other) {
    sendWords(b, words(b, shared(other), rank, number), vector, run);
  });
}

Values Exchange::take(const ThreadBuilder &t, ArrayRef<Value> numbers, int64_t from) const {
  // All are looked for before one is waited for: the first looks take their time together.
  SmallVector<std::pair<Value, Values>> looks;
  for (Value number : numbers) {
    Value place = words(t, own(), t.i64(from), number);
    looks.push_back({place, lookForWords(t, place, run)});
  }
  Values vectors;
  for (auto &[place, inits] : looks) {
    inits.push_back(t.i32(0));
    Values found = loopWhile(
        t, inits,
        [&](const ThreadBuilder &w, ValueRange now) {
          return both(w, isNot(w, now[kWords], w.i32(0)), w.isLess(now[kWords + 1], polls));
        },
        [&, from = place](const ThreadBuilder &w, ValueRange now) {
          Values next = lookForWords(w, from, run);
          next.push_back(w.add(now[kWords + 1], 1));
          return next;
        });
    t.when(isNot(t, found[kWords], t.i32(0)), [&](const ThreadBuilder &f) { fail(f, from); });
    vectors.push_back(t.pack(ArrayRef(found).take_front(kWords)));
  }
  return vectors;
}

SmallVector<Values> Exchange::receive(const ThreadBuilder &t, ArrayRef<Value> numbers,
                                      ArrayRef<Value> own) const {
  SmallVector<Values> sums(numbers.size());
  for (int64_t from = 0; from < ranks; ++from) {
    Values summands = t.choose(
        isOwn(t, from), [&](const ThreadBuilder &) { return Values(own); },
        [&](const ThreadBuilder &b) { return take(b, numbers, from); });
    for (auto [sum, summand] : llvm::zip_equal(sums, summands)) {
      Values floats = toFloats(t, summand);
      if (from == 0) {
        sum = std::move(floats);
        continue;
      }
      for (auto [total, value] : llvm::zip_equal(sum, floats)) {
        total = t.addF(total, value);
      }
    }
  }
  for (Values &sum : sums) {
    for (Value &total : sum) {
      total = rounded(t, total);
    }
  }
  return sums;
}

Value Exchange::flag(const ThreadBuilder &t, Value memory, int64_t step, Value from) const {
  Value place = t.add(t.mul(parity, 2), step);
  place = t.add(t.mul(place, engine::kCollectiveBlocks), block);
  place = t.add(t.mul(place, engine::kCollectiveRanks), from);
  return bytesFrom(t, memory, t.add(t.mul(place, 4), engine::kCollectiveFlags));
}

void Exchange::signal(const ThreadBuilder &t, int64_t step) const {
  t.barrier();
  for (int64_t other = 0; other < ranks; ++other) {
    Value isOne = both(t, t.isEqual(t.thread(), t.i32(other)), isNot(t, rank, t.i64(other)));
    t.when(isOne, [&](const ThreadBuilder &b) {
      b.assembly(Type(), "st.release.sys.global.b32 [$0], $1;", "l,r,~{memory}",
                 {flag(b, shared(other), step, rank), run});
    });
  }
}

void Exchange::await(const ThreadBuilder &t, int64_t step) const {
  for (int64_t from = 0; from < ranks; ++from) {
    Value isOne = both(t, t.isEqual(t.thread(), t.i32(from)), isNot(t, rank, t.i64(from)));
    t.when(isOne, [&](const ThreadBuilder &b) {
      Value place = flag(b, own(), step, b.i64(from));
      auto look = [&](const ThreadBuilder &l) {
        return l.assembly(l.i32Type(), "ld.acquire.sys.global.b32 $0, [$1];", "=r,l,~{memory}",
                          {place});
      };
      Values found = loopWhile(
          b, {look(b), b.i32(0)},
          [&](const ThreadBuilder &w, ValueRange now) {
            return both(w, isNot(w, now[0], run), w.isLess(now[1], polls));
          },
          [&](const ThreadBuilder &w, ValueRange now) {
            return Values{look(w), w.add(now[1], 1)};
          });
      b.when(isNot(b, found[0], run), [&](const ThreadBuilder &f) { fail(f, from); });
    });
  }
  t.barrier();
}

Value Exchange::part(const ThreadBuilder &t, Value memory, int64_t step, Value from) const {
  Value place = t.add(t.mul(t.add(t.mul(parity, 2), step), ranks), from);
  return bytesFrom(t, memory, t.add(t.mul(place, partBytes), engine::collectiveParts(ranks)));
}

/// The status is in memory of the host.
void Exchange::fail(const ThreadBuilder &t, int64_t from) const {
  Value status = frame.buffer(inputs + outputs + unsigned(ranks));
  t.store(t.i32(1 + from), status, 4);
  t.store(t.i32(1), t.offset(own(), t.i32Type(), t.i64(engine::kCollectiveBroken / 4)), 4);
}

int64_t Exchange::lanes() const { return kCollectiveVector * 8 / element.getIntOrFloatBitWidth(); }

Values Exchange::toFloats(const ThreadBuilder &t, Value vector) const {
  Value elements = t.bitcast(t.vectorType(lanes(), element), vector);
  Values floats;
  for (int64_t i = 0; i < lanes(); ++i) {
    floats.push_back(t.toF32(t.extract(elements, i)));
  }
  return floats;
}

Value Exchange::toVector(const ThreadBuilder &t, ArrayRef<Value> floats) const {
  Values packed;
  for (int64_t i = 0; i < kWords; ++i) {
    packed.push_back(lanes() == kWords ? t.bitcast(t.i32Type(), floats[i])
                                       : t.packPair(element, floats[2 * i], floats[2 * i + 1]));
  }
  return t.pack(packed);
}

Value Exchange::rounded(const ThreadBuilder &t, Value f32) const {
  return t.toF32(t.fromF32(element, f32));
}

} // namespace tenon::codegen::cuda
