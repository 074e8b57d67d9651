// Recurrent layers whose weights stay in registers while all rows of the batch go by: which layers,
// how they are shared out, and what a step is predicted to take.
#include "compiler/codegen/common/math/RecurrentCell.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/recurrent/PersistentKernel.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

struct PersistentProblem {
  tn::RecurrenceOp op;
  std::vector<PersistentCandidate> candidates;
};

FamilyMatch matchPersistent(RegionBuilder &region) {
  tn::RecurrenceOp op = recurrenceOf(region.source);
  if (!op) {
    return FamilyMatch::refuse("it is no recurrent layer");
  }
  Type element = getElementTypeOrSelf(op.getInput());
  if (element.isF64() || getElementTypeOrSelf(op.getWeights()) != element) {
    return FamilyMatch::refuse("its elements are not all of f32, f16 or bf16");
  }
  if (!element.isF32() && !region.gpu.has(target::Feature::MmaSync)) {
    return FamilyMatch::refuse("the GPU multiplies no matrices of its type");
  }
  if (op.getCell() == "gru" && !op.getLinearBeforeReset()) {
    return FamilyMatch::refuse("its reset gate stands before a product: a step has two exchanges");
  }
  if (!isa<BlockArgument>(op.getWeights())) {
    return FamilyMatch::refuse("its weights are laid out anew");
  }
  PersistentProblem problem{op, persistentLayouts(region, op)};
  if (problem.candidates.empty()) {
    return FamilyMatch::refuse(region.gpu.part.empty()
                                   ? "the weights are more than a cluster holds, and only of a "
                                     "named part (cuda:h200) is it "
                                     "known how many multiprocessors run at the same time"
                                   : "the weights are more than all multiprocessors hold");
  }
  const PersistentCandidate &best = *llvm::min_element(
      problem.candidates, [](const PersistentCandidate &a, const PersistentCandidate &b) {
        return a.stepSeconds < b.stepSeconds;
      });
  PersistentLayout layout = best.layout;
  const char *why = layout.grid ? "the registers of the grid hold the weights through all steps"
                                : "the registers of a cluster hold the weights through all steps";
  return FamilyMatch::take(std::move(problem),
                           dispatch::choiceOf(kRecurrencePersistent.name, layout), why);
}

std::vector<dispatch::KernelChoice> persistentConfigs(RegionBuilder &, const std::any &problem) {
  std::vector<dispatch::KernelChoice> choices;
  for (PersistentCandidate candidate : std::any_cast<PersistentProblem>(&problem)->candidates) {
    choices.push_back(dispatch::choiceOf(kRecurrencePersistent.name, candidate.layout));
  }
  return choices;
}

/// A layer through the L2 has a kernel more, which clears the flags.
double layerSeconds(RegionBuilder &region, const PersistentProblem &problem,
                    const dispatch::KernelChoice &choice) {
  PersistentLayout layout = configOf<PersistentLayout>(choice);
  tn::RecurrenceOp op = problem.op;
  double step = 0;
  for (const PersistentCandidate &candidate : problem.candidates) {
    bool isThis = candidate.layout.blocks == layout.blocks &&
                  candidate.layout.rows == layout.rows && candidate.layout.grid == layout.grid;
    step = isThis ? candidate.stepSeconds : step;
  }
  double launches = layout.grid ? 2 : 1;
  double steps =
      double(std::max<int64_t>(1, region.estimate(tn::getDims(op.getInput().getType())[0])));
  return steps * step + launches * region.gpu.launchSeconds;
}

LogicalResult emitLayer(RegionBuilder &region, const PersistentProblem &problem,
                        const dispatch::KernelChoice &choice) {
  emitPersistentLayer(region, problem.op,
                      PersistentShape(problem.op, configOf<PersistentLayout>(choice)));
  return success();
}

} // namespace

constexpr KernelFamily kRecurrencePersistent = {
    .name = "recurrence_persistent",
    .what = "recurrent layers: blocks hold the weights in registers through all steps and multiply "
            "them by the states of many rows together, on tensor cores where there are 16-bit ones",
    .strategies = {dispatch::kSingle},
    .needs = {"recurrence"},
    .match = matchPersistent,
    .configs = persistentConfigs,
    .seconds = on<layerSeconds>,
    .emit = on<emitLayer>};

} // namespace tenon::codegen::cuda
