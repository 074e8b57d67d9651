// Walks from the roots to what lies in buffers. Relies on outputs of generics being identity maps,
// as Lowering makes them, except for reductions, which leave out loops.
#include "compiler/codegen/cuda/rows/RowsWork.h"

#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/rows/RowsCombine.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Whether dim i of an operand is read at loop `loopOf(i)`, or is 1 and read at 0.
bool followsLoops(linalg::GenericOp op, OpOperand &operand,
                  llvm::function_ref<size_t(size_t)> loopOf) {
  ArrayRef<int64_t> sizes = cast<RankedTensorType>(operand.get().getType()).getShape();
  ArrayRef<AffineExpr> places = op.getMatchingIndexingMap(&operand).getResults();
  for (auto [i, place] : llvm::enumerate(places)) {
    AffineDimExpr dim = dyn_cast<AffineDimExpr>(place);
    bool isOnly = sizes[i] == 1 && tn::constantDim(place) == 0;
    if (!isOnly && (!dim || dim.getPosition() != loopOf(i))) {
      return false;
    }
  }
  return true;
}

class Finder {
public:
  explicit Finder(RegionBuilder &region) : region(region) {}

  std::optional<RowsWork> run(ArrayRef<Root> roots);

private:
  /// Whether all that `tensor` is made of can be emitted; notes reductions and inputs on the way.
  bool visit(Value tensor);
  bool visitOp(linalg::GenericOp op);
  bool noteReduction(linalg::GenericOp op);
  bool isAligned(linalg::GenericOp op, OpOperand &operand) const;
  std::optional<RowsWork::Shape> shapeOf(Value tensor) const;
  bool dependsOnReduction(Value tensor);
  void noteParameter(linalg::GenericOp op, OpOperand &operand);

  RegionBuilder &region;
  RowsWork work;
  llvm::DenseMap<Value, bool> visited, dependent;
  llvm::SmallVector<std::pair<linalg::GenericOp, OpOperand *>> fromBuffers;
};

std::optional<RowsWork::Shape> Finder::shapeOf(Value tensor) const {
  tn::Dims dims = region.dims(tensor);
  size_t outer = work.rows.size();
  if (dims.size() < outer || !tn::sameDims(ArrayRef(dims).take_front(outer), work.rows)) {
    return std::nullopt;
  }
  ArrayRef<AffineExpr> rest = ArrayRef(dims).drop_front(outer);
  size_t within = rest.size() == work.behind.size() ? 0 : work.within.size();
  if (rest.size() < within) {
    return std::nullopt;
  }
  ArrayRef<AffineExpr> last = rest.take_back(within);
  rest = rest.drop_back(within);
  size_t behind = work.behind.size();
  if (rest.size() < behind || !tn::sameDims(rest.take_back(behind), work.behind)) {
    return std::nullopt;
  }
  rest = rest.drop_back(behind);
  if (tn::sameDims(rest, work.inner) && tn::sameDims(last, work.within)) {
    return RowsWork::Shape::Wide;
  }
  auto isOne = [](AffineExpr dim) { return tn::constantDim(dim) == 1; };
  bool isNarrow = llvm::all_of(rest, isOne) && llvm::all_of(last, isOne);
  return isNarrow ? std::optional(RowsWork::Shape::Narrow) : std::nullopt;
}

bool Finder::dependsOnReduction(Value tensor) {
  auto known = dependent.find(tensor);
  if (known != dependent.end()) {
    return known->second;
  }
  linalg::GenericOp op = tensor.getDefiningOp<linalg::GenericOp>();
  bool result = false;
  if (op && !region.bufferOf(tensor)) {
    result = isReduction(op) || llvm::any_of(op.getDpsInputs(), [&](Value input) {
               return dependsOnReduction(input);
             });
    op->walk([&](tensor::ExtractOp extract) { result |= dependsOnReduction(extract.getTensor()); });
  }
  dependent[tensor] = result;
  return result;
}

/// Whether the operand is read at the place of the loops themselves (a dim of 1 at 0), which it may
/// have without those that reductions leave out.
bool Finder::isAligned(linalg::GenericOp op, OpOperand &operand) const {
  size_t rank = cast<RankedTensorType>(operand.get().getType()).getRank();
  size_t leftOut = op.getNumLoops() - std::min<size_t>(rank, op.getNumLoops());
  leftOut -= std::min(leftOut, work.within.size()); // behind all others
  auto loopOf = [&](size_t i) { return i < work.rows.size() ? i : i + leftOut; };
  return followsLoops(op, operand, loopOf) && shapeOf(operand.get()).has_value();
}

bool Finder::noteReduction(linalg::GenericOp op) {
  if (llvm::is_contained(work.reductions, op)) {
    return true;
  }
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  auto isKept = [](utils::IteratorType type) { return type == utils::IteratorType::parallel; };
  size_t outer = llvm::find_if_not(iterators, isKept) - iterators.begin();
  auto fromEnd = llvm::reverse(iterators);
  size_t within = llvm::find_if(fromEnd, isKept) - fromEnd.begin();
  within = within < op.getNumReductionLoops() ? within : 0; // else they are all of the reduced
  auto front = llvm::drop_begin(fromEnd, within);
  size_t behind = llvm::find_if_not(front, isKept) - front.begin();
  bool isTogether = outer + op.getNumReductionLoops() + behind == iterators.size();
  AffineMap rows =
      AffineMap::getFilteredIdentityMap(op.getContext(), iterators.size(), [&](AffineDimExpr dim) {
        return isKept(iterators[dim.getPosition()]);
      });
  bool keepsRows = llvm::all_of(op.getDpsInitsMutable(), [&](OpOperand &init) {
    return op.getMatchingIndexingMap(&init) == rows;
  });
  bool readsAll = llvm::any_of(op.getDpsInputOperands(),
                               [&](OpOperand *operand) { return isReadInPlace(op, *operand); });
  if (!isTogether || !keepsRows || !readsAll || !Combiner::of(op)) {
    return false;
  }
  tn::Dims loops = region.loopSizes(op);
  ArrayRef<AffineExpr> all(loops);
  tn::Dims first(all.take_front(outer)), ofGroup(all.take_back(within)),
      last(all.drop_back(within).take_back(behind)),
      own(all.drop_front(outer).drop_back(behind + within));
  if (work.reductions.empty()) {
    work.rows = first;
    work.inner = own;
    work.behind = last;
    work.within = ofGroup;
  }
  bool isSame = tn::sameDims(first, work.rows) && tn::sameDims(own, work.inner) &&
                tn::sameDims(last, work.behind) && tn::sameDims(ofGroup, work.within);
  if (isSame) {
    work.reductions.push_back(op);
  }
  return isSame;
}

