// The smallest cluster whose registers hold the weights, else the largest.
#include "compiler/codegen/cuda/recurrent/RecurrenceLayout.h"

#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen::cuda {

SmallVector<Phase> phasesOf(tn::RecurrenceOp op, const RecurrenceLayout &layout) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getWeights().getType()).getShape();
  int64_t hidden = shape[0], gates = shape[1] / hidden;
  bool hasTwo = op.getCell() == "gru" && !op.getLinearBeforeReset();
  if (!hasTwo) {
    return {Phase(hidden, 0, gates, layout)};
  }
  return {Phase(hidden, 0, 2, layout), Phase(hidden, 2, 1, layout)};
}

Type sumTypeOf(tn::RecurrenceOp op) {
  return accumulatorType(storageType(getElementTypeOrSelf(op.getInput())));
}

bool isHeld(tn::RecurrenceOp op, const RecurrenceLayout &layout) {
  SmallVector<Phase> phases = phasesOf(op, layout);
  int64_t weights = 0;
  for (const Phase &phase : phases) {
    weights += phase.depth;
  }
  return layout.threads == tuning::kHeldThreads && weights <= tuning::kHeldWeights &&
         llvm::all_of(phases, [](const Phase &phase) { return phase.isOneRound(); }) &&
         sumTypeOf(op).isF32();
}

int64_t paddedOf(ArrayRef<Phase> phases) {
  int64_t padded = 0;
  for (const Phase &phase : phases) {
    padded = std::max(padded, phase.parts * phase.depth);
  }
  return padded;
}

int64_t sharedBytesOf(tn::RecurrenceOp op, const RecurrenceLayout &layout) {
  SmallVector<Phase> phases = phasesOf(op, layout);
  int64_t elements = 3 * paddedOf(phases) + llvm::alignTo(phases[0].units, Phase::kVector);
  for (const Phase &phase : phases) {
    elements += phase.sums();
  }
  return elements * byteSize(sumTypeOf(op));
}

int64_t clustersAtOnce(const target::Target &gpu, int64_t blocks) {
  double share = blocks == 1 ? 1 : tuning::kClusterShare;
  return std::max<int64_t>(1, static_cast<int64_t>(share * double(gpu.cores)) / blocks);
}

RecurrenceLayout layoutOf(RegionBuilder &region, tn::RecurrenceOp op) {
  int64_t most = std::min(tuning::kMaxClusterBlocks, region.gpu.clusterBlocks);
  for (int64_t blocks = 1; blocks <= most; blocks *= 2) {
    RecurrenceLayout layout = {blocks, tuning::kHeldThreads};
    if (isHeld(op, layout)) {
      return layout;
    }
  }
  return {most, op.getPeephole() ? tuning::kPeepholeThreads : tuning::kReadThreads};
}

} // namespace tenon::codegen::cuda
