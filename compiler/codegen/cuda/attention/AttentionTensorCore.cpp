// Which problems tensor cores do, and the launch. Relies on AttentionFlash.h for the kernel.
#include "compiler/codegen/cuda/attention/AttentionFlash.h"
#include "compiler/codegen/cuda/attention/Tuning.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr int64_t kFarthestStart = int64_t(1) << 30;

/// Rows of 16-byte chunks, so that asynchronous copies can bring them.
bool hasAlignedRows(const StridedTensor &tensor) {
  return tn::constantDim(tensor.strides[3]) == 1 && tensor.offset.isMultipleOf(8) &&
         llvm::all_of(ArrayRef(tensor.strides).take_front(3),
                      [](AffineExpr stride) { return stride.isMultipleOf(8); });
}

} // namespace

bool foldsScale(const AttentionProblem &problem) {
  return !problem.mask && problem.scale > 0 && problem.softcap == 0;
}

double weightExponent(const AttentionProblem &problem) {
  return foldsScale(problem) ? problem.scale * kLog2E : kLog2E;
}

bool fitsTensorCores(const AttentionProblem &p) {
  std::optional<int64_t> width = tn::constantDim(p.width),
                         valueWidth = tn::constantDim(p.valueWidth);
  Type element = p.q.element;
  bool isHalf = element.isF16() || element.isBF16();
  bool isOneType = p.k.element == element && p.v.element == element && p.y.element == element;
  bool maskFits = !p.mask || p.mask->element.getIntOrFloatBitWidth() <= 32;
  return isHalf && isOneType && maskFits && width && valueWidth && *width % 8 == 0 &&
         *valueWidth % 8 == 0 && *width > 0 && *width <= tuning::kWidestHead && *valueWidth > 0 &&
         *valueWidth <= tuning::kWidestHead && hasAlignedRows(p.q) && hasAlignedRows(p.k) &&
         hasAlignedRows(p.v) && hasAlignedRows(p.y);
}

bool sharesMask(const AttentionProblem &p, bool joinsHeads) {
  auto isFixed = [&](unsigned dim) { return tn::constantDim(p.mask->strides[dim]) == 0; };
  return p.mask && (isFixed(2) || tn::constantDim(p.queries) == 1) && (!joinsHeads || isFixed(1));
}

Value pointerTo(const ThreadBuilder &t, KernelFrame &frame, unsigned position,
                const StridedTensor &tensor, ValueRange place) {
  Value at = frame.size64(tensor.offset);
  for (auto [index, stride] : llvm::zip(place, tensor.strides)) {
    at = t.add(at, t.mul(t.toI64(index), frame.size64(stride)));
  }
  return t.offset(frame.buffer(position), tensor.element, at);
}

Value startOf(const ThreadBuilder &t, KernelFrame &frame, const AttentionProblem &p) {
  if (!p.start) {
    return t.sub(frame.size32(p.keys), frame.size32(p.queries));
  }
  unsigned position = p.reads() - 1, bytes = p.start->element.getIntOrFloatBitWidth() / 8;
  Value start = t.load(
      t.builder.getIntegerType(bytes * 8),
      t.offset(frame.buffer(position), p.start->element, frame.size64(p.start->offset)), bytes);
  // What is far out of all keys stays so, and its sums with queries stay numbers.
  start = t.min(start, t.constantOfType(start, kFarthestStart));
  start = t.max(start, t.constantOfType(start, -kFarthestStart));
  return bytes == 8 ? t.toI32(start) : start;
}

void emitTensorCoreAttention(RegionBuilder &region, const AttentionProblem &p,
                             const AttentionTile &tile) {
  bool isPartial = tile.splits > 1 && !tile.isClustered;
  SmallVector<uint32_t> written = {p.y.buffer};
  if (isPartial) {
    written = {p.firstTemporary, p.firstTemporary + 1};
  }
  KernelFrame frame(region, p.buffers(written), p.reads(), tile.threads());
  if (tile.isClustered) {
    frame.setCluster(tile.splits);
  }
  frame.setMinBlocksPerSm(blocksAtOnce(p, tile, region.gpu));
  FlashKernel kernel(frame, p, tile);
  kernel.emit();
  AffineExpr heads = tile.joinsHeads ? p.keyHeads : p.heads;
  AffineExpr blocks =
      p.batches * heads * kernel.rowBlockCount() * kernel.columnParts() * tile.splits;
  frame.finish(blocks, kernel.sharedBytes());
  if (isPartial) {
    AffineExpr rows = p.batches * p.heads * p.queries * tile.splits;
    region.addTemporary(rows * p.valueWidth * 4);
    region.addTemporary(rows * 8);
    emitAttentionCombine(region, p, tile.splits);
  }
}

} // namespace tenon::codegen::cuda
