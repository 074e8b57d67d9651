// The flash form with FP32 arithmetic: a block holds a tile of queries, keys and values in shared
// memory as f32. 16 lanes share 4 queries; a lane's keys and columns are 16 apart, so that
// neighbours read neighbouring banks. Relies on nothing of the layout but strides and pages.
//
// One file: all of it are steps of one kernel, over the same tiles.
#include "compiler/codegen/cuda/attention/AttentionKernels.h"
#include "compiler/codegen/cuda/attention/AttentionPages.h"
#include "compiler/codegen/cuda/attention/Tuning.h"
#include "compiler/codegen/cuda/base/KernelFrame.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

constexpr double kSimtLog2E = 1.4426950408889634;
constexpr int64_t kLanes = 16;
constexpr int64_t kRowsOfThread = 4;
using tuning::kSimtLoads;

class SimtKernel {
public:
  SimtKernel(KernelFrame &frame, const AttentionProblem &problem, SimtTile tile)
      : frame(frame), p(problem), tile(tile), width(*tn::constantDim(p.width)),
        valueWidth(*tn::constantDim(p.valueWidth)), pitch((width + 7) / 8 * 8 + 4),
        valuePitch((valueWidth + 15) / 16 * 16), weightPitch(tile.keys + 4) {}

  int64_t sharedBytes() const {
    return 4 * (tile.rows * (pitch + weightPitch) + tile.keys * (pitch + valuePitch));
  }
  void emit();

private:
  /// By row of the thread.
  struct State {
    SmallVector<Values> accumulators; ///< by 16 columns
    Values maxima, totals;
  };
  int64_t columns() const { return valuePitch / kLanes; }
  State unflatten(ValueRange values) const;
  Values flatten(const State &state) const;
  State initialState(const ThreadBuilder &t) const;
  void place(const ThreadBuilder &t);
  Value elementPointer(const ThreadBuilder &t, Value pointer, const StridedTensor &tensor,
                       Value row, Value column) const;
  Value pagedPointer(const ThreadBuilder &t, Value pointer, const StridedTensor &tensor, Value key,
                     Value column) const;
  void fill(const ThreadBuilder &t, Value pointer, const StridedTensor &tensor, Value firstRow,
            Value rowCount, int64_t rows, int64_t used, int64_t filled, int64_t rowPitch,
            Value to) const;
  Values step(const ThreadBuilder &t, Value index, State state) const;
  SmallVector<Values> scores(const ThreadBuilder &t) const;
  Value finishScore(const ThreadBuilder &t, Value dot, int64_t row, Value key) const;
  void weigh(const ThreadBuilder &t, const SmallVector<Values> &scores, State &state) const;
  void addValues(const ThreadBuilder &t, State &state) const;
  void storeRows(const ThreadBuilder &t, const State &state) const;

  KernelFrame &frame;
  const AttentionProblem &p;
  SimtTile tile;
  int64_t width, valueWidth;
  int64_t pitch, valuePitch, weightPitch; ///< floats between rows in shared memory

  Value batch, head, firstRow, lane, tileRow;
  Value sequence; ///< its number, of pages
  Value queryCount, keyCount, firstTile, tiles;
  Value keyPointer, valuePointer, maskPointer, resultPointer;
  Value queryTile, keyTile, valueTile, weightTile;
  /// Of the thread's rows: the query, the keys before which are seen, and those from which on.
  Values rows, limits, firstKeys;
};

SimtKernel::State SimtKernel::unflatten(ValueRange values) const {
  State state;
  for (int64_t i = 0; i < kRowsOfThread; ++i) {
    state.accumulators.push_back(Values(values.take_front(columns())));
    values = values.drop_front(columns());
  }
  state.maxima = Values(values.take_front(kRowsOfThread));
  state.totals = Values(values.drop_front(kRowsOfThread));
  return state;
}

Values SimtKernel::flatten(const State &state) const {
  Values all;
  for (const Values &accumulators : state.accumulators) {
    all.append(accumulators);
  }
  all.append(state.maxima);
  all.append(state.totals);
  return all;
}

