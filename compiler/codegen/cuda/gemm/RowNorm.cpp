// A lane reads eight neighbours at a time and keeps them until the sum of squares is known. Relies
// on scales being there before any kernel runs.
#include "compiler/codegen/cuda/gemm/RowNorm.h"

#include "compiler/codegen/cuda/gemm/HalfGemm.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

namespace {

/// Elements that a lane reads at once.
constexpr int64_t kLaneElements = 8;

} // namespace

GemvNorm gemvNormOf(tn::RmsNormOp op) {
  GemvNorm norm;
  norm.epsilon = op.getEpsilon().convertToDouble();
  if (Value scale = op.getScale()) {
    norm.scale = cast<BlockArgument>(scale).getArgNumber();
  }
  return norm;
}

Value readStreamedNorm(Value a, std::optional<GemvNorm> &norm) {
  tn::RmsNormOp op = a.getDefiningOp<tn::RmsNormOp>();
  if (!op) {
    return a;
  }
  Value scale = op.getScale();
  if (!isStreamedNorm(op) || (scale && !isa<BlockArgument>(scale))) {
    return {};
  }
  norm = gemvNormOf(op);
  return op.getX();
}

int64_t RowNorm::warpsOfRow() const {
  int64_t warps = 1;
  auto isFew = [&] {
    return warps * 2 * p.count > p.warps &&
           p.depth <= warps * kWarp * kLaneElements * tuning::kGemvNormSteps;
  };
  while (!isFew() && warps < p.warps) {
    warps *= 2;
  }
  return warps;
}

Values RowNorm::numbersOf(const ThreadBuilder &t, Value vector) const {
  Values numbers;
  for (int64_t i = 0; i < kLaneElements / 2; ++i) {
    Value pair = t.bitcast(t.vectorType(2, p.element), t.extract(vector, i));
    numbers.push_back(t.toF32(t.extract(pair, 0)));
    numbers.push_back(t.toF32(t.extract(pair, 1)));
  }
  return numbers;
}

/// `factors`, the words of the scale, may be null.
Values RowNorm::normalized(const ThreadBuilder &t, Value words, Value factor, Value factors) const {
  Values numbers = numbersOf(t, words), packed;
  Values scaled = factors ? numbersOf(t, factors) : Values();
  for (auto [i, number] : llvm::enumerate(numbers)) {
    number = t.mulF(number, factor);
    number = factors ? t.mulF(number, scaled[i]) : number;
  }
  for (int64_t i = 0; i < kLaneElements; i += 2) {
    packed.push_back(t.packPair(p.element, numbers[i], numbers[i + 1]));
  }
  return packed;
}

/// What a row is multiplied by, from a lane's sum of squares. The warps of a row meet where
/// accumulators of tiles will lie later.
Value RowNorm::rowFactor(const ThreadBuilder &t, Value square, Value row, Value part) const {
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
  Value mean = t.fma(square, t.f32(1.0 / p.depth), t.f32(norm.epsilon));
  return t.intrinsic("llvm.nvvm.rsqrt.approx.f", t.f32Type(), {mean});
}

/// How often the lanes of a row read.
int64_t RowNorm::steps() const {
  int64_t lanes = warpsOfRow() * kWarp;
  return (p.depth / kLaneElements + lanes - 1) / lanes;
}

/// The place in a row of what a lane reads, and whether it is one (null: always).
Value RowNorm::placeOf(const ThreadBuilder &t, int64_t step, Value &isInside) const {
  int64_t parts = p.depth / kLaneElements, lanes = warpsOfRow() * kWarp;
  Value part = t.rem(t.div(t.thread(), kWarp), warpsOfRow());
  Value number = t.add(t.add(t.mul(part, kWarp), t.lane()), step * lanes);
  if ((step + 1) * lanes > parts) {
    isInside = t.isLess(number, t.i32(parts));
    number = t.min(number, t.i32(parts - 1));
  }
  return t.mul(number, kLaneElements);
}

void RowNorm::fetchScales() {
  ThreadBuilder t = kernel.code();
  Value scalePointer = norm.scale ? kernel.orderedPointer(*norm.scale) : Value();
  for (int64_t step = 0; scalePointer && step < steps(); ++step) {
    Value isInside, place = placeOf(t, step, isInside);
    Type type = t.vectorType(kLaneElements / 2, t.i32Type());
    scales.push_back(t.load(type, t.offset(scalePointer, p.element, place), 16));
  }
}

/// One row of each group of warps.
void RowNorm::pass(const ThreadBuilder &t, Value number) const {
  int64_t slots = p.warps / warpsOfRow();
  Value warp = t.div(t.thread(), kWarp);
  Value row = t.add(t.div(warp, warpsOfRow()), t.mul(number, slots));
  Value readRow = t.min(row, t.sub(rowCount, t.i32(1)));
  Type type = t.vectorType(kLaneElements / 2, t.i32Type());
  Value nothing = t.pack(Values(kLaneElements / 2, t.i32(0)));
  Values words;
  Value square = t.f32(0);
  for (int64_t step = 0; step < steps(); ++step) {
    Value isInside, place = placeOf(t, step, isInside);
    Value at = t.offset(inputPointer, p.element, t.add(t.mul(readRow, p.depth), place));
    Value read = t.load(type, at, 16);
    words.push_back(isInside ? t.select(isInside, read, nothing) : read);
    for (Value number : numbersOf(t, words.back())) {
      square = t.fma(number, number, square);
    }
  }
  Value factor = rowFactor(t, square, row, t.rem(warp, warpsOfRow()));
  Value isRow = p.count % slots != 0 || p.mayBeFewer ? t.isLess(row, rowCount) : Value();
  for (int64_t step = 0; step < steps(); ++step) {
    Value isStored, place = placeOf(t, step, isStored);
    Values normed = normalized(t, words[step], factor, norm.scale ? scales[step] : Value());
    auto store = [&](const ThreadBuilder &c) {
      Value at = c.add(c.mul(row, normedPitchOf(p.depth)), place);
      c.store(c.pack(order ? order(c, normed) : normed), c.offset(normedPointer, p.element, at),
              16);
    };
    if (isRow) {
      isStored = isStored ? t.bitAnd(isStored, isRow) : isRow;
    }
    if (reader) {
      reader(t, row, place, normed, isStored);
    }
    if (isStored) {
      t.when(isStored, store);
    } else {
      store(t);
    }
  }
}

void RowNorm::normRows(Value input, Value rows, Value scratch, Value normed) {
  ThreadBuilder t = kernel.code();
  inputPointer = input;
  rowCount = rows;
  shared = scratch;
  normedPointer = normed;
  int64_t slots = p.warps / warpsOfRow(), passes = (p.count + slots - 1) / slots;
  if (passes == 1) {
    pass(t, t.i32(0));
  } else {
    t.loop(t.i32(0), t.i32(passes), t.i32(1), {},
           [&](const ThreadBuilder &c, Value number, ValueRange) -> Values {
             pass(c, number);
             return {};
           });
  }
  t.barrier();
}

} // namespace tenon::codegen::cuda
