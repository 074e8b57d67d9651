// The flash form of attention on tensor cores, for one block: queries stay in registers, keys and
// values go through two stages of shared memory, and a warp's scores become the left operand of its
// product with V without leaving registers. Relies on TensorCore.h for the layout of fragments.
#pragma once

#include "compiler/codegen/cuda/attention/AttentionKernels.h"
#include "compiler/codegen/cuda/attention/Tuning.h"
#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/TensorCore.h"

namespace tenon::codegen::cuda {

/// What the flash form's block has in shared memory: the stages, a number a warp, and behind them
/// the accumulators of the warps that share rows, or a warpgroup's queries and mask.
class FlashShape {
public:
  FlashShape(const AttentionProblem &problem, const AttentionTile &tile)
      : p(problem), tile(tile), width(*tn::constantDim(p.width)),
        allValues(*tn::constantDim(p.valueWidth)),
        valueParts(tile.isWarpgroup ? 1 : llvm::divideCeilSigned(allValues, tuning::kPartColumns)),
        valueWidth(llvm::alignTo(llvm::divideCeil(allValues, valueParts), 8)),
        depthSteps((width + 15) / 16), valueSteps((valueWidth + 15) / 16),
        keyPitch(depthSteps * 16 + padding()), valuePitch(valueSteps * 16 + padding()),
        warpKeys(tile.keys / tile.keyWarps) {}

  /// Rows of a block's head: queries, of all heads that share keys if they are joined.
  mlir::AffineExpr rowCount() const;
  /// Blocks of rows of a head, of a batch or of all sequences.
  mlir::AffineExpr rowBlockCount() const;
  /// Blocks that do the same scores, each for a part of the columns of V: the registers of a thread
  /// hold no more accumulators. The last part may begin before the one before it ends.
  int64_t columnParts() const { return valueParts; }
  int64_t sharedBytes() const {
    if (tile.isParts) {
      return partsOffset() + slots() * kMmaRows * (slotPitch() + 2) * 4;
    }
    if (tile.keyWarps == 1) {
      return partsOffset() + groupBytes();
    }
    return partsOffset() + tile.keyWarps * (tile.isClustered ? tile.splits * placePitch() * 16
                                                             : partRows() * (sumPitch() + 2) * 4);
  }

protected:
  /// Places (two columns of a row) that a block of a cluster adds up, and how far apart what it
  /// gets from two warps lies: an odd number, so that it is in different banks.
  int64_t share() const { return llvm::divideCeil(partRows() * valueWidth / 2, tile.splits); }
  int64_t placePitch() const { return share() / 2 * 2 + 1; }
  /// Elements between rows in shared memory; warpgroups have tiles without any.
  int64_t padding() const { return tile.isWarpgroup ? 0 : kRowPadding / 2; }
  int64_t stageElements() const {
    return tile.keys * (keyPitch + valuePitch) + tile.rows() * maskPitch();
  }
  /// Keys of a step, and of a part.
  int64_t stepKeys() const { return tile.isParts ? warpKeys : tile.keys; }
  /// Tiles that are under way behind the one that is worked on.
  int64_t tilesAhead() const { return tile.stages - (tile.overlaps ? 2 : 1); }
  // Where tile.isParts: the parts of a round, pairs of columns of V that a block brings together,
  // and floats between rows of these.
  static constexpr int64_t kMmaRows = 16;
  int64_t slots() const { return tile.keyWarps * tile.splits; }
  int64_t ownPairs() const { return llvm::divideCeil(valueWidth / 2, tile.splits); }
  int64_t slotPitch() const { return ownPairs() * 2 + (ownPairs() % 16 == 0 ? 8 : 0); }
  int64_t sumPitch() const { return valueSteps * 16 + 8; }
  int64_t marksOffset() const { return tile.stages * stageElements() * 2; }
  int64_t partsOffset() const {
    return marksOffset() + (tile.threads() / kWarp * 4 + 15) / 16 * 16;
  }
  /// Rows of a block that warps or blocks share, without those that no block has.
  int64_t partRows() const;
  int64_t group() const;
  // Where tile.isWarpgroup (AttentionFlashWarpgroup.cpp).
  bool keepsMask() const;
  bool stagesMask() const;
  int64_t maskPitch() const;
  int64_t maskLanes() const;
  int64_t groupBytes() const;