SimtKernel::State SimtKernel::initialState(const ThreadBuilder &t) const {
  State state;
  Value zero = t.f32(0), lowest = t.f32(-double(std::numeric_limits<float>::max()));
  state.accumulators.assign(kRowsOfThread, Values(columns(), zero));
  state.maxima.assign(kRowsOfThread, lowest);
  state.totals.assign(kRowsOfThread, zero);
  return state;
}

void SimtKernel::place(const ThreadBuilder &t) {
  Value heads = frame.size32(p.heads), start;
  if (p.sequences) {
    head = t.rem(t.block(), heads);
    Value block = t.div(t.block(), heads), blocks = frame.size32(rowBlocksOf(p, tile.rows, 1));
    SequencePlace own = placeInSequence(t, frame, p, block, tile.rows, 1);
    clearRest(t, frame, p, block, blocks, head, 1, tile.rows / kRowsOfThread * kLanes);
    sequence = own.sequence;
    batch = own.firstToken;
    queryCount = own.tokens;
    keyCount = own.length;
    start = t.sub(keyCount, queryCount);
    firstRow = t.mul(own.rowBlock, tile.rows);
  } else {
    queryCount = frame.size32(p.queries);
    keyCount = frame.size32(p.keys);
    Value rowBlocks = t.ceilDiv(queryCount, tile.rows), list = t.div(t.block(), rowBlocks);
    head = t.rem(list, heads);
    batch = t.div(list, heads);
    firstRow = t.mul(t.rem(t.block(), rowBlocks), tile.rows);
    start = p.causal ? startOf(t, frame, p) : Value();
  }
  lane = t.rem(t.thread(), kLanes);
  tileRow = t.mul(t.div(t.thread(), kLanes), kRowsOfThread);
  Value seen = keyCount;
  for (int64_t i = 0; i < kRowsOfThread; ++i) {
    rows.push_back(t.add(t.add(firstRow, tileRow), i));
    Value end = p.causal ? t.add(t.add(rows[i], start), 1) : keyCount;
    limits.push_back(t.min(keyCount, end));
    firstKeys.push_back(t.sub(end, t.i32(p.window)));
  }
  if (p.causal) {
    seen = t.max(t.i32(0), t.min(keyCount, t.add(t.add(firstRow, start), tile.rows)));
  }
  firstTile = t.i32(0);
  if (p.window > 0) {
    Value hidden = t.sub(t.add(t.add(firstRow, start), 1), t.i32(p.window));
    firstTile = t.div(t.max(t.i32(0), hidden), tile.keys);
  }
  tiles = t.ceilDiv(seen, tile.keys);
  if (p.sequences) {
    tiles = t.select(t.isLess(firstRow, queryCount), tiles, t.i32(0));
  }
  Value keyHead =
      tn::sameDim(p.heads, p.keyHeads) ? head : t.div(head, t.div(heads, frame.size32(p.keyHeads)));
  Values keyPlace = {p.sequences ? t.i32(0) : batch, keyHead};
  keyPointer = pointerTo(t, frame, 1, p.k, keyPlace);
  valuePointer = pointerTo(t, frame, 2, p.v, keyPlace);
  maskPointer = p.mask ? pointerTo(t, frame, 3, *p.mask, {batch, head}) : Value();
  resultPointer = pointerTo(t, frame, p.reads(), p.y, {batch, head});
  queryTile = frame.dynamicShared();
  keyTile = t.offset(queryTile, t.f32Type(), tile.rows * pitch);
  valueTile = t.offset(keyTile, t.f32Type(), tile.keys * pitch);
  weightTile = t.offset(valueTile, t.f32Type(), tile.keys * valuePitch);
}

Value SimtKernel::elementPointer(const ThreadBuilder &t, Value pointer, const StridedTensor &tensor,
                                 Value row, Value column) const {
  Value at = t.add(t.mul(t.toI64(row), frame.size64(tensor.strides[2])),
                   t.mul(t.toI64(column), frame.size64(tensor.strides[3])));
  return t.offset(pointer, tensor.element, at);
}

/// The same of a key or value of the sequence.
Value SimtKernel::pagedPointer(const ThreadBuilder &t, Value pointer, const StridedTensor &tensor,
                               Value key, Value column) const {
  Value page = pageOf(t, frame, p, sequence, key, keyCount);
  Value first = t.offset(pointer, tensor.element, t.mul(page, frame.size64(tensor.strides[0])));
  return elementPointer(t, first, tensor, t.rem(key, p.sequences->page), column);
}

