// The kernel of a group of tensors with the same dims: each thread computes a strip of elements
// along the last dim (or along all dims together), wide enough for 16-byte accesses. Relies on
// LLVM's load/store vectorizer to join the elements of a strip, whose alignment the frame states.
#include "compiler/codegen/cuda/pointwise/Schedule.h"

#include "compiler/dispatch/ElementwiseLaunchConfig.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// How the elements of the roots are shared out.
struct Layout : dispatch::ElementwiseLaunchConfig {
  /// Elements, and blocks.
  AffineExpr count, grid;
  /// Whether the blocks have no thread beyond the elements.
  bool isExact = false;
};

/// Whether some operand of a reduction is read along the last dim of its result `number`.
bool readsAlongLastDim(linalg::GenericOp op, unsigned number) {
  AffineMap output = op.getMatchingIndexingMap(op.getDpsInitOperand(number));
  if (output.getNumResults() == 0) {
    return false;
  }
  AffineDimExpr last = cast<AffineDimExpr>(output.getResults().back());
  bool isOperand = llvm::any_of(op.getDpsInputOperands(), [&](OpOperand *operand) {
    AffineMap map = op.getMatchingIndexingMap(operand);
    return map.getNumResults() > 0 && map.getResults().back() == last;
  });
  WalkResult extracts = op.walk([&](tensor::ExtractOp extract) {
    linalg::IndexOp index = extract.getIndices().empty()
                                ? linalg::IndexOp()
                                : extract.getIndices().back().getDefiningOp<linalg::IndexOp>();
    return index && index.getDim() == last.getPosition() ? WalkResult::interrupt()
                                                         : WalkResult::advance();
  });
  return isOperand || extracts.wasInterrupted();
}

/// Whether some reduction that a root computes in its thread reads nothing along the root's last
/// dim, so that a strip would only lengthen the thread's work.
bool hasRowReduction(RegionBuilder &region, Value tensor) {
  linalg::GenericOp op = tensor.getDefiningOp<linalg::GenericOp>();
  if (!op || region.bufferOf(tensor)) {
    return false;
  }
  if (isReduction(op)) {
    return !readsAlongLastDim(op, cast<OpResult>(tensor).getResultNumber());
  }
  return llvm::any_of(op.getDpsInputs(),
                      [&](Value input) { return hasRowReduction(region, input); });
}

/// With blocks of so many threads, or (0) of as many as suit the tensors.
Layout layoutOf(RegionBuilder &region, ArrayRef<Root> roots, unsigned threads) {
  tn::Dims dims = region.dims(roots.front().tensor);
  MLIRContext *context = region.source.getContext();
  Layout layout;
  layout.count = tn::elementCount(context, dims);
  dispatch::ElementwiseInfo info;
  info.isFlat = true;
  for (const Root &root : roots) {
    info.widest = std::max(info.widest, byteSize(getElementTypeOrSelf(root.tensor)));
    info.isFlat &= isPointwise(region, root.tensor);
    info.isSingle |= hasRowReduction(region, root.tensor);
  }
  info.estimate = region.estimate(dims);
  info.count = tn::constantDim(layout.count);
  info.along = info.isFlat && info.count ? info.count
               : dims.empty()            ? std::nullopt
                                         : tn::constantDim(dims.back());
  info.tensors = static_cast<int64_t>(region.source.getNumArguments() + roots.size());
  static_cast<dispatch::ElementwiseLaunchConfig &>(layout) =
      dispatch::elementwiseLaunchConfig(info, threads);
  int64_t perBlock = layout.lanes * layout.threads * layout.strips;
  layout.isExact = info.count && *info.count % perBlock == 0;
  layout.grid = layout.count.ceilDiv(perBlock);
  return layout;
}

/// The elements of all strips of a thread.
void emitStrips(ElementEmitter &emitter, ArrayRef<Root> roots, const Layout &layout,
                ArrayRef<Index> starts) {
  KernelFrame &kernel = emitter.kernel;
  tn::Dims dims = kernel.region.dims(roots.front().tensor);
  Indices sizes = kernel.sizes(dims);
  SmallVector<Indices> places;
  SmallVector<Index> linears;
  for (const Index &start : starts) {
    for (int64_t lane = 0; lane < layout.lanes; ++lane) {
      Index linear = emitter.math.add(start, Index::constant(lane));
      places.push_back(emitter.math.delinearize(linear, sizes));
      linears.push_back(linear);
      emitter.setLinear(dims, places.back(), linear);
    }
  }
  SmallVector<SmallVector<Value>> values;
  for (const Root &root : roots) {
    values.push_back(emitter.elements(root.tensor, places));
  }
  for (auto [root, elements] : llvm::zip(roots, values)) {
    for (auto [value, linear] : llvm::zip(elements, linears)) {
      kernel.store(root.buffer, value, linear);
    }
  }
}

/// Whether the kernel moves one buffer into another as it is: what a scatter starts from.
bool isWholeCopy(RegionBuilder &region, ArrayRef<Root> roots) {
  linalg::GenericOp op = roots.front().tensor.getDefiningOp<linalg::GenericOp>();
  return roots.size() == 1 && op && linalg::isaCopyOpInterface(op) &&
         region.bufferOf(op.getDpsInputs().front()) &&
         tn::sameDims(region.dims(op.getDpsInputs().front()), region.dims(roots.front().tensor));
}

/// The strips of a thread, as far as there are elements.
void emitThread(ElementEmitter &emitter, ArrayRef<Root> roots, const Layout &layout,
                const Index &block) {
  KernelFrame &kernel = emitter.kernel;
  IndexMath &math = kernel.math;
  Index thread = kernel.thread();
  SmallVector<Index> starts;
  for (int64_t strip = 0; strip < layout.strips; ++strip) {
    Index group =
        math.add(math.multiply(block, Index::constant(layout.strips)), Index::constant(strip));
    Index number = math.add(math.multiply(group, Index::constant(layout.threads)), thread);
    starts.push_back(math.multiply(number, Index::constant(layout.lanes)));
  }
  if (layout.isExact) {
    emitStrips(emitter, roots, layout, starts);
    return;
  }
  Value isInside =
      arith::CmpIOp::create(kernel.builder, kernel.location, arith::CmpIPredicate::ult,
                            math.value(starts.front()), math.value(kernel.size(layout.count)));
  emitter.when(isInside, [&] { emitStrips(emitter, roots, layout, starts); });
}

Part partOf(const KernelRoots &group, const Layout &layout) {
  return {layout.grid, [roots = group.roots, layout](ElementEmitter &emitter, const Index &block) {
            emitThread(emitter, roots, layout, block);
          }};
}

} // namespace

Part pointsPart(RegionBuilder &region, const KernelRoots &group, unsigned threads) {
  return partOf(group, layoutOf(region, group.roots, threads));
}

void emitPointsKernel(RegionBuilder &region, const KernelRoots &group, bool &hasFailed) {
  Layout layout = layoutOf(region, group.roots, 0);
  emitParts(region, partOf(group, layout), layout.threads, hasFailed);
  region.code.steps.back().isCopy = isWholeCopy(region, group.roots);
}

} // namespace tenon::codegen::cuda
