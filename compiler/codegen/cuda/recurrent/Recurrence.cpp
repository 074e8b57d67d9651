// Recurrent layers as a kernel family: which it takes, and what they are predicted to take.
#include "compiler/codegen/common/math/RecurrentCell.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/recurrent/RecurrenceKernel.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

struct RecurrenceProblem {
  tn::RecurrenceOp op;
  RecurrenceLayout layout;
};

FamilyMatch matchRecurrence(RegionBuilder &region) {
  tn::RecurrenceOp op = recurrenceOf(region.source);
  if (!op) {
    return FamilyMatch::refuse("it is no recurrent layer");
  }
  RecurrenceLayout layout = layoutOf(region, op);
  if (sharedBytesOf(op, layout) > region.gpu.sharedBytes) {
    return FamilyMatch::refuse("its state does not fit into a block's shared memory");
  }
  return FamilyMatch::take(
      RecurrenceProblem{op, layout}, dispatch::choiceOf(kRecurrence.name, layout),
      isHeld(op, layout) ? "the weights stay in registers through all steps"
                         : "the weights are more than the registers of a cluster hold");
}

/// Rows of the batch run side by side, in as many waves as their clusters need.
double recurrenceSeconds(RegionBuilder &region, const RecurrenceProblem &problem,
                         const dispatch::KernelChoice &) {
  auto [op, layout] = problem;
  tn::Dims dims = tn::getDims(op.getInput().getType());
  double clusters = double(clustersAtOnce(region.gpu, layout.blocks));
  double waves = std::ceil(double(region.estimate(dims[1])) / clusters);
  double bytes = 0;
  if (!isHeld(op, layout)) {
    bytes = double(cast<RankedTensorType>(op.getWeights().getType()).getNumElements()) *
            double(byteSize(storageType(getElementTypeOrSelf(op.getInput()))));
  }
  double together = region.gpu.cacheBandwidth * double(layout.blocks) / double(region.gpu.cores);
  double fixed = layout.blocks == 1 ? tuning::kBlockStepSeconds : tuning::kStepSeconds;
  double oneStep = fixed + bytes / together;
  return waves * double(region.estimate(dims[0])) * oneStep + region.gpu.launchSeconds;
}

LogicalResult emitRecurrence(RegionBuilder &region, const RecurrenceProblem &problem,
                             const dispatch::KernelChoice &choice) {
  RecurrenceKernel(region, problem.op, configOf(choice, problem.layout)).emit();
  return success();
}

} // namespace

constexpr KernelFamily kRecurrence = {
    .name = "recurrence",
    .what =
        "recurrent layers: a cluster of blocks takes a row of the batch through all steps, each "
        "block a part of the hidden units, the weights in registers where they fit",
    .strategies = {dispatch::kSingle},
    .needs = {"recurrence"},
    .match = matchRecurrence,
    .seconds = on<recurrenceSeconds>,
    .emit = on<emitRecurrence>};

} // namespace tenon::codegen::cuda
