// Attention of many rows on sm_90a: one block a processor goes from head to head. A warp of it
// copies keys, values and masks of the heads to come into a ring of tiles, three warpgroups do 64
// queries each with those of their head. Relies on Warpgroup.h for products, AsyncCopy.h for copies
// and barriers.
//
// A head's keys and values come into a processor once, however many queries it has: blocks of 64
// queries that each copy them take twice their bytes from the second-level cache that it gives in
// the time of the products.
#pragma once

#include "compiler/codegen/cuda/attention/AttentionKernels.h"
#include "compiler/codegen/cuda/attention/Tuning.h"
#include "compiler/codegen/cuda/base/AsyncCopy.h"
#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"

namespace tenon::codegen::cuda {

using tuning::kStreamGroups;

/// The rows of [batch, head, row, column] as rows of a matrix that begins where its buffer does.
struct StreamMatrix {
  mlir::AffineExpr rows;
  int64_t columns = 0, rowElements = 0;
  int64_t firstRow = 0, rowsOfBatch = 0, rowsOfHead = 0, firstColumn = 0, columnsOfHead = 0;
};

struct StreamLayout {
  int64_t heads = 0;                         ///< of queries: a guess where batches vary
  int64_t headsOfBatch = 0, headsOfKeys = 0; ///< those that share keys
  int64_t queries = 0, keys = 0;
  StreamMatrix q, k, v, y;
  int64_t tileKeys = 0; ///< of a tile of the ring: a multiple of 16
  int64_t stages = 0;   ///< of the ring: tiles of keys and of values in turn
  int64_t blocks = 0;
  bool isSmallResult = true; ///< 32 bits count its elements
  bool isPingPong = false;   ///< the warpgroups begin products one after the other

  int64_t tiles() const { return (keys + tileKeys - 1) / tileKeys; } ///< of a head's keys
  int64_t lastKeys() const { return keys - (tiles() - 1) * tileKeys; }
  /// Of scores, in the last tile: those behind its keys are hidden.
  int64_t lastColumns() const { return llvm::alignTo(lastKeys(), 16); }
  bool hasTail() const { return lastKeys() != lastColumns(); }
  /// Whether the last tile is not like the others.
  bool endsAlone() const { return lastColumns() != tileKeys || hasTail(); }
  /// Blocks of 64 queries of a head.
  int64_t units() const { return (queries + kGroupRows - 1) / kGroupRows; }
  int64_t tileBytes() const { return tileKeys * kTileColumns * 2; }
};

template <typename Visitor> void visitParameters(Visitor &visit, StreamLayout &layout) {
  visit("keys", layout.tileKeys);
  visit("stages", layout.stages);
  visit("blocks", layout.blocks);
  visit("ping_pong", layout.isPingPong);
}

class StreamKernel {
public:
  using Value = mlir::Value;
  using Values = ThreadBuilder::Values;

  StreamKernel(KernelFrame &frame, const AttentionProblem &problem, const StreamLayout &layout)
      : frame(frame), p(problem), l(layout), element(problem.q.element) {}

  void emit();
  int64_t sharedBytes() const;

private:
  /// A stage of the ring, and the phase parity.
  struct PipelineState {
    Value stage, parity;

    Values values() const { return {stage, parity}; }
    static PipelineState of(mlir::ValueRange values) { return {values[0], values[1]}; }
  };
  /// 64 queries of a head: a warpgroup's work from start to store.
  struct Unit {
    Value head, index;   ///< of its queries in the head
    Value count;         ///< of this warpgroup's units before it
    Value isLast;        ///< of this warpgroup's of the head
    Value queries;       ///< in shared memory
    PipelineState first; ///< of the head's first tile
  };
  /// What a thread carries from tile to tile of keys: its accumulators, of its two rows the maximum
  /// and its own part of the sum of probabilities, and those that are not in the accumulators: with
  /// values of which stage they will be.
  struct State {
    PipelineState keys;
    Values accumulators, maxima, totals, words;

    Values values() const;
    static State of(mlir::ValueRange values);
  };

  /// Where a head's first row begins in a matrix.
  struct Corner {
    Value row, column;
  };

