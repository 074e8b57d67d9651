// The product of a state with the weights that a thread holds. A warp takes 16 columns a tile and a
// part of the depth: by mma.sync with the weights as A and the rows of the state as B, or by FP32
// multiply-adds with two halves of the warp on two halves of the depth.
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/recurrent/PersistentKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

/// The depth of two products whose fragments lie side by side: a lane's 16 bytes of a row are word
/// 0 and 1 of B of the first, then of the second. Columns of A are taken in the same order.
constexpr int64_t kPairDepth = 2 * kMmaDepth, kLaneDepth = kPairDepth / 4;
/// Vectors of the state that a lane asks shared memory for before it multiplies.
constexpr int64_t kVectorsFromShared = 4;
/// Products of a warp that run beside each other.
constexpr int64_t kChains = 4;
/// Registers of a thread, but for addresses and counters.
constexpr int64_t kRegisters = 192;
/// Weights that a thread asks the L2 for together.
constexpr int64_t kStreamedWords = 16;

Values loadShared(const ThreadBuilder &t, Value pointer) {
  Value vector = t.load(t.vectorType(4, t.i32Type()), pointer, 16);
  return {t.extract(vector, 0), t.extract(vector, 1), t.extract(vector, 2), t.extract(vector, 3)};
}

} // namespace

/// Of the block's column (a gate's units side by side, unless isDirect); zero where there is none.
/// As stored.
Value PersistentKernel::weightAt(const ThreadBuilder &t, Value column, Value k) const {
  Value gate = t.div(column, shape.units), local = t.rem(column, shape.units);
  if (shape.isDirect) {
    // Of 8 units two gates in a tile.
    int64_t ofUnits = shape.tilesOfUnits() * kMmaRows;
    gate = t.div(t.rem(column, ofUnits), 8);
    local = t.add(t.mul(t.div(column, ofUnits), 8), t.rem(column, 8));
    gate = t.select(t.isLess(local, t.i32(shape.units)), gate, t.i32(shape.gates));
  }
  Value unit = t.add(t.mul(rank, shape.units), local);
  Value isInside =
      both(t, t.isLess(gate, t.i32(shape.gates)),
           both(t, t.isLess(unit, t.i32(shape.hidden)), t.isLess(k, t.i32(shape.hidden))));
  gate = t.min(gate, t.i32(shape.gates - 1));
  unit = t.min(unit, t.i32(shape.hidden - 1));
  k = t.min(k, t.i32(shape.hidden - 1));
  Value at = t.add(t.mul(t.toI64(k), shape.gates * shape.hidden),
                   t.toI64(t.add(t.mul(gate, shape.hidden), unit)));
  Value weight =
      t.load(shape.element, t.offset(input(op.getWeights()), shape.element, at), shape.bytes);
  Value zero =
      arith::ConstantOp::create(t.builder, t.location, t.builder.getFloatAttr(shape.element, 0));
  return t.select(isInside, weight, zero);
}

/// The thread's word of a number (i32): of halves [tile][pair][product of the pair][word of A], of
/// floats [element of the half's depth][tile].
Value PersistentKernel::weightWord(const ThreadBuilder &t, Value number) const {
  Value start = t.mul(part, shape.partDepth);
  Value first = t.mul(group, shape.tiles * kMmaRows);
  if (!shape.isHalf) {
    Value column =
        t.add(first, t.add(t.mul(t.rem(number, shape.tiles), kMmaRows), t.rem(lane, 16)));
    Value k = t.add(t.div(number, shape.tiles), t.mul(t.div(lane, 16), shape.partDepth / 2));
    return weightAt(t, column, t.add(start, k));
  }
  Value word = t.rem(number, 4), half = t.rem(t.div(number, 4), 2);
  int64_t pairs = shape.partDepth / kPairDepth;
  Value pair = t.rem(t.div(number, 8), pairs), own = t.div(number, 8 * pairs);
  Value column = t.add(t.add(first, t.div(lane, 4)), t.mul(own, kMmaRows));
  column = t.add(column, t.mul(t.rem(word, 2), 8));
  Value inPair = t.add(t.mul(half, kLaneDepth / 2), t.mul(t.div(word, 2), 2));
  inPair = t.add(inPair, t.mul(t.rem(lane, 4), kLaneDepth));
  Value k = t.add(t.add(start, t.mul(pair, kPairDepth)), inPair);
  Value both = t.pack({weightAt(t, column, k), weightAt(t, column, t.add(k, 1))});
  return t.bitcast(t.i32Type(), both);
}

/// Where a word of shared memory lies: a thread's fragments side by side, a float's neighbours the
/// other threads'.
Value PersistentKernel::keptWord(const ThreadBuilder &t, Value number) const {
  constexpr int64_t threads = PersistentShape::kThreads;
  Value at = shape.isHalf ? t.add(t.mul(t.add(t.mul(t.div(number, 4), threads), thread), 4),
                                  t.rem(number, 4))
                          : t.add(t.mul(number, threads), thread);
  return t.offset(weights, t.i32Type(), at);
}

