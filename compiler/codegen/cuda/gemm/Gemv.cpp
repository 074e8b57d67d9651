// From a region to the problem, and from the problem to a layout. Relies on
// dispatch/PackWeights.cpp for the two ways in which weights lie.
#include "compiler/codegen/cuda/gemm/Gemv.h"

#include "compiler/codegen/common/RegionSource.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/gemm/GemvKernel.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"
#include "compiler/dispatch/FewRows.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

bool isArgument(Value value) { return isa<BlockArgument>(value); }

uint32_t numberOf(Value value) { return cast<BlockArgument>(value).getArgNumber(); }

/// Reads where the weights lie: packed in panels of 32 of the depth, or as [columns, depth].
bool readWeights(GemvProblem &problem, tn::MatmulOp op) {
  tn::UnpackOp unpack = op.getB().getDefiningOp<tn::UnpackOp>();
  Value stored = unpack ? unpack.getPacked() : op.getB();
  if (!isArgument(stored)) {
    return false;
  }
  problem.weights = numberOf(stored);
  problem.element = getElementTypeOrSelf(stored);
  problem.isPacked = unpack != nullptr;
  if (!unpack) {
    problem.columnStride = problem.depth;
    problem.panelStride = kGemvPanel;
    return op.getTransposeB();
  }
  problem.columnStride = kGemvPanel;
  problem.panelStride = problem.columns * kGemvPanel;
  return isPackedInPanels(unpack, op.getTransposeB(), kGemvPanel);
}

/// A is an input, or the RMS norm of one over its last dim.
std::optional<Value> readNorm(GemvProblem &problem, Value a) {
  tn::RmsNormOp norm = a.getDefiningOp<tn::RmsNormOp>();
  if (!norm) {
    return a;
  }
  Value scale = norm.getScale();
  if (!dispatch::isStreamedNorm(norm) || (scale && !isArgument(scale))) {
    return std::nullopt;
  }
  problem.norm = GemvNorm{};
  problem.norm->epsilon = norm.getEpsilon().convertToDouble();
  if (scale) {
    problem.norm->scale = numberOf(scale);
  }
  return norm.getX();
}

/// The parts of the sums that an element of the result is made of; 0 if they are not equal slices
/// of the columns.
int64_t partsOf(tn::MatmulOp op, Value result) {
  tn::Dims whole = tn::getDims(op.getType()), dims = tn::getDims(result.getType());
  if (tn::sameDims(whole, dims)) {
    return 1;
  }
  int64_t columns = *tn::constantDim(whole.back());
  std::optional<int64_t> part = tn::constantDim(dims.back());
  auto isPart = [&](Operation *user) {
    tn::SliceOp slice = dyn_cast<tn::SliceOp>(user);
    if (!slice || !tn::sameDims(tn::getDims(slice.getType()), dims)) {
      return false;
    }
    ArrayRef<AffineExpr> starts = slice.getStarts().getResults();
    std::optional<int64_t> start = tn::constantDim(starts.back());
    bool isWhole = llvm::all_of(
        starts.drop_back(), [](AffineExpr expression) { return tn::constantDim(expression) == 0; });
    return isWhole && start && *start % *part == 0 &&
           llvm::all_of(slice.getSteps(), [](int64_t step) { return step == 1; });
  };
  return part && *part * 2 == columns && llvm::all_of(op.getY().getUsers(), isPart) ? 2 : 0;
}

} // namespace

