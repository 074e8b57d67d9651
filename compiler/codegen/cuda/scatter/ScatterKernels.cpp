// The kernels of a scatter. Nothing depends on the order in which threads run: claims are settled
// by the largest number, and updates of one place are combined in their order by one thread.
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/cuda/base/StepRange.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/scan/Scan.h"
#include "compiler/codegen/cuda/scatter/Scatter.h"
#include "compiler/codegen/cuda/selection/RadixSort.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

class ScatterKernels {
public:
  ScatterKernels(RegionBuilder &region, const ScatterWork &work)
      : region(region), work(work), strips(work.slice.floorDiv(work.lanes())) {}

  void emitOnly();
  void emitClaims();
  void emitSorted();

private:
  void forEach(ArrayRef<uint32_t> buffers, uint32_t reads, AffineExpr count, ThreadBody body) {
    emitForEach(region, buffers, reads, count, body);
  }
  void emitSums(uint32_t keys, uint32_t numbers);
  /// A strip of a slice of some buffer.
  Value stripAt(const ThreadBuilder &t, KernelFrame &frame, unsigned buffer, Value slice,
                Value strip) const {
    Value first = t.mul(slice, frame.size64(work.slice));
    return t.offset(frame.buffer(buffer), work.element, t.add(first, t.mul(strip, work.lanes())));
  }
  Type stripType(const ThreadBuilder &t) const {
    return work.lanes() == 1 ? work.element : t.vectorType(work.lanes(), work.element);
  }
  unsigned alignment() const { return work.lanes() * byteSize(work.element); }
  Values loadStrip(const ThreadBuilder &t, Value at) const;
  Value combine(const ThreadBuilder &t, Value old, Value update) const;

  RegionBuilder &region;
  const ScatterWork &work;
  AffineExpr strips; ///< of a slice
};

/// An only update has no other to meet.
void ScatterKernels::emitOnly() {
  forEach({work.indices, work.from, work.output}, 2, strips,
          [&](const ThreadBuilder &t, KernelFrame &frame, Value strip) {
            Value none = t.i64(0), place = placeOf(t, frame, work, 0, none);
            Value value = t.load(stripType(t), stripAt(t, frame, 1, none, strip), alignment());
            t.store(value, stripAt(t, frame, 2, place, strip), alignment());
          });
}

void ScatterKernels::emitClaims() {
  uint32_t owners = region.addTemporary(work.places * 4);
  auto ownerOf = [&](const ThreadBuilder &t, KernelFrame &frame, unsigned buffer, Value place) {
    return t.offset(frame.buffer(buffer), t.i32Type(), place);
  };
  forEach({work.indices, owners}, 1, work.count,
          [&](const ThreadBuilder &t, KernelFrame &frame, Value update) {
            Value place = placeOf(t, frame, work, 0, update);
            t.store(t.i32(-1), ownerOf(t, frame, 1, place), 4);
          });
  forEach({work.indices, owners}, 1, work.count,
          [&](const ThreadBuilder &t, KernelFrame &frame, Value update) {
            Value place = placeOf(t, frame, work, 0, update);
            LLVM::AtomicRMWOp::create(t.builder, t.location, LLVM::AtomicBinOp::max,
                                      ownerOf(t, frame, 1, place), t.toI32(update),
                                      LLVM::AtomicOrdering::monotonic);
          });
  forEach({work.indices, owners, work.from, work.output}, 3, work.count * strips,
          [&](const ThreadBuilder &t, KernelFrame &frame, Value number) {
            Value stripCount = frame.size64(strips);
            Value update = t.div(number, stripCount), strip = t.rem(number, stripCount);
            Value place = placeOf(t, frame, work, 0, update);
            Value owner = t.load(t.i32Type(), ownerOf(t, frame, 1, place), 4);
            t.when(t.isEqual(owner, t.toI32(update)), [&](const ThreadBuilder &b) {
              Value value = b.load(stripType(b), stripAt(b, frame, 2, update, strip), alignment());
              b.store(value, stripAt(b, frame, 3, place, strip), alignment());
            });
          });
}

