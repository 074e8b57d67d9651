// The kernel families of GPUs (docs/adr/0015), by the rooms of their rows.
#pragma once

#include "compiler/codegen/common/region/FamilyTable.h"
#include "compiler/codegen/common/region/KernelFamily.h"
#include "compiler/codegen/cuda/base/Region.h"

namespace tenon::codegen::cuda {

using KernelFamily = codegen::KernelFamily<RegionBuilder>;

/// In the order in which they are preferred where predictions are close.
const FamilyTable<RegionBuilder> &kernelFamilies();

/// The part "idle" of KernelFamily::parts: of blocks that take so many seconds wave by wave, what
/// multiprocessors without one lose, in a last wave or where there are fewer blocks.
double idleSeconds(double seconds, double blocks, double waves, double atOnce);

/// What is added to the predicted seconds of a product's kernel: what is read behind the product,
/// and the arithmetic there, which no stream of operands hides. SiLU of 393,216 and 2,097,152
/// elements took 0.24 and 0.87 us on an H200.
double epilogueSeconds(RegionBuilder &region);

// gemm/
extern const KernelFamily kGemmBuckets, kGemmBucketsGenerated, kGemv, kGemvLowBit, kGemmSkinny,
    kGemmPersistent, kGemmTensorCore, kGemmSliced, kGemmSimt, kNormSliced, kSizeBuckets,
    kSizeBucketsGenerated;
// conv/
extern const KernelFamily kConvDirect, kConvTensorCore, kConvWarpgroup, kGemmWarpgroup, kConvSimt,
    kConvDepthwise;
// attention/
extern const KernelFamily kAttentionBuckets, kAttentionStream, kAttentionFlash, kAttentionSimt,
    kAttentionPaged, kPagedWrite;
// rows/
extern const KernelFamily kRowsStaged, kRowsInRegisters, kRowsInLoops, kColumnsTiled;
// pointwise/, selection/, scan/, scatter/, recurrent/
extern const KernelFamily kPointwise, kSelection, kSample, kTopK, kRadixSort, kPrefixScan, kScatter,
    kRecurrence, kRecurrencePersistent;
// collective/
extern const KernelFamily kCollective, kNormedSum;
// library/
extern const KernelFamily kCublasLt, kCudnnConv, kCudnnAttention, kUserKernel;

} // namespace tenon::codegen::cuda