/// Rows [firstRow, firstRow + rows) of a head into a tile as f32. Rows past the last, and columns
/// from `used` to `filled`, are zeros.
void SimtKernel::fill(const ThreadBuilder &t, Value pointer, const StridedTensor &tensor,
                      Value first, Value rowCount, int64_t rows, int64_t used, int64_t filled,
                      int64_t rowPitch, Value to) const {
  int64_t count = rows * filled;
  bool isPaged = p.sequences && tensor.buffer != p.q.buffer;
  auto bring = [&](const ThreadBuilder &b, Value index) {
    Value row = b.div(index, filled), column = b.rem(index, filled);
    Value source = b.add(first, row);
    Value inside = b.isLess(source, rowCount);
    if (used < filled) {
      inside = b.bitAnd(inside, b.isLess(column, b.i32(used)));
    }
    Values element = b.choose(
        inside,
        [&](const ThreadBuilder &c) -> Values {
          Value from = isPaged ? pagedPointer(c, pointer, tensor, source, column)
                               : elementPointer(c, pointer, tensor, source, column);
          unsigned bytes = tensor.element.getIntOrFloatBitWidth() / 8;
          return {c.toF32(c.load(tensor.element, from, bytes))};
        },
        [](const ThreadBuilder &c) -> Values { return {c.f32(0)}; });
    b.store(element[0], b.offset(to, b.f32Type(), b.add(b.mul(row, rowPitch), column)), 4);
  };
  int64_t stride = tile.rows / kRowsOfThread * kLanes * kSimtLoads;
  t.loop(t.i32(0), t.i32(count), t.i32(stride), {},
         [&](const ThreadBuilder &b, Value base, ValueRange) -> Values {
           for (int64_t i = 0; i < kSimtLoads; ++i) {
             Value index = b.add(b.add(base, b.thread()), i * tile.rows / kRowsOfThread * kLanes);
             if (count % stride == 0) {
               bring(b, index);
             } else {
               b.when(b.isLess(index, b.i32(count)),
                      [&](const ThreadBuilder &c) { bring(c, index); });
             }
           }
           return {};
         });
}

/// Products of the thread's rows and keys lane + 16 j.
SmallVector<Values> SimtKernel::scores(const ThreadBuilder &t) const {
  int64_t keys = tile.keys / kLanes;
  Type four = t.vectorType(4, t.f32Type());
  Value rowBase = t.offset(queryTile, t.f32Type(), t.mul(tileRow, pitch));
  Value keyBase = t.offset(keyTile, t.f32Type(), t.mul(lane, pitch));
  Values accumulators = t.loop(
      t.i32(0), t.i32((width + 3) / 4 * 4), t.i32(4), Values(kRowsOfThread * keys, t.f32(0)),
      [&](const ThreadBuilder &b, Value column, ValueRange carried) -> Values {
        Values result(carried), left, right;
        for (int64_t i = 0; i < kRowsOfThread; ++i) {
          Value at = b.offset(b.offset(rowBase, b.f32Type(), column), b.f32Type(), i * pitch);
          left.push_back(b.load(four, at, 16));
        }
        for (int64_t j = 0; j < keys; ++j) {
          Value at =
              b.offset(b.offset(keyBase, b.f32Type(), column), b.f32Type(), j * kLanes * pitch);
          right.push_back(b.load(four, at, 16));
        }
        for (int64_t k = 0; k < 4; ++k) {
          for (int64_t i = 0; i < kRowsOfThread; ++i) {
            for (int64_t j = 0; j < keys; ++j) {
              Value &sum = result[i * keys + j];
              sum = b.fma(b.extract(left[i], k), b.extract(right[j], k), sum);
            }
          }
        }
        return result;
      });
  SmallVector<Values> byRow;
  for (int64_t i = 0; i < kRowsOfThread; ++i) {
    byRow.push_back(Values(ArrayRef(accumulators).slice(i * keys, keys)));
  }
  return byRow;
}