/// As sums are taken.
Values ScatterKernels::loadStrip(const ThreadBuilder &t, Value at) const {
  Value loaded = t.load(stripType(t), at, alignment());
  Values values;
  for (int64_t lane = 0; lane < work.lanes(); ++lane) {
    Value value = work.lanes() == 1 ? loaded : t.extract(loaded, lane);
    values.push_back(widen(t.builder, t.location, value));
  }
  return values;
}

Value ScatterKernels::combine(const ThreadBuilder &t, Value old, Value update) const {
  switch (work.kind) {
  case tn::ScatterKind::add:
    return combineSum(t.builder, t.location, old, update);
  case tn::ScatterKind::mul:
    return combineProduct(t.builder, t.location, old, update);
  default:
    return combineExtreme(t.builder, t.location, work.tn, work.kind == tn::ScatterKind::max, old,
                          update);
  }
}

/// The thread of the first of equal places goes through all of them.
void ScatterKernels::emitSums(uint32_t keys, uint32_t numbers) {
  forEach({keys, numbers, work.from, work.output}, 3, work.count * strips,
          [&](const ThreadBuilder &t, KernelFrame &frame, Value number) {
            Value stripCount = frame.size64(strips), count = frame.size64(work.count);
            Value first = t.div(number, stripCount), strip = t.rem(number, stripCount);
            auto word = [&](const ThreadBuilder &b, unsigned buffer, Value at) {
              return b.load(b.i32Type(), b.offset(frame.buffer(buffer), b.i32Type(), at), 4);
            };
            Value place = word(t, 0, first);
            Value before = word(t, 0, t.max(t.add(first, -1), t.i64(0)));
            Value begins = either(t, t.isEqual(first, t.i64(0)), isNot(t, before, place));
            t.when(begins, [&](const ThreadBuilder &b) {
              Value to = stripAt(b, frame, 3, b.toI64(place), strip);
              Values inits = loadStrip(b, to);
              inits.push_back(first);
              Values sums = loopWhile(
                  b, inits,
                  [&](const ThreadBuilder &c, ValueRange now) {
                    Value at = now.back(), last = c.add(count, -1);
                    Value isSame = c.isEqual(word(c, 0, c.min(at, last)), place);
                    return both(c, c.isLess(at, count), isSame);
                  },
                  [&](const ThreadBuilder &c, ValueRange now) {
                    Value update = c.toI64(word(c, 1, now.back()));
                    Values next, values = loadStrip(c, stripAt(c, frame, 2, update, strip));
                    for (auto [old, value] : llvm::zip(now.drop_back(), values)) {
                      next.push_back(combine(c, old, value));
                    }
                    next.push_back(c.add(now.back(), 1));
                    return next;
                  });
              sums.pop_back();
              for (Value &sum : sums) {
                sum = narrow(b.builder, b.location, sum, work.element);
              }
              b.store(work.lanes() == 1 ? sums[0] : b.pack(sums), to, alignment());
            });
          });
}

void ScatterKernels::emitSorted() {
  MLIRContext *context = region.source.getContext();
  uint32_t keys = region.addTemporary(work.count * 4);
  uint32_t numbers = region.addTemporary(work.count * 4);
  tn::SymbolList declared(region.source->getParentOfType<ModuleOp>());
  int64_t places = std::clamp<int64_t>(declared.bounds(work.places).max, 2, INT32_MAX);
  SortJob job;
  job.rows = getAffineConstantExpr(1, context);
  job.length = work.count;
  job.key = IntegerType::get(context, 32);
  job.bits = llvm::Log2_64_Ceil(places);
  job.read = {work.indices};
  job.keyOf = [this](const ThreadBuilder &t, KernelFrame &frame, unsigned first, Value,
                     Value number) { return t.toI32(placeOf(t, frame, work, first, number)); };
  job.written = {keys, numbers};
  job.store = [](const ThreadBuilder &t, KernelFrame &frame, unsigned first, Value, Value place,
                 Value key, Value number) {
    t.store(key, t.offset(frame.buffer(first), t.i32Type(), place), 4);
    t.store(number, t.offset(frame.buffer(first + 1), t.i32Type(), place), 4);
  };
  emitRadixSort(region, job);
  emitSums(keys, numbers);
}

} // namespace