  int64_t queriesOffset() const { return l.stages * l.tileBytes(); }
  int64_t maskOffset() const;
  int64_t marksOffset() const;
  int64_t barriersOffset() const;
  void place(const ThreadBuilder &t);
  void clearTails(const ThreadBuilder &t) const;
  Value orderBarrier(const ThreadBuilder &t, Value group) const;
  Value bytesAt(const ThreadBuilder &t, int64_t offset) const;
  Value tileAt(const ThreadBuilder &t, Value stage) const;
  Value full(const ThreadBuilder &t, Value stage) const;
  Value empty(const ThreadBuilder &t, Value stage) const;
  Value queriesAt(const ThreadBuilder &t, Value buffer) const;
  Value queriesFull(const ThreadBuilder &t, Value buffer) const;
  Value maskAt(const ThreadBuilder &t, Value stage) const;
  Value markAt(const ThreadBuilder &t, Value stage) const;
  Corner cornerOf(const ThreadBuilder &t, const StreamMatrix &matrix, Value head,
                  int64_t sharing) const;
  PipelineState advance(const ThreadBuilder &t, const PipelineState &state, int64_t stages) const;
  PipelineState advance(const ThreadBuilder &t, const PipelineState &state, Value stages) const;
  Values forHeads(const ThreadBuilder &t, mlir::ValueRange inits, ThreadBuilder::LoopBody body);

  // The warp that copies.
  void copyHeads(const ThreadBuilder &t);
  void copyStage(const ThreadBuilder &t, Value head, Value tile, const PipelineState &state,
                 bool isValues);
  void copyMask(const ThreadBuilder &t, Value head, Value tile, const PipelineState &state);

  // The warpgroups that multiply (AttentionStreamStep.cpp).
  void multiplyHeads(const ThreadBuilder &t);
  void passHead(const ThreadBuilder &t, const PipelineState &first) const;
  void copyQueries(const ThreadBuilder &t, Value head, Value unit, Value count) const;
  void askForNext(const ThreadBuilder &t, const Unit &unit) const;
  void orderEnd(const ThreadBuilder &t, Value done) const;
  void orderWait(const ThreadBuilder &t, const Unit &unit, Value number) const;
  void orderArrive(const ThreadBuilder &t) const;
  void doUnit(const ThreadBuilder &t, const Unit &unit);
  State firstTile(const ThreadBuilder &t, const Unit &unit) const;
  State nextTile(const ThreadBuilder &t, const Unit &unit, Value tile, bool isLast,
                 const State &before) const;
  void lastValues(const ThreadBuilder &t, const Unit &unit, State &state) const;
  void release(const ThreadBuilder &t, const Unit &unit, Value stage) const;
  Values beginScores(const ThreadBuilder &t, const Unit &unit, Value stage, int64_t columns) const;
  Value markOf(const ThreadBuilder &t, const PipelineState &values) const;
  void addMask(const ThreadBuilder &t, Value stage, Value mark, Values &scores) const;
  void hide(const ThreadBuilder &t, Values &scores) const;
  Values exponentiate(const ThreadBuilder &t, Values &scores, State &state) const;
  Values packed(const ThreadBuilder &t, const Values &probabilities) const;
  Value codesOf(const ThreadBuilder &t, mlir::ArrayRef<Value> pairs) const;
  void store(const ThreadBuilder &t, const Unit &unit, State &state);

  KernelFrame &frame;
  const AttentionProblem &p;
  const StreamLayout &l;
  mlir::Type element;
  Value heads, shared, thread, group; ///< group: of the warpgroups that multiply, from 0
  Value isFirst;                      ///< of its warpgroup
  Value qMap, kMap, vMap, kLastMap, vLastMap;
};

/// The layout for problems that this form can do.
std::optional<StreamLayout> streamLayout(const AttentionProblem &problem,
                                         const target::Target &gpu);
/// Whether all warpgroups have work in each head, and a ring that lets one be a tile ahead of
/// others: else one that waits for a tile would keep products from those that release its stage.
bool canPingPong(const StreamLayout &layout);
/// Whether it is faster than blocks of 64 queries: there are so many heads that processors which do
/// whole ones have little to wait for.
bool isFasterStreamed(const StreamLayout &layout, const target::Target &gpu);
void emitStreamAttention(RegionBuilder &region, const AttentionProblem &problem,
                         const StreamLayout &layout);

} // namespace tenon::codegen::cuda
