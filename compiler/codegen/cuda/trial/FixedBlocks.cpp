// Elementwise regions in blocks of a stated size. Relies on pointwise/ for what a thread does.
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/pointwise/Schedule.h"
#include "compiler/codegen/cuda/trial/Tuning.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

struct FixedBlocks {
  int64_t threads = tuning::kTrialThreads[0];
};
template <typename Visitor> void visitParameters(Visitor &visit, FixedBlocks &config) {
  visit("threads", config.threads);
}

/// The only kernel of the region; none if it has several or loops.
std::optional<KernelRoots> onlyKernel(RegionBuilder &region) {
  FailureOr<func::FuncOp> function = region.linalg();
  if (failed(function)) {
    return std::nullopt;
  }
  std::vector<KernelRoots> kernels = schedule(region, *function);
  return kernels.size() == 1 && !kernels.front().nest ? std::optional(kernels.front())
                                                      : std::nullopt;
}

Offer offerFixed(RegionBuilder &region) {
  return onlyKernel(region) ? Offer{dispatch::choiceOf(kPointwiseFixed.name, FixedBlocks()),
                                    "one kernel without loops"}
                            : Offer::refuse("it is more than one kernel without loops");
}

std::vector<dispatch::KernelChoice> fixedConfigs(RegionBuilder &) {
  std::vector<dispatch::KernelChoice> choices;
  for (int64_t threads : tuning::kTrialThreads) {
    choices.push_back(dispatch::choiceOf(kPointwiseFixed.name, FixedBlocks{threads}));
  }
  return choices;
}

LogicalResult emitFixed(RegionBuilder &region, const dispatch::KernelChoice &choice) {
  FixedBlocks config;
  std::optional<KernelRoots> kernel = onlyKernel(region);
  if (!kernel || failed(readChoice(region, choice, config))) {
    return failure();
  }
  unsigned threads = static_cast<unsigned>(config.threads);
  bool hasFailed = false;
  emitParts(region, pointsPart(region, *kernel, threads), threads, hasFailed);
  return failure(hasFailed);
}

} // namespace

constexpr KernelFamily kPointwiseFixed = {
    .name = "pointwise_fixed",
    .what = "elementwise kernels in blocks of a stated size",
    .strategies = {dispatch::kElementwise},
    .match = offerFixed,
    .configs = fixedConfigs,
    .cost = nullptr,
    .emit = emitFixed};

} // namespace tenon::codegen::cuda