void emitForEach(RegionBuilder &region, ArrayRef<uint32_t> buffers, uint32_t reads,
                 AffineExpr count, ThreadBody body) {
  KernelFrame frame(region, buffers, reads, tuning::kScatterThreads);
  ThreadBuilder t = frame.code();
  Value number = t.add(t.mul(t.toI64(t.block()), tuning::kScatterThreads), t.toI64(t.thread()));
  Value end = frame.size64(count);
  t.when(t.isLess(number, end), [&](const ThreadBuilder &b) { body(b, frame, number); });
  frame.finish(count.ceilDiv(tuning::kScatterThreads));
}

/// By words of 16 bytes and then what is left.
void emitDataCopy(RegionBuilder &region, uint32_t input, uint32_t output, AffineExpr bytes) {
  constexpr int64_t wordBytes = 16, threads = tuning::kScatterThreads;
  constexpr int64_t perThread = tuning::kCopiedVectors;
  AffineExpr words = bytes.floorDiv(wordBytes);
  AffineExpr blocks = (words + 1).ceilDiv(perThread * threads);
  emitForEach(region, {input, output}, 1, blocks * threads,
              [&](const ThreadBuilder &t, KernelFrame &frame, Value number) {
                Type byte = t.builder.getI8Type(), word = t.vectorType(4, t.i32Type());
                Value from = frame.buffer(0), to = frame.buffer(1), end = frame.size64(words);
                // Neighbouring threads take neighbouring words.
                Value first =
                    t.add(t.mul(t.toI64(t.block()), threads * perThread), t.toI64(t.thread()));
                Values loaded;
                for (int64_t i = 0; i < perThread; ++i) {
                  Value at = t.add(first, i * threads);
                  auto load = [&](const ThreadBuilder &b) -> Values {
                    return {b.load(word, b.offset(from, word, at), wordBytes)};
                  };
                  auto none = [&](const ThreadBuilder &b) -> Values { return {b.undefined(word)}; };
                  loaded.push_back(t.choose(t.isLess(at, end), load, none)[0]);
                }
                for (int64_t i = 0; i < perThread; ++i) {
                  Value at = t.add(first, i * threads);
                  t.when(t.isLess(at, end), [&](const ThreadBuilder &b) {
                    b.store(loaded[i], b.offset(to, word, at), wordBytes);
                  });
                }
                Value rest = t.add(t.mul(end, wordBytes), number);
                t.when(t.isLess(rest, frame.size64(bytes)), [&](const ThreadBuilder &b) {
                  b.store(b.load(byte, b.offset(from, byte, rest), 1), b.offset(to, byte, rest), 1);
                });
              });
  region.code.steps.back().isCopy = true;
}

void emitScatter(RegionBuilder &region, const ScatterWork &work) {
  ScatterKernels kernels(region, work);
  emitDataCopy(region, work.input, work.output, work.places * work.slice * byteSize(work.element));
  if (work.kind != tn::ScatterKind::none) {
    kernels.emitSorted();
    return;
  }
  tn::SymbolList declared(region.source->getParentOfType<ModuleOp>());
  tn::SymbolList::Range bounds = declared.bounds(work.count);
  SizeRange all{bounds.min, bounds.max};
  auto limited = [&](const SizeRange &taken, llvm::function_ref<void()> emit) {
    size_t first = region.code.steps.size();
    emit();
    limitSteps(MutableArrayRef(region.code.steps).drop_front(first), work.count, all, taken);
  };
  if (all.least <= 1 && all.most >= 1) {
    limited({1, 1}, [&] { kernels.emitOnly(); });
  }
  if (all.most > 1) {
    limited({2, all.most}, [&] { kernels.emitClaims(); });
  }
}

} // namespace tenon::codegen::cuda