void PersistentKernel::holdWeights(const ThreadBuilder &t) {
  for (int64_t number = 0; number < shape.held; ++number) {
    held.push_back(weightWord(t, t.i32(number)));
  }
  t.loop(t.i32(0), t.i32(shape.kept), t.i32(1), {},
         [&](const ThreadBuilder &b, Value number, ValueRange) -> Values {
           b.store(weightWord(b, b.add(number, shape.held)), keptWord(b, number), 4);
           return {};
         });
}

Values PersistentKernel::fragmentOfA(const ThreadBuilder &t, int64_t number) const {
  int64_t word = 4 * number;
  return word < shape.held ? Values(ArrayRef(held).slice(word, 4))
                           : loadShared(t, keptWord(t, t.i32(word - shape.held)));
}

void PersistentKernel::storeSum(const ThreadBuilder &t, Value sum, Value row, Value column) const {
  Value at = t.mul(t.add(t.mul(part, shape.chunk), row), shape.sumStride());
  setSharedF32(t, sum, sums, t.add(at, column));
}

/// What a lane asks the L2 for before it multiplies: each batch takes the way there and back.
int64_t PersistentKernel::vectorsFromL2() const {
  int64_t sums = shape.isHalf ? shape.tiles * shape.chunk / kMmaColumns * 4 : 0;
  int64_t room = kRegisters - shape.held - sums - shape.gates * shape.elements();
  return std::clamp<int64_t>(room / 4, 1, 16);
}

Value PersistentKernel::multiplyHalves(const ThreadBuilder &t, Value state, Value chunkRow,
                                       Value looks, Totals &totals) const {
  int64_t stride = shape.layout.grid ? shape.depth : shape.stateStride();
  int64_t blocksOfRows = shape.chunk / kMmaColumns, pairs = shape.partDepth / kPairDepth;
  Value row = t.add(chunkRow, t.div(lane, 4));
  Value start = t.add(t.mul(part, shape.partDepth), t.mul(t.rem(lane, 4), kLaneDepth));
  Value base = t.add(t.mul(row, stride), start);
  // Products that wait for each other take five times as long as others.
  int64_t sums = shape.tiles * blocksOfRows, chains = sums < kChains && pairs > 1 ? 2 : 1;
  totals.assign(sums * chains, Values(4, t.f32(0)));
  int64_t asked = shape.layout.grid ? vectorsFromL2() : kVectorsFromShared;
  int64_t together = std::max<int64_t>(1, asked / blocksOfRows);
  for (int64_t first = 0; first < pairs; first += together) {
    int64_t end = std::min(pairs, first + together);
    SmallVector<Values> vectors;
    Values elements;
    for (int64_t pair = first; pair < end; ++pair) {
      for (int64_t n = 0; n < blocksOfRows; ++n) {
        elements.push_back(t.add(base, n * kMmaColumns * stride + pair * kPairDepth));
      }
    }
    if (shape.layout.grid) {
      looks = loadStates(t, state, elements, looks, vectors);
      t.warpBarrier();
    } else {
      for (Value element : elements) {
        vectors.push_back(loadShared(t, t.offset(state, shape.element, element)));
      }
    }
    for (int64_t pair = first; pair < end; ++pair) {
      for (int64_t half = 0; half < 2; ++half) {
        for (int64_t own = 0; own < shape.tiles; ++own) {
          Values a = fragmentOfA(t, (own * pairs + pair) * 2 + half);
          for (int64_t n = 0; n < blocksOfRows; ++n) {
            ArrayRef<Value> b =
                ArrayRef(vectors[(pair - first) * blocksOfRows + n]).slice(2 * half, 2);
            Values &total = totals[half % chains * sums + own * blocksOfRows + n];
            total = multiply(t, shape.element, a, b, total);
          }
        }
      }
    }
  }
  for (int64_t sum = 0; sum < sums && chains > 1; ++sum) {
    for (int64_t i = 0; i < 4; ++i) {
      totals[sum][i] = t.addF(totals[sum][i], totals[sums + sum][i]);
    }
  }
  totals.truncate(sums);
  return looks;
}

/// Of halves, to where the gates are computed.
void PersistentKernel::storeTotals(const ThreadBuilder &t, ArrayRef<Values> totals) const {
  if (totals.empty()) {
    return;
  }
  int64_t blocksOfRows = shape.chunk / kMmaColumns;
  Value column = t.add(t.mul(group, shape.tiles * kMmaRows), t.div(lane, 4));
  Value rowOfLane = t.mul(t.rem(lane, 4), 2);
  for (int64_t own = 0; own < shape.tiles; ++own) {
    for (int64_t n = 0; n < blocksOfRows; ++n) {
      for (int64_t i = 0; i < 4; ++i) {
        storeSum(t, totals[own * blocksOfRows + n][i], t.add(rowOfLane, n * kMmaColumns + i % 2),
                 t.add(column, own * kMmaRows + i / 2 * 8));
      }
    }
  }
}

