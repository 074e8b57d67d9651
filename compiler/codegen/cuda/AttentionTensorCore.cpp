// Which problems tensor cores do, by which tiles, and the launch. Relies on AttentionFlash.h for
// the kernel.
#include "compiler/codegen/common/Programs.h"
#include "compiler/codegen/cuda/ArchLimits.h"
#include "compiler/codegen/cuda/AttentionFlash.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr double kLog2E = 1.4426950408889634;

/// Rows of 16-byte chunks, so that asynchronous copies can bring them.
bool hasAlignedRows(const StridedTensor &tensor) {
  return tn::constantDim(tensor.strides[3]) == 1 && tensor.offset.isMultipleOf(8) &&
         llvm::all_of(ArrayRef(tensor.strides).take_front(3),
                      [](AffineExpr stride) { return stride.isMultipleOf(8); });
}

} // namespace

bool foldsScale(const AttentionProblem &problem) { return !problem.mask && problem.scale > 0; }

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
         *valueWidth % 8 == 0 && *width > 0 && *width <= 128 && *valueWidth > 0 &&
         *valueWidth <= 128 && hasAlignedRows(p.q) && hasAlignedRows(p.k) && hasAlignedRows(p.v) &&
         hasAlignedRows(p.y);
}

AttentionTile chooseTile(const AttentionProblem &p, const engine::CudaArch &arch) {
  std::optional<int64_t> heads = tn::constantDim(p.heads), keyHeads = tn::constantDim(p.keyHeads),
                         queries = tn::constantDim(p.queries);
  int64_t batches = tn::constantDim(p.batches).value_or(1);
  int64_t widest = std::max(*tn::constantDim(p.width), *tn::constantDim(p.valueWidth));
  bool maskHasRows = p.mask && tn::constantDim(p.mask->strides[2]) != 0;
  AttentionTile tile;
  if (!heads || !queries) {
    return tile;
  }
  int64_t lists = batches * *heads;
  auto blocks = [&](int64_t rows) { return lists * ((*queries + rows - 1) / rows); };
  // A step of decoding has a row or a few, so larger tiles would be empty however many there are.
  bool isDecoding = *queries <= 16;
  if (!isDecoding && blocks(128) >= 2 * processors(arch) && !maskHasRows) {
    // Two row tiles a warp halve the reads of shared memory; wide heads have no registers for them.
    tile.rowTiles = widest <= 64 ? 2 : 1;
    tile.rowWarps = widest <= 64 ? 4 : 8;
    return tile;
  }
  if (!isDecoding && blocks(64) >= processors(arch)) {
    return tile;
  }
  tile.keyWarps = !isDecoding && blocks(32) >= processors(arch) ? 2 : 4;
  tile.rowWarps = 4 / tile.keyWarps;
  tile.keys = widest <= 64 ? 128 : 64;
  tile.joinsHeads = keyHeads && *heads != *keyHeads && *heads / *keyHeads * *queries <= 16;
  int64_t running = tile.joinsHeads ? batches * *keyHeads : blocks(tile.rows());
  int64_t tiles = (tn::constantDim(p.keys).value_or(1024) + tile.keys - 1) / tile.keys;
  if (running * 2 <= processors(arch) && tiles > 1) {
    tile.splits = std::clamp<int64_t>(processors(arch) / running, 1, std::min<int64_t>(tiles, 32));
  }
  return tile;
}

void emitTensorCoreAttention(ModuleOp module, StringRef symbol, const AttentionProblem &p,
                             const AttentionTile &tile, const engine::CudaArch &arch,
                             RegionCode &code) {
  SmallVector<uint32_t> buffers = {p.q.buffer, p.k.buffer, p.v.buffer};
  if (p.mask) {
    buffers.push_back(p.mask->buffer);
  }
  uint32_t reads = buffers.size();
  if (tile.splits > 1) {
    buffers.append({p.firstTemporary, p.firstTemporary + 1});
  } else {
    buffers.push_back(p.y.buffer);
  }
  KernelShell shell(module, symbol, buffers, reads, tile.threads());
  FlashKernel kernel(shell, p, tile);
  kernel.emit(/*waits=*/arch.number >= 90);
  AffineExpr heads = tile.joinsHeads ? p.keyHeads : p.heads;
  AffineExpr blocks = p.batches * heads * kernel.rowCount().ceilDiv(tile.rows()) * tile.splits;
  code.steps.push_back(shell.finish(blocks, kernel.sharedBytes()));
  if (tile.splits > 1) {
    AffineExpr rows = p.batches * p.heads * p.queries * tile.splits;
    code.temporaries.push_back(programOf(rows * p.valueWidth * 4));
    code.temporaries.push_back(programOf(rows * 8));
    emitAttentionCombine(module, (symbol + "_combine").str(), p, tile.splits, arch, code);
  }
}

} // namespace tenon::codegen::cuda