Value SimtKernel::finishScore(const ThreadBuilder &t, Value dot, int64_t row, Value key) const {
  Value scale = t.f32(p.scale), score;
  if (p.mask) {
    Value last = t.i32(1);
    Value at = elementPointer(t, maskPointer, *p.mask, t.min(rows[row], t.sub(queryCount, last)),
                              t.min(key, t.sub(keyCount, last)));
    unsigned bytes = p.mask->element.getIntOrFloatBitWidth() / 8;
    score = t.fma(dot, scale, t.toF32(t.load(p.mask->element, at, bytes)));
  } else {
    score = p.softcap > 0 ? cappedScore(t, dot, p) : t.mulF(dot, scale);
  }
  Value lowest = t.f32(-std::numeric_limits<float>::infinity());
  score = t.select(t.isLess(key, limits[row]), score, lowest);
  return p.window > 0 ? t.select(t.isLess(key, firstKeys[row]), lowest, score) : score;
}

/// Probabilities relative to the new maxima, for all lanes of the row to read; older accumulators
/// are brought to these.
void SimtKernel::weigh(const ThreadBuilder &t, const SmallVector<Values> &scores,
                       State &state) const {
  Value factor = t.f32(kSimtLog2E);
  for (int64_t i = 0; i < kRowsOfThread; ++i) {
    Value maximum = state.maxima[i];
    for (Value score : scores[i]) {
      maximum = t.maxF(maximum, score);
    }
    for (int64_t mask = 1; mask < kLanes; mask *= 2) {
      maximum = t.maxF(maximum, t.shuffleXor(maximum, mask));
    }
    auto probability = [&](Value score) { return t.exp2(t.mulF(t.subF(score, maximum), factor)); };
    Value older = probability(state.maxima[i]);
    state.maxima[i] = maximum;
    Value total = t.mulF(state.totals[i], older);
    Value row = t.add(t.mul(t.add(tileRow, i), weightPitch), lane);
    for (auto [j, score] : llvm::enumerate(scores[i])) {
      Value current = probability(score);
      total = t.addF(total, current);
      t.store(current, t.offset(weightTile, t.f32Type(), t.add(row, int64_t(j) * kLanes)), 4);
    }
    state.totals[i] = total;
    for (Value &sum : state.accumulators[i]) {
      sum = t.mulF(sum, older);
    }
  }
  t.warpBarrier();
}

void SimtKernel::addValues(const ThreadBuilder &t, State &state) const {
  Type four = t.vectorType(4, t.f32Type());
  Value rowBase = t.offset(weightTile, t.f32Type(), t.mul(tileRow, weightPitch));
  Value columnBase = t.offset(valueTile, t.f32Type(), lane);
  Values accumulators;
  for (const Values &row : state.accumulators) {
    accumulators.append(row);
  }
  accumulators = t.loop(t.i32(0), t.i32(tile.keys), t.i32(4), accumulators,
                        [&](const ThreadBuilder &b, Value key, ValueRange carried) -> Values {
                          Values result(carried), probabilities;
                          for (int64_t i = 0; i < kRowsOfThread; ++i) {
                            Value at = b.offset(b.offset(rowBase, b.f32Type(), key), b.f32Type(),
                                                i * weightPitch);
                            probabilities.push_back(b.load(four, at, 16));
                          }
                          Value base = b.offset(columnBase, b.f32Type(), b.mul(key, valuePitch));
                          for (int64_t k = 0; k < 4; ++k) {
                            for (int64_t c = 0; c < columns(); ++c) {
                              Value at = b.offset(base, b.f32Type(), k * valuePitch + c * kLanes);
                              Value value = b.load(b.f32Type(), at, 4);
                              for (int64_t i = 0; i < kRowsOfThread; ++i) {
                                Value &sum = result[i * columns() + c];
                                sum = b.fma(b.extract(probabilities[i], k), value, sum);
                              }
                            }
                          }
                          return result;
                        });
  for (int64_t i = 0; i < kRowsOfThread; ++i) {
    state.accumulators[i] = Values(ArrayRef(accumulators).slice(i * columns(), columns()));
  }
}

