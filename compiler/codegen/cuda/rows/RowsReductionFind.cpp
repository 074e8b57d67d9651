// Finds the reductions that are shared out among many threads. Relies on outputs of generics that
// do not reduce being identity maps, as Lowering makes them.
#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/rows/RowsReduction.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace tenon::codegen::cuda {

std::optional<WholeSource> wholeSource(RegionBuilder &region, linalg::GenericOp op) {
  for (OpOperand *input : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(input);
    if (map.getNumResults() > 0 && map.getNumResults() == op.getNumLoops() && map.isPermutation()) {
      unsigned inner = cast<AffineDimExpr>(map.getResults().back()).getPosition();
      return WholeSource{getElementTypeOrSelf(input->get()), inner};
    }
  }
  AffineExpr steps = tn::elementCount(op.getContext(), region.loopSizes(op));
  std::optional<WholeSource> source;
  op->walk([&](tensor::ExtractOp extract) {
    AffineExpr count = tn::elementCount(op.getContext(), region.dims(extract.getTensor()));
    if (tn::sameDim(count, steps)) {
      source = WholeSource{extract.getType(), op.getNumLoops() - 1};
    }
  });
  return source;
}

namespace {

bool hasOneElement(AffineExpr dim) { return tn::constantDim(dim) == 1; }

/// The reduction that all of the roots are made of.
class ReductionFinder {
public:
  explicit ReductionFinder(RegionBuilder &region) : region(region) {}

  linalg::GenericOp find(ArrayRef<Root> roots) {
    for (const Root &root : roots) {
      if (!visit(root.tensor)) {
        return {};
      }
    }
    return found && keepsOrder() ? found : linalg::GenericOp();
  }

private:
  /// False if another reduction is in the way, or the found one is read at other places.
  bool visit(Value tensor);
  bool keepsOrder();
  bool readsOwnPlace(linalg::GenericOp op, OpOperand &operand);

  RegionBuilder &region;
  linalg::GenericOp found;
  /// What depends on the reduction.
  llvm::DenseSet<Value> dependent;
};

bool ReductionFinder::readsOwnPlace(linalg::GenericOp op, OpOperand &operand) {
  tn::Dims dims = region.dims(operand.get()), loops = region.loopSizes(op);
  SmallVector<unsigned> read, all;
  for (auto [i, expression] : llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults())) {
    AffineDimExpr dim = dyn_cast<AffineDimExpr>(expression);
    if (!hasOneElement(dims[i]) && !dim) {
      return false;
    }
    if (!hasOneElement(dims[i])) {
      read.push_back(dim.getPosition());
    }
  }
  for (auto [i, size] : llvm::enumerate(loops)) {
    if (!hasOneElement(size)) {
      all.push_back(i);
    }
  }
  return read == all;
}

bool ReductionFinder::visit(Value tensor) {
  linalg::GenericOp op = tensor.getDefiningOp<linalg::GenericOp>();
  if (region.bufferOf(tensor) || !op) {
    return true;
  }
  if (isReduction(op)) {
    dependent.insert(tensor);
    bool isFirst = !found;
    found = isFirst ? op : found;
    return found == op;
  }
  for (OpOperand &operand : op->getOpOperands()) {
    if (op.getMatchingBlockArgument(&operand).use_empty()) {
      continue;
    }
    if (!visit(operand.get())) {
      return false;
    }
    if (dependent.contains(operand.get())) {
      dependent.insert(tensor);
      if (!readsOwnPlace(op, operand)) {
        return false;
      }
    }
  }
  WalkResult walked = op->walk([&](tensor::ExtractOp extract) {
    return visit(extract.getTensor()) && !dependent.contains(extract.getTensor())
               ? WalkResult::advance()
               : WalkResult::interrupt();
  });
  return !walked.wasInterrupted();
}

bool ReductionFinder::keepsOrder() {
  if (!Combiner::of(found) || !wholeSource(region, found)) {
    return false;
  }
  SmallVector<utils::IteratorType> iterators = found.getIteratorTypesArray();
  AffineMap kept = AffineMap::getFilteredIdentityMap(
      found.getContext(), iterators.size(), [&](AffineDimExpr dim) {
        return iterators[dim.getPosition()] == utils::IteratorType::parallel;
      });
  return llvm::all_of(found.getDpsInitsMutable(),
                      [&](OpOperand &init) { return found.getMatchingIndexingMap(&init) == kept; });
}

} // namespace

linalg::GenericOp findReduction(RegionBuilder &region, ArrayRef<Root> roots) {
  return ReductionFinder(region).find(roots);
}

} // namespace tenon::codegen::cuda
