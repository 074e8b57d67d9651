// Decides how rows are computed: copied ahead to shared memory, in registers, or in loops over
// them.
#include "compiler/codegen/cuda/rows/Rows.h"

#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/rows/Tuning.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::codegen::cuda {
dispatch::RowFacts factsOf(RegionBuilder &region, const RowsWork &work) {
  dispatch::RowFacts facts;
  facts.gpu = &region.gpu;
  facts.length = tn::constantDim(tn::elementCount(region.source.getContext(), work.inner));
  facts.rows = region.estimate(work.rows);
  for (Value input : work.inputs) {
    facts.inputs.push_back(byteSize(getElementTypeOrSelf(input)));
  }
  for (const Root &root : work.wide) {
    facts.results.push_back(byteSize(getElementTypeOrSelf(root.tensor)));
  }
  facts.parameters = work.parameters.size();
  return facts;
}

namespace {

constexpr llvm::StringLiteral kNoRows =
    "its results do not share rows with reductions over all of a row";

using FindLayout = std::optional<RowReductionConfig> (*)(const dispatch::RowFacts &);

/// A family whose layout dispatch also knows.
Offer offerLayout(RegionBuilder &region, StringRef family, FindLayout find, StringRef taken,
                  StringRef refused) {
  std::optional<RowsWork> work = findRowsWork(region);
  if (!work) {
    return Offer::refuse(kNoRows);
  }
  dispatch::RowFacts facts = factsOf(region, *work);
  std::optional<RowReductionConfig> layout = find(facts);
  if (!layout) {
    return Offer::refuse(refused);
  }
  layout->keepsReads = dispatch::keepsReads(facts, *layout);
  return {dispatch::choiceOf(family, *layout), taken.str()};
}

using EmitLayout = void (*)(RegionBuilder &, const RowsWork &, const RowReductionConfig &, bool &);

template <EmitLayout emitWork>
LogicalResult emitLayout(RegionBuilder &region, const dispatch::KernelChoice &choice) {
  std::optional<RowsWork> work = findRowsWork(region);
  RowReductionConfig layout;
  bool hasFailed = !work || failed(readChoice(region, choice, layout));
  if (!hasFailed) {
    emitWork(region, *work, layout, hasFailed);
  }
  return failure(hasFailed);
}

Offer offerStaged(RegionBuilder &region) {
  return offerLayout(region, kRowsStaged.name, dispatch::layoutStaged,
                     "so many rows that copying them ahead of their use keeps the memory busy",
                     "rows of varying length, or too few or too long to wait in shared memory");
}

Offer offerInRegisters(RegionBuilder &region) {
  return offerLayout(region, kRowsInRegisters.name, dispatch::layoutInRegisters,
                     "a row fits the registers of its threads",
                     "rows of varying length, or longer than the registers of a cluster");
}

struct LoopsConfig {};
template <typename Visitor> void visitParameters(Visitor &, LoopsConfig &) {}

Offer offerInLoops(RegionBuilder &region) {
  std::optional<RowsWork> work = findRowsWork(region);
  if (!work) {
    return Offer::refuse(kNoRows);
  }
  if (region.estimate(work->rows) < tuning::kFewRows &&
      region.estimate(work->inner) > tuning::kManyElements) {
    return Offer::refuse("rows so few and long that each is work for many blocks");
  }
  return {dispatch::choiceOf(kRowsInLoops.name, LoopsConfig()), "rows of any length, read again"};
}

/// Blocks of a row each in turns, for which rows of the same length wait in registers elsewhere.
double loopsCost(RegionBuilder &region, const dispatch::KernelChoice &) {
  dispatch::Cost cost = dispatch::costOfRegion(region.source.getBody().front(), region.gpu,
                                               /*isGenerated=*/true);
  std::optional<RowsWork> work = findRowsWork(region);
  double rows = work ? double(region.estimate(work->rows)) : 0;
  return cost.microseconds * 1e-6 +
         tuning::kLoopsRowSeconds * std::ceil(rows / double(region.gpu.cores));
}

LogicalResult emitInLoops(RegionBuilder &region, const dispatch::KernelChoice &choice) {
  std::optional<RowsWork> work = findRowsWork(region);
  LoopsConfig config;
  bool hasFailed = !work || failed(readChoice(region, choice, config));
  if (!hasFailed) {
    emitRowsInLoops(region, *work, hasFailed);
  }
  return failure(hasFailed);
}

} // namespace

constexpr KernelFamily kRowsStaged = {
    .name = "rows_staged",
    .what =
        "fused row kernel (softmax, norms, reductions), persistent: the next rows come by cp.async "
        "while one is reduced",
    .strategies = {dispatch::kRows, dispatch::kSingle},
    .match = offerStaged,
    .configs = nullptr,
    .cost = nullptr,
    .emit = emitLayout<emitRowsStaged>};

constexpr KernelFamily kRowsInRegisters = {
    .name = "rows_registers",
    .what = "fused row kernel with rows in the registers of a warp, a block or a cluster",
    .strategies = {dispatch::kRows, dispatch::kSingle},
    .match = offerInRegisters,
    .configs = nullptr,
    .cost = nullptr,
    .emit = emitLayout<emitRowsInRegisters>};

constexpr KernelFamily kRowsInLoops = {
    .name = "rows_loops",
    .what = "fused row kernel, a block a row, that reads a row once for each reduction",
    .strategies = {dispatch::kRows, dispatch::kSingle},
    .match = offerInLoops,
    .configs = nullptr,
    .cost = loopsCost,
    .emit = emitInLoops};

} // namespace tenon::codegen::cuda
