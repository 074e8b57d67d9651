// The table of GPU kernel families. Relies on the last one taking nearly any region.
#include "compiler/codegen/cuda/KernelFamily.h"

#include "compiler/dispatch/Cost.h"
#include "compiler/graph/Tn.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tenon::codegen::cuda {

const FamilyTable<RegionBuilder> &kernelFamilies() {
  static const KernelFamily *const kFamilies[] = {
      &kGemmBuckets,
      &kGemmBucketsGenerated,
      &kSizeBuckets,
      &kSizeBucketsGenerated,
      &kGemv,
      &kGemvLowBit,
      &kGemmSkinny,
      &kCublasLt,
      &kCudnnConv,
      &kGemmPersistent,
      &kGemmSliced,
      &kNormSliced,
      &kGemmWarpgroup,
      &kGemmTensorCore,
      &kGemmSimt,
      &kConvDirect,
      &kConvWarpgroup,
      &kConvTensorCore,
      &kConvSimt,
      &kConvDepthwise,
      &kCudnnAttention,
      &kAttentionBuckets,
      &kAttentionStream,
      &kAttentionFlash,
      &kAttentionSimt,
      &kAttentionPaged,
      &kSelection,
      &kSample,
      &kTopK,
      &kRadixSort,
      &kPrefixScan,
      &kRecurrence,
      &kRecurrencePersistent,
      &kScatter,
      &kPagedWrite,
      &kRowsStaged,
      &kRowsInRegisters,
      &kRowsInLoops,
      &kColumnsTiled,
      &kNormedSum,
      &kCollective,
      &kUserKernel,
      &kPointwise,
  };
  static const FamilyTable<RegionBuilder> table(kFamilies);
  return table;
}

double idleSeconds(double seconds, double blocks, double waves, double atOnce) {
  return seconds * (1 - std::min(blocks / (waves * atOnce), 1.0));
}

double epilogueSeconds(RegionBuilder &region) {
  constexpr double exposed = 2.5;
  dispatch::CostModel costs(region.source->getParentOfType<ModuleOp>(), region.gpu);
  bool isBehind = false;
  double work = 0;
  llvm::SmallSetVector<Value, 4> read;
  for (Operation &op : region.source.getBody().front().without_terminator()) {
    if (isBehind) {
      work += costs.workOf(&op);
      for (Value operand : op.getOperands()) {
        if (isa<BlockArgument>(operand)) {
          read.insert(operand);
        }
      }
    }
    isBehind |= op.hasTrait<tn::TnContraction>();
  }
  double bytes = 0;
  for (Value value : read) {
    bytes += double(costs.bytesOf(value));
  }
  return bytes / region.gpu.memoryBandwidth + exposed * work / region.gpu.peak;
}

} // namespace tenon::codegen::cuda