Values SimtKernel::step(const ThreadBuilder &t, Value index, State state) const {
  Value firstKey = t.mul(index, tile.keys);
  t.barrier();
  fill(t, keyPointer, p.k, firstKey, keyCount, tile.keys, width, pitch - 4, pitch, keyTile);
  fill(t, valuePointer, p.v, firstKey, keyCount, tile.keys, valueWidth, valuePitch, valuePitch,
       valueTile);
  t.barrier();
  SmallVector<Values> dots = scores(t);
  for (int64_t i = 0; i < kRowsOfThread; ++i) {
    for (auto [j, dot] : llvm::enumerate(dots[i])) {
      dot = finishScore(t, dot, i, t.add(t.add(firstKey, lane), int64_t(j) * kLanes));
    }
  }
  weigh(t, dots, state);
  addValues(t, state);
  return flatten(state);
}

void SimtKernel::storeRows(const ThreadBuilder &t, const State &state) const {
  for (int64_t i = 0; i < kRowsOfThread; ++i) {
    Value total = state.totals[i];
    for (int64_t mask = 1; mask < kLanes; mask *= 2) {
      total = t.addF(total, t.shuffleXor(total, mask));
    }
    Value divisor = totalDivisor(t, frame, p, total);
    t.when(t.isLess(rows[i], queryCount), [&](const ThreadBuilder &b) {
      for (int64_t c = 0; c < columns(); ++c) {
        Value column = b.add(lane, c * kLanes);
        auto store = [&](const ThreadBuilder &inner) {
          Value y = inner.fromF32(p.y.element, inner.divF(state.accumulators[i][c], divisor));
          inner.store(y, elementPointer(inner, resultPointer, p.y, rows[i], column),
                      p.y.element.getIntOrFloatBitWidth() / 8);
        };
        if ((c + 1) * kLanes <= valueWidth) {
          store(b);
        } else {
          b.when(b.isLess(column, b.i32(valueWidth)), store);
        }
      }
    });
  }
}

void SimtKernel::emit() {
  ThreadBuilder t = frame.code();
  place(t);
  fill(t, pointerTo(t, frame, 0, p.q, {batch, head}), p.q, firstRow, queryCount, tile.rows, width,
       pitch - 4, pitch, queryTile);
  Values last = t.loop(firstTile, tiles, t.i32(1), flatten(initialState(t)),
                       [&](const ThreadBuilder &b, Value index, ValueRange carried) {
                         return step(b, index, unflatten(carried));
                       });
  storeRows(t, unflatten(last));
}

} // namespace

std::optional<SimtTile> simtTile(const AttentionProblem &p, const target::Target &gpu) {
  std::optional<int64_t> width = tn::constantDim(p.width),
                         valueWidth = tn::constantDim(p.valueWidth);
  auto fits = [](const StridedTensor &tensor) {
    return tensor.element.getIntOrFloatBitWidth() <= 32;
  };
  if (!width || !valueWidth || *valueWidth > 256 || !fits(p.q) || !fits(p.k) || !fits(p.v) ||
      !fits(p.y) || (p.mask && !fits(*p.mask))) {
    return std::nullopt;
  }
  bool isNarrow = *width <= tuning::kNarrowHead && *valueWidth <= tuning::kNarrowHead;
  int64_t size = isNarrow ? tuning::kSimtTile : tuning::kSimtSmallTile;
  SimtTile tile = {size, size};
  int64_t bytes = 4 * (tile.rows * ((*width + 7) / 8 * 8 + 8 + tile.keys) +
                       tile.keys * ((*width + 7) / 8 * 8 + 4 + (*valueWidth + 15) / 16 * 16));
  return bytes > gpu.sharedBytes ? std::nullopt : std::optional(tile);
}

void emitSimtAttention(RegionBuilder &region, const AttentionProblem &p, const SimtTile &tile) {
  KernelFrame frame(region, p.buffers(p.y.buffer), p.reads(), tile.rows / kRowsOfThread * kLanes);
  // ptxas by itself spills a word to have room for more blocks.
  frame.setMinBlocksPerSm(tuning::kSimtBlocks);
  SimtKernel kernel(frame, p, tile);
  kernel.emit();
  AffineExpr rowBlocks = p.sequences ? rowBlocksOf(p, tile.rows, 1) : p.queries.ceilDiv(tile.rows);
  AffineExpr blocks = p.batches * p.heads * rowBlocks;
  frame.finish(blocks, kernel.sharedBytes());
}

} // namespace tenon::codegen::cuda
