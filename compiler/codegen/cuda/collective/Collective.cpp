// What ranks exchange: a step without a kernel of the region's own. Its time is in a table for each
// part (target/Collectives.h).
#include "compiler/codegen/common/region/Collective.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/collective/Collective.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

FamilyMatch matchExchange(RegionBuilder &region) {
  std::optional<RegionStep> step = collectiveStep(region.source);
  return step ? FamilyMatch::take(std::move(*step))
              : FamilyMatch::refuse("nothing that ranks exchange");
}

double exchangeSeconds(RegionBuilder &region, const RegionStep &, const dispatch::KernelChoice &) {
  return collectiveSeconds(region.source, region.gpu);
}

LogicalResult emitExchange(RegionBuilder &region, const RegionStep &step,
                           const dispatch::KernelChoice &) {
  RegionStep own = step;
  Operation &op = region.source.getBody().front().front();
  if (IntegerAttr ranks = op.getAttrOfType<IntegerAttr>("ranks")) {
    own.collectiveKernels =
        collectiveKernels(step.collective->kind, step.collective->dtype, ranks.getInt());
  }
  region.code.steps.push_back(std::move(own));
  return success();
}

std::string orderOfExchange(RegionBuilder &, const std::any &, const dispatch::KernelChoice &) {
  return "in the order of ranks";
}

} // namespace

constexpr KernelFamily kCollective = {.name = "collective",
                                      .what = "what GPUs exchange",
                                      .strategies = {dispatch::kSingle},
                                      .needs = {"all_", "send_receive"},
                                      .match = matchExchange,
                                      .seconds = on<exchangeSeconds>,
                                      .emit = on<emitExchange>,
                                      .order = orderOfExchange};

} // namespace tenon::codegen::cuda