bool Finder::visitOp(linalg::GenericOp op) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (!op.getMatchingBlockArgument(&operand).use_empty() && !visit(operand.get())) {
      return false;
    }
  }
  WalkResult walked = op->walk([&](tensor::ExtractOp extract) {
    return visit(extract.getTensor()) && !dependsOnReduction(extract.getTensor())
               ? WalkResult::advance()
               : WalkResult::interrupt();
  });
  if (walked.wasInterrupted() || (isReduction(op) && !noteReduction(op))) {
    return false;
  }
  for (OpOperand &operand : op->getOpOperands()) {
    bool isUsed = !op.getMatchingBlockArgument(&operand).use_empty();
    if (isUsed && dependsOnReduction(operand.get()) && !isAligned(op, operand)) {
      return false;
    }
    bool isRead = isUsed && !op.isDpsInit(&operand) && region.bufferOf(operand.get());
    if (isRead) {
      fromBuffers.push_back({op, &operand});
    }
    bool isWhole = isRead && isReadInPlace(op, operand);
    if (isWhole && !llvm::is_contained(work.inputs, operand.get())) {
      work.inputs.push_back(operand.get());
    }
  }
  return true;
}

void Finder::noteParameter(linalg::GenericOp op, OpOperand &operand) {
  Value tensor = operand.get();
  tn::Dims dims = region.dims(tensor);
  ArrayRef<AffineExpr> places = op.getMatchingIndexingMap(&operand).getResults();
  size_t count = work.inner.size();
  bool isKnown = llvm::is_contained(work.parameters, tensor) || dims.size() < count ||
                 op.getNumLoops() != work.rows.size() + count ||
                 !tn::sameDims(ArrayRef(dims).take_back(count), work.inner);
  for (size_t i = 0; i < dims.size() && !isKnown; ++i) {
    size_t fromEnd = dims.size() - i;
    AffineDimExpr dim = dyn_cast<AffineDimExpr>(places[i]);
    isKnown = fromEnd > count ? tn::constantDim(dims[i]) != 1
                              : !dim || dim.getPosition() != op.getNumLoops() - fromEnd;
  }
  if (!isKnown) {
    work.parameters.push_back(tensor);
  }
}

bool Finder::visit(Value tensor) {
  if (region.bufferOf(tensor)) {
    return true;
  }
  Operation *op = tensor.getDefiningOp();
  if (!op || op->getNumRegions() == 0 || isa<linalg::FillOp>(op)) {
    return op != nullptr;
  }
  auto known = visited.find(tensor);
  if (known != visited.end()) {
    return known->second;
  }
  linalg::GenericOp generic = dyn_cast<linalg::GenericOp>(op);
  bool result = generic && visitOp(generic);
  visited[tensor] = result;
  return result;
}

std::optional<RowsWork> Finder::run(ArrayRef<Root> roots) {
  for (const Root &root : roots) {
    if (!visit(root.tensor)) {
      return std::nullopt;
    }
  }
  if (work.reductions.empty()) {
    return std::nullopt;
  }
  for (const Root &root : roots) {
    std::optional<RowsWork::Shape> shape = shapeOf(root.tensor);
    if (!shape) {
      return std::nullopt;
    }
    (*shape == RowsWork::Shape::Wide ? work.wide : work.narrow).push_back(root);
  }
  llvm::erase_if(work.inputs, [&](Value input) {
    return shapeOf(input) != std::optional(RowsWork::Shape::Wide);
  });
  for (auto [op, operand] : fromBuffers) {
    if (work.behind.empty()) {
      noteParameter(op, *operand);
    }
  }
  return std::move(work);
}

} // namespace

bool isReadInPlace(linalg::GenericOp op, OpOperand &operand) {
  return op.getMatchingIndexingMap(&operand).getNumResults() == op.getNumLoops() &&
         followsLoops(op, operand, [](size_t i) { return i; });
}

/// Nothing if the region's results are of neither kind.
static std::optional<RowsWork> findWork(RegionBuilder &region) {
  FailureOr<func::FuncOp> function = region.linalg();
  if (failed(function)) {
    return std::nullopt;
  }
  SmallVector<Root> roots;
  for (auto [i, value] :
       llvm::enumerate(function->getBody().front().getTerminator()->getOperands())) {
    roots.push_back({value, region.output(i)});
  }
  return Finder(region).run(roots);
}

std::optional<RowsWork> findRowsWork(RegionBuilder &region) {
  std::optional<RowsWork> work = findWork(region);
  return work && work->behind.empty() ? std::move(work) : std::nullopt;
}

std::optional<RowsWork> findColumnsWork(RegionBuilder &region) {
  std::optional<RowsWork> work = findWork(region);
  return work && !work->behind.empty() ? std::move(work) : std::nullopt;
}

} // namespace tenon::codegen::cuda