  const AttentionProblem &p;
  const AttentionTile &tile;
  int64_t width;
  int64_t allValues, valueParts, valueWidth; ///< columns of V, and of them those of a block
  int64_t depthSteps, valueSteps;
  int64_t keyPitch, valuePitch; ///< elements between rows in shared memory
  int64_t warpKeys;
};

class FlashKernel : private FlashShape {
public:
  using FlashShape::columnParts;
  using FlashShape::rowBlockCount;
  using FlashShape::rowCount;
  using FlashShape::sharedBytes;
  using Value = mlir::Value;
  using Type = mlir::Type;
  using Values = ThreadBuilder::Values;
  template <typename T> using List = llvm::SmallVector<T>;

  FlashKernel(KernelFrame &frame, const AttentionProblem &problem, const AttentionTile &tile)
      : FlashShape(problem, tile), frame(frame), element(p.q.element),
        half(mlir::IntegerType::get(element.getContext(), 16)) {}

  void emit();

private:
  /// What a thread carries from tile to tile of keys, by row tile: accumulators of 16 x 8 columns,
  /// and for each of its two rows the maximum and its own part of the sum of probabilities.
  struct State {
    List<List<Values>> accumulators;
    List<Values> maxima, totals;
    Values words; ///< probabilities whose product with values is not in the accumulators yet
  };
  /// One of the thread's rows.
  struct Row {
    Value valid, head, query;
    Value keyLimit;    ///< keys before it are seen
    Value firstKey;    ///< and with a window those from it on
    Value maskPointer; ///< of key 0, or null
  };
  /// Neighbouring elements of the mask, and the key behind them.
  struct MaskPiece {
    Value values, end;
  };
  /// A row's parts, of the warps and blocks that share its keys: where their columns lie.
  struct RowParts {
    Values columns, weights;
    Value maximum, total;
  };

  State initialState(const ThreadBuilder &t) const;
  Values flatten(const State &state) const;
  State unflatten(mlir::ValueRange values) const;

  void placeBlock(const ThreadBuilder &t);
  void placeSequence(const ThreadBuilder &t);
  void clearRows(const ThreadBuilder &t) const;
  void waitAndLaunch();
  void placeRows(const ThreadBuilder &t);
  void findTiles(const ThreadBuilder &t);
  void limitRows(const ThreadBuilder &t);
  bool findsTilesLate() const { return p.start && p.window == 0; }
  bool endsInTile() const { return p.sequences || !p.keys.isMultipleOf(tile.keys); }
  Values pagesOfTile(const ThreadBuilder &t, Value firstKey) const;
  Value placeInPage(const ThreadBuilder &t, const StridedTensor &tensor, const Values &pages,
                    Value firstKey, Value row, int64_t first, int64_t rowsPerStep) const;
  List<MaskPiece> firstPieces(const ThreadBuilder &t) const;
  MaskPiece loadMask(const ThreadBuilder &t, Value first) const;
  Value seenEnd(const ThreadBuilder &t, const MaskPiece &piece, Value end) const;
  void endAtMask(const ThreadBuilder &t, llvm::ArrayRef<MaskPiece> pieces);
  Value rowPointer(const ThreadBuilder &t, unsigned position, const StridedTensor &tensor,
                   Value head, Value row);
  /// The same, of the block's columns of V or of the result.
  Value columnsPointer(const ThreadBuilder &t, unsigned position, const StridedTensor &tensor,
                       Value head, Value row);
  void loadQueries(const ThreadBuilder &t);
  void copyRows(const ThreadBuilder &t, Value pointer, const StridedTensor &tensor, Value firstKey,
                Value to, int64_t columns, int64_t pitch, const Values &pages) const;
  void copyTile(const ThreadBuilder &t, Value index) const;
  Value stageOf(const ThreadBuilder &t, Value index) const;
  void turnToTile(const ThreadBuilder &t, Value index) const;
  Values step(const ThreadBuilder &t, Value index, const State &before, bool isEdge) const;
  List<List<Values>> scores(const ThreadBuilder &t, Value stage) const;
  Values sharedMask(const ThreadBuilder &t, Value firstKey, bool isEdge) const;
  void finishScores(const ThreadBuilder &t, Value firstKey, bool isEdge, const Values &mask,
                    Value stage, List<List<Values>> &scores) const;
  Value maskAt(const ThreadBuilder &t, const Row &row, Value key, bool isEdge) const;
  List<Values> weigh(const ThreadBuilder &t, List<List<Values>> &scores, State &state) const;
  void scaleSums(const ThreadBuilder &t, const List<Values> &older, State &state) const;
  void addValues(const ThreadBuilder &t, Value stage, const List<List<Values>> &probabilities,
                 State &state) const;
  Values leftOperand(const ThreadBuilder &t, const List<Values> &probabilities,
                     int64_t firstKey) const;

