// The main loop of a product with few rows: weights of the next tile are asked for as soon as those
// of this one are in use. Relies on RowNorm.h for what precedes and GemvStore.cpp for what
// follows.
#include "compiler/codegen/cuda/gemm/GemvKernel.h"

#include "compiler/codegen/cuda/base/CachePolicy.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

namespace {

/// A lane's part of a panel.
constexpr int64_t kQuadElements = 8;
/// Words of a lane's part.
constexpr int64_t kWords = 4;
/// Sums of a lane for 8 rows.
constexpr int64_t kSums = 4;

Values wordsOf(const ThreadBuilder &t, Value vector) {
  Values words;
  for (int64_t i = 0; i < kWords; ++i) {
    words.push_back(t.extract(vector, i));
  }
  return words;
}

Value zeros(const ThreadBuilder &t) { return t.pack(Values(kWords, t.i32(0))); }

} // namespace

GemvKernel::GemvKernel(RegionBuilder &region, const GemvProblem &problem, const GemvLayout &layout)
    : kernel(region, layout.threads()), emitter(kernel), p(problem), layout(layout) {}

void GemvKernel::place() {
  ThreadBuilder t = kernel.code();
  thread = t.thread();
  block = t.block();
  warp = t.div(thread, kWarp);
  Value lane = t.rem(thread, kWarp);
  group = t.div(lane, 4);
  quad = t.rem(lane, 4);
  shared = kernel.dynamicShared();
  rowCount = kernel.size32(p.rowCount);
  weightPointer = kernel.orderedPointer(p.weights);
  inputPointer = kernel.orderedPointer(p.input);
}

/// The panel of activations, of all those of the depth.
Value GemvKernel::panelOf(const ThreadBuilder &t, Value chunk, int64_t panel) const {
  Value number = p.isInvariant ? t.add(t.mul(warp, layout.chunks), chunk)
                               : t.add(t.mul(chunk, layout.warps), warp);
  return t.add(t.mul(number, layout.panels), panel);
}

/// The panel of weights: as of activations, or, where lines are shared out, one of two neighbours.
Value GemvKernel::weightPanelOf(const ThreadBuilder &t, Value chunk, int64_t panel) const {
  return p.isPacked ? panelOf(t, chunk, panel)
                    : t.add(panelOf(t, chunk, panel / 2 * 2), t.rem(group, 2));
}

/// Whether this lane's part of a panel is inside the matrix.
Value GemvKernel::isInside(const ThreadBuilder &t, Value panel) const {
  return t.isLess(t.add(t.mul(panel, kGemvPanel), t.mul(quad, kQuadElements)), t.i32(p.depth));
}

/// The panel, or the first one for what is outside.
Value GemvKernel::clamped(const ThreadBuilder &t, Value panel) const {
  return hasTail() ? t.select(isInside(t, panel), panel, t.i32(0)) : panel;
}

/// How far behind the tile's first column of its part the one is that a lane fetches, apart from
/// the lane.
int64_t GemvKernel::columnOffset(int64_t panel, int64_t half) const {
  if (p.isPacked) {
    return p.parts == 1 ? half * 8 : 0;
  }
  return 4 * (p.parts == 1 ? panel % 2 * 2 + half : half);
}

/// The first column of the part that a fetched one belongs to.
int64_t GemvKernel::partOffset(int64_t panel, int64_t half) const {
  return p.parts == 1 ? 0 : (p.isPacked ? half : panel % 2) * p.partColumns();
}

/// A lane's weights of a panel, both operands' rows of an mma.
Values GemvKernel::fetchPanel(const ThreadBuilder &t, Value tile, Value chunk,
                              int64_t panel) const {
  bool hasColumnTail = p.partColumns() % tileColumns() != 0,
       isRegular = !hasTail() && !hasColumnTail;
  Value first = t.add(t.mul(tile, tileColumns()), p.isPacked ? group : t.div(group, 2));
  // Distances that are known stay out of the addresses' arithmetic.
  int64_t known = isRegular ? (p.isPacked ? panel : panel / 2 * 2) : 0;
  Value along = clamped(t, weightPanelOf(t, chunk, isRegular ? 0 : panel));
  Value base = t.add(t.mul(t.toI64(along), p.panelStride), t.toI64(t.mul(quad, kQuadElements)));
  Values result;
  for (int64_t half = 0; half < 2; ++half) {
    int64_t offset = columnOffset(panel, half), part = partOffset(panel, half);
    Value column = first;
    if (isRegular) {
      offset += part;
    } else {
      column = t.add(t.min(t.add(first, offset), t.i32(p.partColumns() - 1)), part);
      offset = 0;
    }
    Value at = t.add(base, t.mul(t.toI64(column), p.columnStride));
    Value pointer = t.offset(weightPointer, p.element, at);
    result.push_back(
        loadOnce(t, t.offset(pointer, p.element, known * p.panelStride + offset * p.columnStride)));
  }
  return result;
}