Value PersistentKernel::multiplyFloats(const ThreadBuilder &t, Value state, Value chunkRow,
                                       Value looks) const {
  constexpr int64_t lanes = 4;
  int64_t stride = shape.stateStride();
  Value from =
      t.offset(state, shape.element, t.add(t.mul(chunkRow, stride), t.mul(part, shape.partDepth)));
  if (shape.layout.grid) {
    // A copy of the warp's part of the rows, which its lanes then read all together.
    stride = shape.partDepth;
    from = t.offset(staged, shape.element, t.mul(warp, shape.chunk * shape.partDepth));
    int64_t ofRow = shape.partDepth / lanes;
    Value source = t.mul(chunkRow, shape.depth), start = t.mul(part, shape.partDepth);
    t.warpBarrier();
    int64_t vectors = shape.chunk * ofRow, asked = vectorsFromL2() * kWarp;
    for (int64_t first = 0; first < vectors; first += asked) {
      SmallVector<Values> loaded;
      Values places, elements;
      for (int64_t own = first; own < std::min(vectors, first + asked); own += kWarp) {
        // Threads behind the last vector copy that too.
        Value at = t.min(t.add(lane, own), t.i32(vectors - 1));
        Value k = t.add(start, t.mul(t.rem(at, ofRow), lanes));
        places.push_back(at);
        elements.push_back(t.add(t.add(source, t.mul(t.div(at, ofRow), shape.depth)), k));
      }
      looks = loadStates(t, state, elements, looks, loaded);
      for (auto [at, words] : llvm::zip_equal(places, loaded)) {
        Value vector = t.pack(words);
        t.store(vector, t.offset(from, vector.getType(), at), 16);
      }
    }
    t.warpBarrier();
  }
  Value half = t.div(lane, 16);
  from = t.offset(from, shape.element, t.mul(half, shape.partDepth / 2));
  Values totals(shape.tiles * shape.chunk, t.f32(0));
  // Of four elements of the depth, whose weights are [element][tile].
  auto addVector = [&](const ThreadBuilder &b, Value depth, ArrayRef<Value> factors,
                       Values &result) {
    for (int64_t row = 0; row < shape.chunk; ++row) {
      Value at = b.offset(from, shape.element, b.add(depth, row * stride));
      Value vector = b.load(b.vectorType(lanes, b.f32Type()), at, 16);
      for (int64_t i = 0; i < lanes; ++i) {
        Value factor = b.extract(vector, i);
        for (int64_t own = 0; own < shape.tiles; ++own) {
          Value &total = result[own * shape.chunk + row];
          total = b.fma(factors[i * shape.tiles + own], factor, total);
        }
      }
    }
  };
  int64_t words = lanes * shape.tiles;
  for (int64_t word = 0; word < shape.held; word += words) {
    addVector(t, t.i32(word / shape.tiles), ArrayRef(held).slice(word, words), totals);
  }
  // What a thread asks for together, of shared memory and of the L2.
  auto addRest = [&](int64_t begin, int64_t count, int64_t together, bool isKept) {
    together = count % (together * words) == 0 ? together : 1;
    totals = t.loop(t.i32(begin), t.i32(begin + count), t.i32(together * words), totals,
                    [&](const ThreadBuilder &b, Value number, ValueRange now) -> Values {
                      Values factors, result(now);
                      for (int64_t word = 0; word < together * words; ++word) {
                        Value at = b.add(number, word);
                        Value kept =
                            isKept ? b.load(b.f32Type(), keptWord(b, b.add(at, -shape.held)), 4)
                                   : weightWord(b, at);
                        factors.push_back(kept);
                      }
                      for (int64_t i = 0; i < together; ++i) {
                        Value depth = b.add(b.div(number, shape.tiles), i * lanes);
                        addVector(b, depth, ArrayRef(factors).slice(i * words, words), result);
                      }
                      return result;
                    });
  };
  addRest(shape.held, shape.kept, 1, true);
  addRest(shape.held + shape.kept, shape.streamed, std::max<int64_t>(1, kStreamedWords / words),
          false);
  Value column = t.add(t.mul(group, shape.tiles * PersistentShape::kTile), t.rem(lane, 16));
  for (int64_t own = 0; own < shape.tiles; ++own) {
    for (int64_t row = 0; row < shape.chunk; row += 2) {
      auto total = [&](int64_t at) {
        Value &one = totals[own * shape.chunk + at];
        return t.addF(one, t.shuffleXor(one, 16));
      };
      // Each half of the warp stores one of two rows.
      Value even = total(row), odd = total(row + 1);
      Value sum = t.select(t.isEqual(half, t.i32(0)), even, odd);
      storeSum(t, sum, t.add(half, row), t.add(column, own * PersistentShape::kTile));
    }
  }
  return looks;
}

} // namespace tenon::codegen::cuda
