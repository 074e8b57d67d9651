// Rows that a block reduces and stores side by side: what all rows read is read once for them, and
// blocks that start when others end keep memory busy. Relies on one round for all reductions.
#include "compiler/codegen/cuda/rows/RowsStaged.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {

void StagedRows::emitTogether(ThreadCombiner &threads, const Round &round, const Groups &all) {
  int64_t count = layout.groupsPerBlock;
  std::optional<int64_t> known = tn::constantDim(groupCount());
  bool hasRest = !known || *known % count != 0;
  SmallVector<Index> places;
  SmallVector<Value> areThere;
  for (int64_t i = 0; i < count; ++i) {
    Index group = math.add(all.first, Index::constant(i));
    areThere.push_back(isThere(all, group));
    places.push_back(hasRest ? emitter.atMost(group, all.end) : group);
    copy(places[i], areThere[i], i32(i));
  }
  holdParameters();
  copyPointers();
  std::vector<Place> rows;
  for (int64_t i = 0; i < count; ++i) {
    expectRows(count - 1 - i);
    currentStage = i32(i);
    placeIn(places[i]);
    rows.push_back(here());
    threads.send(reduceOfWarp(threads, round), Value());
  }
  SmallVector<Accumulators> results;
  for (int64_t i = 0; i < count; ++i) {
    results.push_back(threads.receive(round, Value()));
  }
  auto eachRow = [&](llvm::function_ref<void()> body) {
    for (int64_t i = 0; i < count; ++i) {
      currentStage = i32(i);
      returnTo(rows[i]);
      holdResults(results[i]);
      emitter.when(hasRest ? areThere[i] : Value(), body);
    }
  };
  // Strip by strip, so that what the rows read is held for one strip only.
  for (int64_t step = 0; step < layout.steps && !work.wide.empty(); ++step) {
    eachRow([&] { emitter.when(isRow, [&] { storeStrip(step); }); });
  }
  eachRow([&] { storeNarrow(); });
}

} // namespace tenon::codegen::cuda