/// A lane's activations of a panel, one vector of words for each 8 rows; 0 outside.
Values GemvKernel::activations(const ThreadBuilder &t, Value chunk, int64_t panel) const {
  Type type = t.vectorType(kWords, t.i32Type());
  Value number = panelOf(t, chunk, hasTail() ? panel : 0);
  int64_t known = hasTail() ? 0 : panel * kGemvPanel;
  Value along = t.add(t.mul(clamped(t, number), kGemvPanel), t.mul(quad, kQuadElements));
  Values result;
  for (int64_t i = 0; i < rowGroups(); ++i) {
    // What is computed of the last row once more is not stored.
    Value row = t.min(t.add(group, i * kMmaColumns), t.sub(rowCount, t.i32(1)));
    Value pointer = t.offset(p.norm ? normedPointer : inputPointer, p.element,
                             t.add(t.mul(row, p.norm ? normedPitchOf(p.depth) : p.depth), along));
    Value words = t.load(type, t.offset(pointer, p.element, known), 16);
    result.push_back(hasTail() ? t.select(isInside(t, number), words, zeros(t)) : words);
  }
  return result;
}

/// Adds the products of one panel: two mma for each 8 rows, and for each of the two panels whose
/// depths the lanes' lines are of.
void GemvKernel::multiplyPanel(const ThreadBuilder &t, Value chunk, int64_t panel,
                               ValueRange weights, ValueRange words,
                               MutableArrayRef<Value> accumulators) const {
  Values left(weights);
  if (hasTail()) {
    // What was read in place of what is outside may be infinite.
    Value inside = isInside(t, weightPanelOf(t, chunk, panel));
    for (Value &vector : left) {
      vector = t.select(inside, vector, zeros(t));
    }
  }
  Values low = wordsOf(t, left[0]), high = wordsOf(t, left[1]);
  int64_t first = p.isPacked ? panel : panel / 2 * 2, firstSet = p.isPacked ? 0 : panel % 2 * 2;
  for (int64_t i = 0; i < rowGroups() * (p.isPacked ? 1 : 2); ++i) {
    int64_t row = i % rowGroups(), line = i / rowGroups();
    Values b = wordsOf(t, words[(first + line) * rowGroups() + row]);
    MutableArrayRef<Value> sum =
        accumulators.slice(((firstSet + line) * rowGroups() + row) * kSums, kSums);
    for (int64_t k = 0; k < kWords; k += 2) {
      llvm::copy(
          multiply(t, p.element, {low[k], high[k], low[k + 1], high[k + 1]}, {b[k], b[k + 1]}, sum),
          sum.begin());
    }
  }
}

/// The accumulators of a tile by rows 8 i and column halves, as of packed weights: of each set's
/// rows only every other belongs to the set's panels.
Values GemvKernel::joinLines(const ThreadBuilder &t, ValueRange accumulators) const {
  Values joined;
  int64_t count = rowGroups() * kSums;
  Value isOdd = t.isEqual(t.rem(group, 2), t.i32(1));
  for (int64_t i = 0; i < 2 * count; ++i) {
    int64_t at = i / count * 2 * count + i % count;
    Value own = t.select(isOdd, accumulators[at + count], accumulators[at]);
    joined.push_back(t.addF(own, t.shuffleXor(own, 4)));
  }
  return joined;
}

/// One chunk of `state`'s weights and activations, whose products go to its accumulators. What a
/// panel held is followed at once by what its registers will hold next, unless the block's work
/// ends here.
GemvKernel::State GemvKernel::addChunk(const ThreadBuilder &t, Value tile, Value chunk,
                                       Value isLast, State state) const {
  Value wraps = t.isEqual(chunk, t.i32(layout.chunks - 1));
  Value nextChunk = t.select(wraps, t.i32(0), t.add(chunk, 1));
  Value nextTile = t.select(wraps, t.add(tile, layout.blocks), tile);
  int64_t inLine = p.isPacked ? 1 : 2;
  for (int64_t panel = 0; panel < layout.panels; ++panel) {
    MutableArrayRef<Value> pair = MutableArrayRef<Value>(state.weights).slice(panel * 2, 2);
    multiplyPanel(t, chunk, panel, pair, state.words, state.accumulators);
    if (layout.chunks == 1 && layout.blocks >= p.tiles()) {
      continue;
    }
    Values next = t.choose(
        isLast,
        [&](const ThreadBuilder &c) -> Values {
          Value nothing = c.undefined(pair[0].getType());
          return {nothing, nothing};
        },
        [&](const ThreadBuilder &c) { return fetchPanel(c, nextTile, nextChunk, panel); });
    llvm::copy(next, pair.begin());
    if (layout.chunks > 1 && panel % inLine == inLine - 1) {
      for (int64_t used = panel - inLine + 1; used <= panel; ++used) {
        llvm::copy(activations(t, nextChunk, used), &state.words[used * rowGroups()]);
      }
    }
  }
  return state;
}

