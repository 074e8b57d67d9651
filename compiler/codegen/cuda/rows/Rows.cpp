// Decides how rows are computed: copied ahead to shared memory, in registers, or in loops over
// them.
#include "compiler/codegen/cuda/rows/Rows.h"

#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/rows/Tuning.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::codegen::cuda {
dispatch::RowInfo infoOf(RegionBuilder &region, const RowsWork &work) {
  dispatch::RowInfo info;
  info.gpu = &region.gpu;
  info.length = tn::constantDim(tn::elementCount(region.source.getContext(), work.inner));
  info.rows = region.estimate(work.rows);
  for (Value input : work.inputs) {
    info.inputs.push_back(byteSize(getElementTypeOrSelf(input)));
  }
  for (const Root &root : work.wide) {
    info.results.push_back(byteSize(getElementTypeOrSelf(root.tensor)));
  }
  info.parameters = work.parameters.size();
  return info;
}

namespace {

constexpr llvm::StringLiteral kNoRows =
    "its results do not share rows with reductions over all of a row";

using FindLayout = std::optional<RowReductionConfig> (*)(const dispatch::RowInfo &);

/// A family whose layout dispatch also knows.
FamilyMatch matchLayout(RegionBuilder &region, StringRef family, FindLayout find, StringRef taken,
                        StringRef refused) {
  std::optional<RowsWork> work = findRowsWork(region);
  if (!work) {
    return FamilyMatch::refuse(kNoRows);
  }
  dispatch::RowInfo info = infoOf(region, *work);
  std::optional<RowReductionConfig> layout = find(info);
  if (!layout) {
    return FamilyMatch::refuse(refused);
  }
  layout->keepsReads = dispatch::keepsReads(info, *layout);
  return FamilyMatch::take(*work, dispatch::choiceOf(family, *layout), taken);
}

using EmitLayout = void (*)(RegionBuilder &, const RowsWork &, const RowReductionConfig &, bool &);

template <EmitLayout emitWork>
LogicalResult emitLayout(RegionBuilder &region, const RowsWork &work,
                         const dispatch::KernelChoice &choice) {
  bool hasFailed = false;
  emitWork(region, work, configOf<RowReductionConfig>(choice), hasFailed);
  return failure(hasFailed);
}

FamilyMatch matchStaged(RegionBuilder &region) {
  return matchLayout(region, kRowsStaged.name, dispatch::layoutStaged,
                     "so many rows that copying them ahead of their use keeps the memory busy",
                     "rows of varying length, or too few or too long to wait in shared memory");
}

FamilyMatch matchInRegisters(RegionBuilder &region) {
  return matchLayout(region, kRowsInRegisters.name, dispatch::layoutInRegisters,
                     "a row fits the registers of its threads",
                     "rows of varying length, or longer than the registers of a cluster");
}

FamilyMatch matchInLoops(RegionBuilder &region) {
  std::optional<RowsWork> work = findRowsWork(region);
  if (!work) {
    return FamilyMatch::refuse(kNoRows);
  }
  if (region.estimate(work->rows) < tuning::kFewRows &&
      region.estimate(work->inner) > tuning::kManyElements) {
    return FamilyMatch::refuse("rows so few and long that each is work for many blocks");
  }
  return FamilyMatch::take(*work, {kRowsInLoops.name.str(), {}}, "rows of any length, read again");
}

/// Waves of blocks of a row each, for which rows of the same length wait in registers elsewhere.
double loopsSeconds(RegionBuilder &region, const RowsWork &work, const dispatch::KernelChoice &) {
  dispatch::Cost cost = dispatch::costOfRegion(region.source.getBody().front(), region.gpu,
                                               /*isGenerated=*/true);
  double rows = double(region.estimate(work.rows));
  return cost.microseconds * 1e-6 +
         tuning::kLoopsRowSeconds * std::ceil(rows / double(region.gpu.cores));
}

LogicalResult emitInLoops(RegionBuilder &region, const RowsWork &work,
                          const dispatch::KernelChoice &) {
  bool hasFailed = false;
  emitRowsInLoops(region, work, hasFailed);
  return failure(hasFailed);
}

} // namespace

constexpr KernelFamily kRowsStaged = {
    .name = "rows_staged",
    .what =
        "fused row kernel (softmax, norms, reductions), persistent: the next rows come by cp.async "
        "while one is reduced",
    .strategies = {dispatch::kRows, dispatch::kSingle},
    .match = matchStaged,
    .emit = on<emitLayout<emitRowsStaged>>,
    .order = alongRows<RegionBuilder>};

constexpr KernelFamily kRowsInRegisters = {
    .name = "rows_registers",
    .what = "fused row kernel with rows in the registers of a warp, a block or a cluster",
    .strategies = {dispatch::kRows, dispatch::kSingle},
    .match = matchInRegisters,
    .emit = on<emitLayout<emitRowsInRegisters>>,
    .order = alongRows<RegionBuilder>};

constexpr KernelFamily kRowsInLoops = {
    .name = "rows_loops",
    .what = "fused row kernel, a block a row, that reads a row once for each reduction",
    .strategies = {dispatch::kRows, dispatch::kSingle},
    .match = matchInLoops,
    .seconds = on<loopsSeconds>,
    .emit = on<emitInLoops>,
    .order = alongRows<RegionBuilder>};

} // namespace tenon::codegen::cuda
