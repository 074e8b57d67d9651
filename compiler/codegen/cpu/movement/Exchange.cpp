// What ranks exchange: a step without a kernel. The memory of all crews is one, so it takes as long
// as its bytes.
#include "compiler/codegen/common/region/Collective.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

FamilyMatch matchCollective(Region &region) {
  std::optional<RegionStep> step = collectiveStep(region.source);
  return step ? FamilyMatch::take(std::move(*step))
              : FamilyMatch::refuse("nothing that ranks exchange");
}

LogicalResult emitCollective(Region &region, const RegionStep &step,
                             const dispatch::KernelChoice &) {
  region.exchange = step;
  return success();
}

std::string inOrderOfRanks(Region &, const std::any &, const dispatch::KernelChoice &) {
  return "in the order of ranks";
}

} // namespace

constexpr KernelFamily kCollective = {.name = "collective",
                                      .what = "what ranks exchange, in memory that all share",
                                      .strategies = {dispatch::kSingle},
                                      .needs = {"all_", "send_receive"},
                                      .match = matchCollective,
                                      .emit = on<emitCollective>,
                                      .order = inOrderOfRanks};

} // namespace tenon::codegen::cpu
