// A step: warps multiply their parts of the state with the weights that they hold, sums of all
// parts meet in shared memory (or are whole in a warp), threads compute the gates and send the new
// state to all other blocks. Relies on two states taking turns.
#include "compiler/codegen/cuda/recurrent/PersistentKernel.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

} // namespace

/// `carried` is the chunk's inputs and the looks; returns those of the chunk that `following` loads
/// the inputs of, which are on their way while the blocks exchange states and multiply them.
Values PersistentKernel::runChunk(const ThreadBuilder &t, Value number, Value chunkRow,
                                  ValueRange carried, function_ref<Values()> following) const {
  Value state = stateOf(t, number);
  Totals totals;
  Value looks = shape.isHalf ? multiplyHalves(t, state, chunkRow, carried.back(), totals)
                             : multiplyFloats(t, state, chunkRow, carried.back());
  if (!shape.isDirect) {
    storeTotals(t, totals);
    t.barrier();
  }
  Words words = computeGates(t, number, chunkRow, carried.drop_back(), totals);
  // Of a cluster all threads know by the bytes that arrive; where some send none, they wait.
  bool isAwaited = shape.chunks() == 1 && isCluster();
  if (!isAwaited || (shape.isDirect && isThere(t, elementAt(t, chunkRow, 0)))) {
    t.barrier();
  }
  Values next = following();
  next.push_back(looks);
  writeStates(t, number, words);
  return next;
}

/// All steps of rows that are one chunk; returns the looks that are left. In a block alone a step
/// is shorter than the way of its inputs: two steps' are asked for together, two steps before.
/// Apart the first would wait for the second, as a thread waits for all that it has asked for.
Value PersistentKernel::runWhole(const ThreadBuilder &t, Value looks) const {
  int64_t turns = shape.layout.blocks == 1 ? 2 : 1, inputs = shape.gates * shape.elements();
  auto loadTurns = [&](const ThreadBuilder &b, Value first) {
    Values loaded;
    for (int64_t turn = 0; turn < turns; ++turn) {
      loaded.append(loadInputs(b, b.add(first, turn), b.i32(0)));
    }
    return loaded;
  };
  Values carried = loadTurns(t, t.i64(0));
  carried.push_back(looks);
  auto run = [&](const ThreadBuilder &b, Value first, ValueRange now) -> Values {
    Values ahead = turns > 1 ? loadTurns(b, b.add(first, turns)) : Values();
    Value looks = now.back();
    for (int64_t turn = 0; turn < turns; ++turn) {
      Values own(now.slice(turn * inputs, inputs));
      own.push_back(looks);
      Value number = b.add(first, turn);
      auto runTurn = [&](const ThreadBuilder &c) -> Values {
        Values next = runChunk(c, number, c.i32(0), own, [&] {
          return turns > 1 ? Values() : loadInputs(c, c.add(number, 1), c.i32(0));
        });
        if (isCluster()) {
          awaitState(c, c.add(number, 1));
        }
        orderMarks(c);
        return next;
      };
      auto skip = [&](const ThreadBuilder &) -> Values { return {looks}; };
      Values next = turn == 0 ? runTurn(b) : b.choose(b.isLess(number, steps), runTurn, skip);
      looks = next.pop_back_val();
      ahead.append(next);
    }
    ahead.push_back(looks);
    return ahead;
  };
  return t.loop(t.i64(0), steps, t.i64(turns), carried, run).back();
}

/// Returns the looks that are left.
Value PersistentKernel::runSteps(const ThreadBuilder &t, Value looks) const {
  if (shape.chunks() == 1) {
    return runWhole(t, looks);
  }
  Value used = usedRows(t);
  Values carried = loadInputs(t, t.i64(0), t.i32(0));
  carried.push_back(looks);
  auto runRows = [&](const ThreadBuilder &b, Value number, ValueRange now) -> Values {
    Values next = b.loop(b.i32(0), used, b.i32(shape.chunk), now,
                         [&](const ThreadBuilder &c, Value chunkRow, ValueRange own) -> Values {
                           return runChunk(c, number, chunkRow, own, [&] {
                             Value following = c.add(chunkRow, shape.chunk);
                             Value isLast = c.isEqual(following, used);
                             return loadInputs(c, c.select(isLast, c.add(number, 1), number),
                                               c.select(isLast, c.i32(0), following));
                           });
                         });
    if (isCluster()) {
      awaitState(b, b.add(number, 1));
    }
    orderMarks(b);
    return next;
  };
  return t.loop(t.i64(0), steps, t.i64(1), carried, runRows).back();
}

} // namespace tenon::codegen::cuda
