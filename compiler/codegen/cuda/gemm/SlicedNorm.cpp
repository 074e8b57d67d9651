// The RMS norm that stands in front of a product of an invariant model, with the sums of gemv where
// gemv norms its one row: a block a row, and RowNorm in it.
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/gemm/HalfGemm.h"
#include "compiler/codegen/cuda/gemm/RowNorm.h"
#include "compiler/codegen/cuda/gemm/SlicedGemm.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Invariance.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

struct NormedRows {
  uint32_t input = 0;
  GemvNorm norm;
  AffineExpr count;
  int64_t depth = 0;
  Type element;
};

FamilyMatch matchNorm(RegionBuilder &region) {
  tn::RmsNormOp op = dyn_cast_or_null<tn::RmsNormOp>(
      region.source.getBody().front().getTerminator()->getOperand(0).getDefiningOp());
  if (!tn::isInvariant(region.source) || !region.source->hasAttr(kRowRange) || !op) {
    return FamilyMatch::refuse("it is no norm in front of a product that has kernels for ranges of "
                               "rows, with --invariant");
  }
  Type element = getElementTypeOrSelf(op.getX());
  std::optional<int64_t> depth = tn::constantDim(tn::getDims(op.getX().getType()).back());
  bool isHalf = element.isF16() || element.isBF16();
  if (!isHalf || !isOfRows(op) || *depth % 8 != 0 || !isa<BlockArgument>(op.getX()) ||
      (op.getScale() && !isa<BlockArgument>(op.getScale()))) {
    return FamilyMatch::refuse("rows are not of a multiple of eight f16 or bf16 in memory");
  }
  NormedRows rows{cast<BlockArgument>(op.getX()).getArgNumber(), gemvNormOf(op),
                  rowCountOf(op.getX().getType()), *depth, element};
  return FamilyMatch::take(rows, {kNormSliced.name.str(), {}}, "adds up as gemv norms a row");
}

LogicalResult emitNorm(RegionBuilder &region, const NormedRows &rows,
                       const dispatch::KernelChoice &) {
  constexpr int64_t kScratchBytes = 4 * kSlices;
  KernelFrame kernel(region, kSlices * kWarp);
  RowNorm norm(kernel, rows.norm, {1, rows.depth, /*mayBeFewer=*/false, kSlices, rows.element});
  ThreadBuilder t = kernel.code();
  Value first = t.mul(t.toI64(t.block()), rows.depth), shared = kernel.dynamicShared();
  Value input = t.offset(kernel.orderedPointer(rows.input), rows.element, first);
  Value output =
      t.offset(kernel.pointer(region.output(0), /*isWritten=*/true), rows.element, first);
  norm.reader = [&](const ThreadBuilder &c, Value, Value place, ArrayRef<Value> words,
                    Value isThere) {
    auto store = [&](const ThreadBuilder &d) {
      d.store(d.pack(words), d.offset(output, rows.element, place), 16);
    };
    isThere ? c.when(isThere, store) : store(c);
  };
  norm.fetchScales();
  kernel.waitHere();
  kernel.launchDependentsHere();
  norm.normRows(input, t.i32(1), shared, t.offset(shared, t.builder.getI8Type(), kScratchBytes));
  kernel.finish(rows.count, kScratchBytes + 2 * normedPitchOf(rows.depth));
  return success();
}

std::string normOrder(RegionBuilder &, const NormedRows &, const dispatch::KernelChoice &) {
  return slicedNormOrder();
}

} // namespace

constexpr KernelFamily kNormSliced = {
    .name = "norm_sliced",
    .what = "RMS norm, a block a row, with the sums of gemv's, in front of an invariant product",
    .strategies = {dispatch::kRows},
    .needs = {"rms_norm"},
    .match = matchNorm,
    .emit = on<emitNorm>,
    .order = on<normOrder>};

} // namespace tenon::codegen::cuda