  // Where tile.isWarpgroup (AttentionFlashWarpgroup.cpp).
  void copyGroupRows(const ThreadBuilder &t, Value pointer, const StridedTensor &tensor,
                     Value firstRow, int64_t count, Value end, Value to, int64_t columns,
                     const Values &pages = {}) const;
  void copyGroupTile(const ThreadBuilder &t, Value index) const;
  void copyGroupQueries(const ThreadBuilder &t);
  Value maskOf(const ThreadBuilder &t, Value stage) const;
  void copyMaskTile(const ThreadBuilder &t, Value firstKey, Value stage) const;
  Values maskPair(const ThreadBuilder &t, Value stage, int64_t part, int64_t column) const;
  Value keptMask(const ThreadBuilder &t) const;
  void keepMask(const ThreadBuilder &t) const;
  Values groupMask(const ThreadBuilder &t, Value firstKey) const;
  Value ownQueries(const ThreadBuilder &t) const;
  List<List<Values>> groupScores(const ThreadBuilder &t, Value stage) const;
  void addGroupValues(const ThreadBuilder &t, Value stage, const List<Values> &probabilities,
                      List<Values> &accumulators) const;
  Values groupWords(const ThreadBuilder &t, const List<Values> &probabilities) const;
  Values beginValues(const ThreadBuilder &t, Value index, const State &state) const;
  Values overlappedStep(const ThreadBuilder &t, Value index, const State &before, bool isEdge,
                        bool isFirst) const;
  Values lastValues(const ThreadBuilder &t, const State &before) const;

  // Parts of keys, each with sums of its own (AttentionFlashParts.cpp).
  void addPart(const ThreadBuilder &t, const State &part, State &state) const;
  void sumTotals(const ThreadBuilder &t, State &part) const;
  void doParts(const ThreadBuilder &t);
  void copyPart(const ThreadBuilder &t, Value part, const Values &pages, bool isKeys) const;
  void sendPart(const ThreadBuilder &t, const State &part) const;
  Values addSlots(const ThreadBuilder &t, Value place, Value count, mlir::ValueRange before) const;
  void meet(const ThreadBuilder &t) const;

  void storeRows(const ThreadBuilder &t, State &state);
  void shareParts(const ThreadBuilder &t, State &state);
  RowParts weighParts(const ThreadBuilder &t, Value row) const;
  void finish(const ThreadBuilder &t, RowParts &parts, llvm::ArrayRef<Value> totals,
              int64_t lanes) const;
  void mergeWarps(const ThreadBuilder &t);
  void sendParts(const ThreadBuilder &t, State &state);
  void mergeCluster(const ThreadBuilder &t);
  void storeMerged(const ThreadBuilder &t, Value row, Value column, const RowParts &parts,
                   Value low, Value high);

  KernelFrame &frame;
  Type element, half;

  Value shared, batch, blockHead, keyHead, split, rowBlock, firstRow, rows;
  Value queryCount, keyCount;                        ///< of the sequence, or all
  Value sequence, blockNumber;                       ///< of pages: its number, and the block's
  Value firstColumn;                                 ///< of V, or null if the block does all
  Value rowWarp, keyWarp, lane, laneRow, laneColumn; ///< g and 2 t
  Value start;                                       ///< position of the first query, where causal
  Value firstTile, fullEnd, tilesEnd;
  Value keyPointer, valuePointer;
  Value groupQueries;              ///< a warpgroup's, in shared memory
  Value maskRows;                  ///< of the head's mask, the first of them
  List<std::array<Row, 2>> placed; ///< by row tile
  List<List<Values>> queries;
};

/// Whether scores are bare products, with the scale in the exponent: no mask, and a positive scale.
bool foldsScale(const AttentionProblem &problem);

} // namespace tenon::codegen::cuda