Values GemvKernel::State::all() const {
  Values values(weights);
  llvm::append_range(values, words);
  llvm::append_range(values, accumulators);
  return values;
}

/// The state whose values are carried through a loop in this order.
GemvKernel::State GemvKernel::State::with(ValueRange values) const {
  ValueRange rest = values.drop_front(weights.size());
  return {Values(values.take_front(weights.size())), Values(rest.take_front(words.size())),
          Values(rest.drop_front(words.size()))};
}

/// All chunks of a tile and its way out.
GemvKernel::State GemvKernel::addTile(const ThreadBuilder &t, Value tile, State state) {
  state.accumulators.assign(rowGroups() * kSums * (p.isPacked ? 1 : 4), t.f32(0));
  Value isLastTile = t.isLess(t.i32(p.tiles() - 1), t.add(tile, layout.blocks));
  if (layout.chunks == 1) {
    state = addChunk(t, tile, t.i32(0), isLastTile, state);
  } else {
    Values after = t.loop(t.i32(0), t.i32(layout.chunks), t.i32(1), state.all(),
                          [&](const ThreadBuilder &c, Value chunk, ValueRange before) {
                            Value isLast =
                                c.bitAnd(c.isEqual(chunk, c.i32(layout.chunks - 1)), isLastTile);
                            return addChunk(c, tile, chunk, isLast, state.with(before)).all();
                          });
    state = state.with(after);
  }
  finishTile(t, tile, state.accumulators);
  state.accumulators.clear();
  return state;
}

void GemvKernel::addTiles(ValueRange weights) {
  ThreadBuilder t = kernel.code();
  State state;
  state.weights.assign(weights.begin(), weights.end());
  for (int64_t panel = 0; panel < layout.panels; ++panel) {
    llvm::append_range(state.words, activations(t, t.i32(0), panel));
  }
  if (layout.blocks >= p.tiles()) {
    addTile(t, block, state);
    return;
  }
  t.loop(block, t.i32(p.tiles()), t.i32(layout.blocks), state.all(),
         [&](const ThreadBuilder &c, Value tile, ValueRange before) {
           return addTile(c, tile, state.with(before)).all();
         });
}

bool GemvKernel::emit() {
  std::optional<GemmTensors> found = productTensors(kernel.region);
  if (!found) {
    return false;
  }
  tensors = *found;
  // Left to itself, ptxas has fewer loads under way so that more blocks would fit. Told of one
  // block of 16 warps that each add two groups of rows, it spills.
  bool isTight = p.isPacked && layout.warps == 16 && p.rows > kMmaColumns;
  if (!isTight) {
    kernel.setMinBlocksPerSm(layout.blocksPerSm);
  }
  place();
  ThreadBuilder t = kernel.code();
  Values fetched;
  for (int64_t panel = 0; panel < layout.panels; ++panel) {
    llvm::append_range(fetched, fetchPanel(t, block, t.i32(0), panel));
  }
  std::optional<RowNorm> norm;
  if (p.norm) {
    RowNorm::Rows rows{p.rows, p.depth, !tn::constantDim(p.rowCount), layout.warps, p.element};
    norm.emplace(kernel, *p.norm, rows);
    norm->fetchScales();
  }
  // The next kernel may start at once, so that its weights are under way too.
  kernel.waitHere();
  if (norm) {
    // Where accumulators of tiles will lie later.
    normedPointer = t.offset(shared, t.f32Type(), 2 * bufferSums());
    norm->normRows(inputPointer, rowCount, shared, normedPointer);
  }
  addTiles(fetched);
  kernel.finish(getAffineConstantExpr(layout.blocks, kernel.builder.getContext()), sharedBytes());
  return !emitter.hasFailed();
}

} // namespace tenon::codegen::cuda
