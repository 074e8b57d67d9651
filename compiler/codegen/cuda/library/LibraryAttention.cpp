// Attention as a call of cuDNN that reads its operands through strides, and our kernel behind it
// for machines without the library. Relies on AttentionMatch.h for where the operands lie, and on
// the runtime leaving out whichever it does not use (engine/Plan.h).
#include "compiler/codegen/common/region/Programs.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/attention/AttentionKernels.h"
#include "compiler/codegen/cuda/library/LibraryMatch.h"
#include "compiler/codegen/cuda/library/LibraryRegions.h"
#include "compiler/codegen/cuda/library/Tuning.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

bool isConstant(AffineExpr value, int64_t constant) { return tn::constantDim(value) == constant; }

bool hasUsualMask(const AttentionProblem &p) {
  return !p.mask || (p.mask->element == p.q.element && isConstant(p.mask->offset, 0) &&
                     isConstant(p.mask->strides[3], 1));
}

/// Wider ones its kernels do on some architectures only.
bool hasUsualHeads(const AttentionProblem &p) {
  return std::max(*tn::constantDim(p.width), *tn::constantDim(p.valueWidth)) <=
         tuning::kWidestCalledHead;
}

void appendStrides(SmallVectorImpl<AffineExpr> &sizes, const StridedTensor &tensor) {
  sizes.append(tensor.strides.begin(), tensor.strides.begin() + 3);
}

/// False for sizes that vary: with small ones, our kernel is the faster one.
bool isWorthACall(const AttentionProblem &p, const target::Target &gpu) {
  int64_t pairs = 1;
  for (AffineExpr size : {p.batches, p.heads, p.queries, p.keys}) {
    pairs *= tn::constantDim(size).value_or(0);
  }
  if (pairs < tuning::kMinPairs) {
    return false;
  }
  if (!chooseTile(p, gpu).isWarpgroup) {
    return true;
  }
  bool isWide = *tn::constantDim(p.width) > tuning::kNarrowCalledHead;
  return !p.mask && std::min(*tn::constantDim(p.keys), *tn::constantDim(p.queries)) >=
                        (isWide ? tuning::kMinWideLength : tuning::kMinLength);
}

} // namespace

std::optional<RegionStep> attentionStep(func::FuncOp kernel) {
  MatchResult<AttentionProblem> found = matchAttention(kernel);
  if (!found || !fitsTensorCores(*found) || !hasUsualMask(*found) || !hasUsualHeads(*found) ||
      found->causal || !isConstant(found->y.offset, 0)) {
    return std::nullopt;
  }
  const AttentionProblem &p = *found;
  SmallVector<AffineExpr> sizes = {p.batches, p.heads, p.keyHeads,  p.queries,
                                   p.keys,    p.width, p.valueWidth};
  for (const StridedTensor *tensor : {&p.q, &p.k, &p.v, &p.y}) {
    appendStrides(sizes, *tensor);
  }
  if (p.mask) {
    appendStrides(sizes, *p.mask);
  } else {
    sizes.append(3, getAffineConstantExpr(0, kernel.getContext()));
  }
  sizes.append({p.q.offset, p.k.offset, p.v.offset});
  engine::AttentionCall call;
  call.type = *libraryType(kernel.getResultTypes().front());
  call.hasMask = p.mask.has_value();
  call.scale = static_cast<float>(p.scale);
  RegionStep step;
  step.buffers = {p.q.buffer, p.k.buffer, p.v.buffer};
  if (p.mask) {
    step.buffers.push_back(p.mask->buffer);
  }
  step.reads = step.buffers.size();
  step.buffers.push_back(p.y.buffer);
  for (AffineExpr size : sizes) {
    step.sizes.push_back(programOf(size));
  }
  step.call.resize(sizeof(call));
  std::memcpy(step.call.data(), &call, sizeof(call));
  return step;
}

namespace {

FamilyMatch matchCudnn(RegionBuilder &region) {
  MatchResult<AttentionProblem> problem = matchAttention(region.source);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  std::optional<RegionStep> step = libraryStep(region.source);
  if (!fitsTensorCores(*problem) || !step) {
    return FamilyMatch::refuse(
        "the call takes f16 and bf16 without a causal mask, whole results, and masks "
        "whose columns lie one after the other");
  }
  if (!isWorthACall(*problem, region.gpu)) {
    return FamilyMatch::refuse("sizes vary or are so small that our own kernels are faster");
  }
  return FamilyMatch::take(LibraryCall{std::move(*step)}, {kCudnnAttention.name.str(), {}},
                           "so large that the call is faster; our kernel behind it runs where "
                           "there is no cuDNN");
}

} // namespace

constexpr KernelFamily kCudnnAttention = {
    .name = "cudnn_attention",
    .what = "a cuDNN graph of scaled dot-product attention that reads q, k and v by strides",
    .strategies = {dispatch::kAttention},
    .match = matchCudnn,
    .seconds = on<callSeconds>,
    .emit = on<emitCallWithFallback>,
    .isCall = true};

} // namespace tenon::codegen::cuda
