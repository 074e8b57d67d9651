// Predicted times are sums of what a step does one after the other. Relies on Tuning.h.
#include "compiler/codegen/cuda/recurrent/PersistentLayout.h"

#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cuda/recurrent/RecurrenceLayout.h"
#include "compiler/codegen/cuda/recurrent/Tuning.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Rows whose sums a warp has in registers at once, beside `words` of weights.
int64_t chunkOf(int64_t rows, int64_t tiles, bool isHalf, int64_t words) {
  bool isHeld = words <= tuning::kPersistentWords;
  int64_t most = tiles > 4 ? 8 : tiles > 2 || !isHeld ? 16 : tiles == 2 ? 32 : 64;
  if (!isHalf) {
    // A multiply-add is an instruction for each: no more than stay near the multiprocessor.
    most = std::clamp<int64_t>(32 / tiles, 8, words > 64 ? 16 : 32);
  }
  most = std::min(most, rows);
  while (rows % most != 0) {
    most /= 2;
  }
  return most;
}

} // namespace

PersistentShape::PersistentShape(tn::RecurrenceOp op, const PersistentLayout &own)
    : layout(own), element(storageType(getElementTypeOrSelf(op.getInput()))),
      bytes(byteSize(element)), isHalf(bytes == 2) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getWeights().getType()).getShape();
  hidden = shape[0];
  gates = shape[1] / hidden;
  // New states travel as whole vectors.
  units = llvm::alignTo(llvm::divideCeil(hidden, layout.blocks), 16 / bytes);
  int64_t groups = kWarps / layout.parts;
  isDirect = isHalf && layout.parts == 1 && !layout.grid && hidden % 2 == 0;
  tiles = isDirect ? tilesOfUnits() * llvm::divideCeil(units, 8 * kWarps)
                   : llvm::divideCeil(llvm::divideCeil(gates * units, kTile), groups);
  columns = groups * tiles * kTile;
  partDepth = llvm::alignTo(llvm::divideCeil(std::max(hidden, layout.blocks * units), layout.parts),
                            isHalf ? 32 : 8);
  depth = partDepth * layout.parts;
  // Whole fragments, or depths of all tiles.
  int64_t group = isHalf ? 4 : 4 * tiles, words = tiles * partDepth / (isHalf ? 4 : 2);
  chunk = chunkOf(layout.rows, tiles, isHalf, words);
  held = std::min(words, tuning::kPersistentWords / group * group);
  kept = 0;
  streamed = 0;
  if (int64_t more = words - held; more > 0) {
    int64_t room = std::max<int64_t>(0, tuning::kPersistentShared - sharedBytes());
    kept = std::min(more, room / (kThreads * 4) / group * group);
    streamed = more - kept;
  }
}

bool PersistentShape::fits(const target::Target &gpu) const {
  // A layer that streams most of its weights gains nothing by holding some.
  bool isMostlyHeld = isHalf ? streamed == 0 : streamed <= held + kept;
  return isMostlyHeld && sharedBytes() <= gpu.sharedBytes;
}

/// Rows begin half of the banks apart, so that the quarters of a warp that read 16 bytes of two
/// rows meet no bank twice.
int64_t PersistentShape::stateStride() const {
  int64_t rowBytes = llvm::alignTo(depth * bytes, 128) + 64;
  return rowBytes / bytes;
}

int64_t PersistentShape::sharedBytes() const {
  int64_t own = layout.rows * (2 * units * 4 + 4);
  int64_t states = layout.grid ? (isHalf ? 0 : kWarps * chunk * partDepth * bytes)
                               : 2 * layout.rows * stateStride() * bytes + (isCluster() ? 16 : 0);
  return llvm::alignTo(sumBytes() + own + states, 16) + kept * kThreads * 4;
}

double persistentStepSeconds(const target::Target &gpu, const PersistentShape &shape) {
  const PersistentLayout &layout = shape.layout;
  double rows = double(layout.rows);
  double products = double(shape.columns) * double(shape.depth) * rows /
                    (shape.isHalf ? tuning::kMmaPerCycle : tuning::kFmaPerCycle);
  double gates =
      rows * double(shape.units * shape.gates) * tuning::kSpecialsOfGate / tuning::kSpecialPerCycle;
  double reduced =
      shape.isDirect ? 0
                     : tuning::kSumPasses * double(layout.parts) * rows * double(shape.columns) * 4;
  double groups = double(PersistentShape::kWarps / layout.parts);
  double state = rows * double(shape.depth * shape.bytes) * groups;
  double again = double(shape.kept * PersistentShape::kThreads * 4 * shape.chunks());
  double inner = (reduced + again) / tuning::kSharedPerCycle + products + gates;
  double seconds =
      double(shape.streamed * PersistentShape::kThreads * 4 * shape.chunks()) / gpu.coreBandwidth;
  if (layout.grid) {
    seconds += state * double(layout.blocks) / tuning::kStateBandwidth + tuning::kGridExchange;
    seconds += double(shape.chunks() - 1) * tuning::kGridChunk;
    return seconds + inner / tuning::kClock;
  }
  double sent = rows * double(shape.units * shape.bytes * layout.blocks);
  inner += (state + sent) / tuning::kSharedPerCycle;
  seconds += layout.blocks == 1 ? tuning::kBlockExchange : tuning::kClusterExchange;
  return seconds + inner / tuning::kClock;
}

std::vector<PersistentCandidate> persistentLayouts(RegionBuilder &region, tn::RecurrenceOp op) {
  const target::Target &gpu = region.gpu;
  int64_t batch = region.estimate(tn::getDims(op.getInput().getType())[1]);
  int64_t hidden = cast<RankedTensorType>(op.getWeights().getType()).getDimSize(0);
  std::vector<PersistentCandidate> found;
  auto consider = [&](int64_t blocks, int64_t rows, int64_t grid) {
    std::optional<PersistentCandidate> best;
    for (int64_t parts = 1; parts <= PersistentShape::kWarps; parts *= 2) {
      PersistentShape shape(op, {blocks, parts, rows, grid});
      bool hasUnits = (blocks - 1) * shape.units < hidden;
      if (!hasUnits || !shape.fits(gpu)) {
        continue;
      }
      double seconds = persistentStepSeconds(gpu, shape);
      if (!best || seconds < best->stepSeconds) {
        best = {shape.layout, seconds};
      }
    }
    if (best) {
      int64_t tiles = llvm::divideCeil(std::max<int64_t>(batch, 1), rows);
      int64_t atOnce = grid ? 1 : clustersAtOnce(gpu, blocks);
      best->stepSeconds *= double(llvm::divideCeil(tiles, atOnce));
      found.push_back(*best);
    }
  };
  bool isHalf = !getElementTypeOrSelf(op.getInput()).isF32();
  for (int64_t rows = isHalf ? 8 : 2; rows <= tuning::kPersistentRows; rows *= 2) {
    for (int64_t blocks = 1; blocks <= gpu.clusterBlocks; blocks *= 2) {
      consider(blocks, rows, 0);
    }
    // Blocks of 4, 8, 16 units and so on.
    for (int64_t units = 4; units <= 64; units *= 2) {
      int64_t blocks = llvm::divideCeil(hidden, units);
      // A plain architecture has parts with fewer multiprocessors than the one it is named by.
      if (blocks > 1 && blocks <= gpu.cores && !gpu.part.empty()) {
        consider(blocks, rows, 1);
      }
    }
    if (rows >= batch) {
      break;
    }
  }
  return found;
}

} // namespace tenon::codegen::cuda
