// A region's call, and launches behind it for machines without the library that it needs. Relies on
// the runtime leaving out whichever it does not use (engine/Plan.h).
#include "compiler/codegen/cuda/LibraryMatch.h"
#include "compiler/codegen/cuda/LibraryRegions.h"
#include "compiler/codegen/cuda/Strategies.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// The emitter of what does the same as the call; null if the engine needs the library.
EmitterFn spareOf(const RegionStep &step) {
  return step.call[0] == std::byte(engine::LibraryOp::Attention) ? emitAttention : nullptr;
}

} // namespace

FailureOr<bool> emitLibrary(RegionBuilder &region) {
  std::optional<RegionStep> step =
      region.mayCallLibraries ? libraryStep(region.source) : std::nullopt;
  if (!step) {
    return false;
  }
  EmitterFn spare = spareOf(*step);
  region.code.steps.push_back(std::move(*step));
  if (spare && failed(spare(region))) {
    return failure();
  }
  for (RegionStep &launch : MutableArrayRef(region.code.steps).drop_front()) {
    launch.isSpare = true;
  }
  return true;
}

} // namespace tenon::codegen::cuda
