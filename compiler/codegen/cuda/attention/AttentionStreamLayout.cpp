// Which problems stream through processors head by head, how tiles of keys are cut, and the launch.
// Relies on AttentionStream.h for the kernel.
#include "compiler/codegen/cuda/attention/AttentionStream.h"
#include "compiler/codegen/cuda/attention/Tuning.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// The rows of a tensor whose batches and heads are whole rows, or heads columns, apart.
std::optional<StreamMatrix> matrixOf(const StridedTensor &tensor, AffineExpr batches, int64_t heads,
                                     int64_t rows) {
  SmallVector<int64_t> strides;
  for (AffineExpr stride : tensor.strides) {
    strides.push_back(tn::constantDim(stride).value_or(-1));
  }
  std::optional<int64_t> offset = tn::constantDim(tensor.offset);
  int64_t width = strides[2];
  if (!offset || llvm::is_contained(strides, -1) || width < kTileColumns || strides[3] != 1 ||
      strides[0] % width != 0) {
    return std::nullopt;
  }
  bool headsAreRows = strides[1] % width == 0;
  StreamMatrix m;
  m.rowElements = width;
  m.firstRow = *offset / width;
  m.firstColumn = *offset % width;
  m.rowsOfBatch = strides[0] / width;
  m.rowsOfHead = headsAreRows ? strides[1] / width : 0;
  m.columnsOfHead = headsAreRows ? 0 : strides[1];
  m.rows = (batches - 1) * m.rowsOfBatch + (m.firstRow + (heads - 1) * m.rowsOfHead + rows);
  m.columns = m.firstColumn + (heads - 1) * m.columnsOfHead + kTileColumns;
  return m.columns <= width ? std::optional(m) : std::nullopt;
}

/// Into tiles of about equal numbers of keys.
void cutKeys(StreamLayout &l, int64_t most) {
  int64_t tiles = (l.keys + most - 1) / most;
  l.tileKeys = llvm::alignTo((l.keys + tiles - 1) / tiles, 16);
}

/// As many stages as there is room for. False if there is none for the keys and values of one head.
bool placeRing(StreamLayout &l, bool hasMask, int64_t sharedBytes) {
  cutKeys(l, tuning::kMaxTileKeys);
  if (l.endsAlone() && (l.tiles() > 2 || hasMask)) {
    cutKeys(l, tuning::kMaxKeysBesideLast);
  }
  int64_t fixed = kStreamGroups * (2 * kGroupRows * kTileColumns * 2 + 3 * kBarrierBytes);
  int64_t ofSlot = l.tileBytes() + l.tileKeys * 2 + 2 + 2 * kBarrierBytes;
  // The last tile of a head must find its zeros.
  int64_t step = l.hasTail() ? 2 * l.tiles() : 2;
  l.stages =
      std::min((sharedBytes - fixed - kBarrierBytes) / ofSlot, tuning::kMaxStages) / step * step;
  return l.stages >= 2 * l.tiles();
}

} // namespace

std::optional<StreamLayout> streamLayout(const AttentionProblem &p, const target::Target &gpu) {
  std::optional<int64_t> heads = tn::constantDim(p.heads), keyHeads = tn::constantDim(p.keyHeads),
                         queries = tn::constantDim(p.queries), keys = tn::constantDim(p.keys);
  bool isWide =
      tn::constantDim(p.width) == kTileColumns && tn::constantDim(p.valueWidth) == kTileColumns;
  // The scale is taken out of the mask, which must stay finite.
  bool maskFits = !p.mask || tn::constantDim(p.mask->strides[2]) == 0;
  if ((p.codesFactor != 0 && !p.y.element.isF16()) || !gpu.has(target::Feature::WarpgroupMma) ||
      !isWide || !maskFits || p.causal || p.scale <= 1e-3 || p.scale > 1 || !heads ||
      p.batchRange.min < 1 || !keyHeads || !queries || !keys || *queries < kGroupRows) {
    return std::nullopt;
  }
  std::optional<StreamMatrix> q = matrixOf(p.q, p.batches, *heads, *queries),
                              k = matrixOf(p.k, p.batches, *keyHeads, *keys),
                              v = matrixOf(p.v, p.batches, *keyHeads, *keys),
                              y = matrixOf(p.y, p.batches, *heads, *queries);
  if (!q || !k || !v || !y) {
    return std::nullopt;
  }
  // Places along the rows of a copied matrix are 32 bits.
  auto mostRows = [&](const StreamMatrix &m) {
    return double(p.batchRange.max) * double(m.rowsOfBatch) + double(m.firstRow);
  };
  if (std::max({mostRows(*q), mostRows(*k), mostRows(*v), mostRows(*y),
                double(p.batchRange.max) * double(*heads)}) > INT32_MAX) {
    return std::nullopt;
  }
  StreamLayout l;
  l.isSmallResult = mostRows(*y) * double(y->rowElements) <= INT32_MAX;
  l.heads = p.typicalBatches * *heads;
  l.headsOfBatch = *heads;
  l.headsOfKeys = *heads / *keyHeads;
  l.queries = *queries;
  l.keys = *keys;
  l.q = *q;
  l.k = *k;
  l.v = *v;
  l.y = *y;
  l.blocks = std::min(l.heads, gpu.cores);
  if (!placeRing(l, p.mask.has_value(), gpu.sharedBytes)) {
    return std::nullopt;
  }
  l.isPingPong = l.tiles() >= tuning::kPingPongTiles && canPingPong(l);
  return l;
}

bool canPingPong(const StreamLayout &layout) {
  return layout.units() >= kStreamGroups && layout.stages > 2 * layout.tiles();
}

bool isFasterStreamed(const StreamLayout &layout, const target::Target &gpu) {
  int64_t processors = gpu.cores;
  int64_t rounds = (layout.heads + processors - 1) / processors;
  return layout.heads * 100 >= rounds * processors * tuning::kMinBusy;
}

void emitStreamAttention(RegionBuilder &region, const AttentionProblem &p,
                         const StreamLayout &layout) {
  KernelFrame frame(region, p.buffers(p.y.buffer), p.reads(), kWarpgroup * (1 + kStreamGroups));
  StreamKernel kernel(frame, p, layout);
  kernel.emit();
  frame.finish(getAffineConstantExpr(layout.blocks, region.source.getContext()),
               kernel.sharedBytes());
}

} // namespace tenon::codegen::cuda
