// From accumulators to the result: the warpgroup that made them hands them over, other warps take
// them through the region's elementwise ops, eight neighbours of a row a thread. Relies on
// Warpgroup.h for which accumulators a thread has, and on rows of the result being whole boxes.
#include "compiler/codegen/cuda/gemm/PersistentGemm.h"

#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/gemm/EpilogueStore.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

namespace {

/// Elements that a thread finishes at once: 16 bytes, an eighth of a box's row.
constexpr int64_t kNeighbours = 8, kThreadsOfRow = kTileColumns / kNeighbours;
/// A unit, which a warp finishes in one go: so many rows of a box, in pieces of fewer.
constexpr int64_t kUnitRows = 16, kPieceRows = kWarp / kThreadsOfRow;
constexpr int64_t kPieces = kUnitRows / kPieceRows;
constexpr int64_t kUnitsOfBox = kGroupRows / kUnitRows;
constexpr int64_t kUnits = kLargeColumns / kTileColumns * kUnitsOfBox;
constexpr int64_t kBoxElements = kGroupRows * kTileColumns;

} // namespace

void PersistentGemm::storeAccumulators(const ThreadBuilder &t, ArrayRef<Value> accumulators) const {
  TileSpot spot = rowsFirst(t);
  Value warp = t.div(t.rem(thread, kWarpgroup), kWarp);
  Value row = t.add(t.mul(warp, kMmaRows), spot.row), chunk = t.div(spot.column, 8);
  Value tile = exchangedTile(t, warpgroup);
  for (size_t i = 0; i < accumulators.size(); i += 8) {
    int64_t group = i / 4;
    Value at = tileOffset(t, row, t.add(chunk, group % kThreadsOfRow));
    int64_t fixed = group / kThreadsOfRow * kBoxElements;
    Values words;
    auto scaled = [&](Value sum) { return p.factor == 1 ? sum : t.mulF(sum, t.f32(p.factor)); };
    for (size_t word = i; word < i + 8; word += 2) {
      words.push_back(
          t.packPair(p.sum, scaled(accumulators[word]), scaled(accumulators[word + 1])));
    }
    storeMatrices(t, t.offset(t.offset(tile, p.sum, at), p.sum, fixed), words);
  }
}

/// Unit `unit` of a warpgroup's half of a tile: strips of rows that follow each other.
void PersistentGemm::finishUnit(const ThreadBuilder &t, const Corner &corner, Value group,
                                Value unit) {
  IndexMath &math = kernel.math;
  Value lane = t.lane(), box = t.div(unit, kUnitsOfBox), chunk = t.rem(lane, kThreadsOfRow);
  Value inHalf = t.add(t.mul(t.rem(unit, kUnitsOfBox), kUnitRows), t.div(lane, kThreadsOfRow));
  Value row = t.add(t.add(corner.row, t.mul(group, kGroupRows)), inHalf);
  Value column = t.add(t.mul(box, kTileColumns), t.mul(chunk, kNeighbours));
  Index columnIndex = math.fromWord(t.add(corner.column, column), kNeighbours);
  Value tile = t.offset(exchangedTile(t, group), p.sum, t.mul(box, kBoxElements));
  bool hasTail = !p.rowCount.isMultipleOf(kLargeRows);
  Index first = math.fromWord(row);
  SmallVector<ResultStrip> strips(kPieces);
  Values handed; ///< pointers
  for (auto [i, strip] : llvm::enumerate(strips)) {
    int64_t below = int64_t(i) * kPieceRows;
    // Tiles are laid out alike every eight rows.
    handed.push_back(below < 8 ? t.offset(tile, p.sum, tileOffset(t, t.add(inHalf, below), chunk))
                               : t.offset(handed[i - 8 / kPieceRows], p.sum, 8 * kTileColumns));
    Index number = math.add(first, Index::constant(below));
    if (hasTail) {
      // Rows that do not exist compute something of the last one.
      Value own = t.add(row, below);
      strip.isStored = t.isLess(own, rowCount);
      number = math.fromWord(t.min(own, t.sub(rowCount, t.i32(1))));
    }
    strip.readsLinear = false;
    strip.linear = math.add(math.multiply(number, Index::constant(p.columns)), columnIndex);
    strip.place = math.delinearize(number, kernel.sizes(p.rowDims));
    strip.place.push_back(columnIndex);
  }
  for (auto [strip, pointer] : llvm::zip(strips, handed)) {
    Value vector = t.load(t.vectorType(kNeighbours, p.sum), pointer, 16);
    for (int64_t i = 0; i < kNeighbours; ++i) {
      strip.accumulators.push_back(t.toF32(t.extract(vector, i)));
    }
  }
  storeThroughEpilogue(emitter, tensors, strips);
}

/// The warp's units of what one warpgroup has handed over.
void PersistentGemm::finishHalf(const ThreadBuilder &t, const Corner &corner, Value group,
                                Value parity) {
  // Units are numbered on from the other half's, and dealt in turn.
  Value number = t.sub(t.div(thread, kWarp), t.i32(1));
  Value first = t.rem(t.add(number, t.mul(group, kUnits * (kFinishWarps - 1))), kFinishWarps);
  waitForPhase(t, accumulatorsFull(t, group), parity);
  t.loop(first, t.i32(kUnits), t.i32(kFinishWarps), {},
         [&](const ThreadBuilder &c, Value unit, ValueRange) -> Values {
           emitter.openScope();
           finishUnit(c, corner, group, unit);
           emitter.closeScope();
           return {};
         });
  arrive(t, accumulatorsEmpty(t, group));
}

void PersistentGemm::finishTiles(const ThreadBuilder &t) {
  forTiles(t, t.i32(0), [&](const ThreadBuilder &c, Value tile, ValueRange parity) {
    Corner corner = cornerOf(c, tile);
    c.loop(c.i32(0), c.i32(kGroups), c.i32(1), {},
           [&](const ThreadBuilder &d, Value group, ValueRange) -> Values {
             finishHalf(d, corner, group, parity[0]);
             return {};
           });
    return Values{c.sub(c.i32(1), parity[0])};
  });
}

} // namespace tenon::codegen::cuda