Fit<GemvProblem> matchGemv(RegionBuilder &region) {
  auto ops = region.source.getOps<tn::MatmulOp>();
  if (!llvm::hasSingleElement(ops) || region.source.getNumResults() != 1) {
    return Misfit{"it is not one product with one result"};
  }
  tn::MatmulOp op = *ops.begin();
  if (!dispatch::isStreamed(op)) {
    return Misfit{"only 1 to 16 rows of f16 or bf16 by a matrix, the depth a multiple of 8 and at "
                  "least 256, are bound by the stream of weights"};
  }
  GemvProblem problem;
  tn::Dims dims = tn::getDims(op.getType());
  problem.rows = *dispatch::rowsOf(op.getA().getType());
  problem.rowDims.assign(dims.begin(), dims.end() - 1);
  problem.columns = *tn::constantDim(dims.back());
  problem.depth = *tn::constantDim(tn::getDims(op.getA().getType()).back());
  Operation *exit = region.source.getBody().front().getTerminator();
  problem.parts = partsOf(op, exit->getOperand(0));
  if (problem.parts == 0) {
    return Misfit{"what follows reads other parts than the whole or the two halves of the columns"};
  }
  if (!readWeights(problem, op) || !region.source.getArgAttr(problem.weights, kConstantArgument)) {
    return Misfit{"B is not a constant that lies as [columns, depth] or in panels of 32"};
  }
  std::optional<Value> a = readNorm(problem, op.getA());
  if (!a || !isArgument(*a) || !productTensors(region)) {
    return Misfit{"A is computed by something else than an RMS norm of its rows"};
  }
  problem.input = numberOf(*a);
  return problem;
}

/// What was the fastest (Tuning.h).
GemvLayout chooseGemvLayout(const GemvProblem &problem, const target::Target &gpu) {
  bool isNarrow = problem.rows <= kMmaColumns;
  int64_t panels = problem.panels(), tiles = problem.tiles();
  bool isLong = panels > (isNarrow ? tuning::kGemvLongNarrow : tuning::kGemvLongWide);
  bool isShared = !isLong && problem.isPacked && tiles > gpu.cores;
  GemvLayout layout;
  layout.warps = isLong ? tuning::kGemvLongWarps : tuning::kGemvWarps;
  // With two groups of rows, registers for two blocks of a processor hold half as many panels.
  bool areFew = isLong || (!isNarrow && isShared);
  int64_t most = areFew ? tuning::kGemvFewPanels : tuning::kGemvPanels;
  layout.blocksAtOnce = isShared ? tuning::kGemvBlocksAtOnce : 1;
  int64_t share = llvm::divideCeilSigned(panels, layout.warps);
  layout.chunks = llvm::divideCeilSigned(share, most);
  layout.panels = llvm::divideCeilSigned(share, layout.chunks);
  if (!problem.isPacked) {
    layout.panels = llvm::alignTo(layout.panels, 2); // two lie in a line
  }
  int64_t turns = llvm::divideCeilSigned(tiles, gpu.cores * layout.blocksAtOnce);
  layout.blocks = llvm::divideCeilSigned(tiles, turns);
  return layout;
}

bool emitGemv(RegionBuilder &region, const GemvProblem &problem, const GemvLayout &layout) {
  return GemvKernel(region, problem, layout).emit();
}

namespace {

Offer offerGemv(RegionBuilder &region) {
  Fit<GemvProblem> problem = matchGemv(region);
  if (!problem) {
    return Offer::refuse(problem.why());
  }
  return {dispatch::choiceOf(kGemv.name, chooseGemvLayout(*problem, region.gpu)),
          "few rows: the weights stream from memory once"};
}

LogicalResult emitChosenGemv(RegionBuilder &region, const dispatch::KernelChoice &choice) {
  Fit<GemvProblem> problem = matchGemv(region);
  GemvLayout layout;
  return success(problem && succeeded(readChoice(region, choice, layout)) &&
                 emitGemv(region, *problem, layout));
}

} // namespace

constexpr KernelFamily kGemv = {
    .name = "gemv",
    .what = "GEMV and skinny GEMM of up to 16 rows: weights stream from memory into MMA fragments",
    .strategies = {dispatch::kContraction},
    .match = offerGemv,
    .configs = nullptr,
    .emit = emitChosenGemv};

} // namespace tenon::codegen::cuda
