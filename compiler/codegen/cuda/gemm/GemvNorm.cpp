// The norm before a product with few rows: while the weights are on their way, every block norms
// all rows into shared memory, one or more warps a row. Relies on 16-bit elements and rows of a
// multiple of eight.
#include "compiler/codegen/cuda/gemm/GemvKernel.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

namespace {

/// Elements that a lane reads at once.
constexpr int64_t kPart = 8;

} // namespace

int64_t GemvKernel::warpsOfRow() const {
  int64_t warps = 1;
  auto isFew = [&] {
    return warps * 2 * p.rows > layout.warps &&
           p.depth <= warps * kWarp * kPart * tuning::kGemvNormSteps;
  };
  while (!isFew() && warps < layout.warps) {
    warps *= 2;
  }
  return warps;
}

Values GemvKernel::numbersOf(const ThreadBuilder &t, Value vector) const {
  Values numbers;
  for (int64_t i = 0; i < kPart / 2; ++i) {
    Value pair = t.bitcast(t.vectorType(2, p.element), t.extract(vector, i));
    numbers.push_back(t.toF32(t.extract(pair, 0)));
    numbers.push_back(t.toF32(t.extract(pair, 1)));
  }
  return numbers;
}

/// `factors`, the words of the scale, may be null.
Value GemvKernel::normalized(const ThreadBuilder &t, Value words, Value factor,
                             Value factors) const {
  Values numbers = numbersOf(t, words), packed;
  Values scaled = factors ? numbersOf(t, factors) : Values();
  for (auto [i, number] : llvm::enumerate(numbers)) {
    number = t.mulF(number, factor);
    number = factors ? t.mulF(number, scaled[i]) : number;
  }
  for (int64_t i = 0; i < kPart; i += 2) {
    packed.push_back(t.packPair(p.element, numbers[i], numbers[i + 1]));
  }
  return t.pack(packed);
}

/// What a row is multiplied by, from a lane's sum of squares. The warps of a row meet where
/// accumulators of tiles will lie later.
Value GemvKernel::rowFactor(const ThreadBuilder &t, Value square, Value row, Value part) const {
  for (int64_t mask = kWarp / 2; mask > 0; mask /= 2) {
    square = t.addF(square, t.shuffleXor(square, mask));
  }
  if (warpsOfRow() > 1) {
    Value base = t.offset(shared, t.f32Type(), t.mul(row, warpsOfRow()));
    t.store(square, t.offset(base, t.f32Type(), part), 4);
    t.barrier();
    square = t.f32(0);
    for (int64_t i = 0; i < warpsOfRow(); ++i) {
      square = t.addF(square, t.load(t.f32Type(), t.offset(base, t.f32Type(), i), 4));
    }
  }
  Value mean = t.fma(square, t.f32(1.0 / p.depth), t.f32(p.norm->epsilon));
  return t.intrinsic("llvm.nvvm.rsqrt.approx.f", t.f32Type(), {mean});
}

/// How often the lanes of a row read.
int64_t GemvKernel::normSteps() const {
  int64_t lanes = warpsOfRow() * kWarp;
  return (p.depth / kPart + lanes - 1) / lanes;
}

/// The place in a row of what a lane reads, and whether it is one (null: always).
Value GemvKernel::normPlace(const ThreadBuilder &t, int64_t step, Value &isInside) const {
  int64_t parts = p.depth / kPart, lanes = warpsOfRow() * kWarp;
  Value part = t.rem(warp, warpsOfRow());
  Value number = t.add(t.add(t.mul(part, kWarp), t.rem(thread, kWarp)), step * lanes);
  if ((step + 1) * lanes > parts) {
    isInside = t.isLess(number, t.i32(parts));
    number = t.min(number, t.i32(parts - 1));
  }
  return t.mul(number, kPart);
}

/// Scales are weights: they may be read before the rows are there.
void GemvKernel::fetchScales() {
  ThreadBuilder t = kernel.code();
  for (int64_t step = 0; scalePointer && step < normSteps(); ++step) {
    Value isInside, place = normPlace(t, step, isInside);
    Type type = t.vectorType(kPart / 2, t.i32Type());
    scales.push_back(t.load(type, t.offset(scalePointer, p.element, place), 16));
  }
}

/// One row of each group of warps.
void GemvKernel::normPass(const ThreadBuilder &t, Value pass) const {
  int64_t slots = layout.warps / warpsOfRow();
  Value row = t.add(t.div(warp, warpsOfRow()), t.mul(pass, slots));
  Value readRow = t.min(row, t.sub(rowCount, t.i32(1)));
  Type type = t.vectorType(kPart / 2, t.i32Type());
  Value nothing = t.pack(Values(kPart / 2, t.i32(0)));
  Values words;
  Value square = t.f32(0);
  for (int64_t step = 0; step < normSteps(); ++step) {
    Value isInside, place = normPlace(t, step, isInside);
    Value at = t.offset(inputPointer, p.element, t.add(t.mul(readRow, p.depth), place));
    Value read = t.load(type, at, 16);
    words.push_back(isInside ? t.select(isInside, read, nothing) : read);
    for (Value number : numbersOf(t, words.back())) {
      square = t.fma(number, number, square);
    }
  }
  Value factor = rowFactor(t, square, row, t.rem(warp, warpsOfRow()));
  Value isRow = hasRowTail(slots) ? t.isLess(row, rowCount) : Value();
  for (int64_t step = 0; step < normSteps(); ++step) {
    Value isStored, place = normPlace(t, step, isStored);
    Value result = normalized(t, words[step], factor, scalePointer ? scales[step] : Value());
    auto store = [&](const ThreadBuilder &c) {
      Value at = c.add(c.mul(row, normedPitch()), place);
      c.store(result, c.offset(normedPointer, p.element, at), 16);
    };
    if (isRow) {
      isStored = isStored ? t.bitAnd(isStored, isRow) : isRow;
    }
    if (isStored) {
      t.when(isStored, store);
    } else {
      store(t);
    }
  }
}

void GemvKernel::normRows() {
  ThreadBuilder t = kernel.code();
  normedPointer = t.offset(shared, t.f32Type(), 2 * bufferSums());
  int64_t slots = layout.warps / warpsOfRow(), passes = (p.rows + slots - 1) / slots;
  if (passes == 1) {
    normPass(t, t.i32(0));
  } else {
    t.loop(t.i32(0), t.i32(passes), t.i32(1), {},
           [&](const ThreadBuilder &c, Value pass, ValueRange) -> Values {
             normPass(c, pass);
             return {};
           });
  }
  t.barrier();
}

} // namespace tenon::codegen::cuda
