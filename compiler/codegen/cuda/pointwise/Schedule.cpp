// Counts how often each tensor would be computed if nothing were stored, from the readers to what
// they read. Relies on the linalg function being one block of ops on tensors.
#include "compiler/codegen/cuda/pointwise/Schedule.h"

#include "compiler/codegen/common/lower/Ranked.h"
#include "compiler/codegen/common/region/Collective.h"
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/library/LibraryMatch.h"
#include "compiler/codegen/cuda/pointwise/Tuning.h"
#include "compiler/codegen/cuda/rows/RowsReduction.h"
#include "compiler/dispatch/OpKinds.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/TnCustom.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

bool isCostly(linalg::GenericOp op) {
  Block &body = op.getRegion().front();
  bool hasFunction = llvm::any_of(body, [](Operation &inner) {
    bool isSimple = isa<math::AbsFOp, math::AbsIOp, math::FloorOp, math::CeilOp>(inner);
    return isa<math::MathDialect>(inner.getDialect()) && !isSimple;
  });
  return hasFunction || llvm::range_size(body) > 24;
}

double mostComputations(linalg::GenericOp op) {
  return isReduction(op) ? tuning::kReduced : isCostly(op) ? tuning::kCostly : tuning::kCheap;
}

class Scheduler {
public:
  Scheduler(RegionBuilder &region, func::FuncOp function)
      : region(region), block(function.getBody().front()) {}

  std::vector<KernelRoots> run() {
    decide();
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands())) {
      addResult(value, region.output(i));
    }
    for (Operation &op : block.without_terminator()) {
      addOp(op);
    }
    // Copies of inputs, and of results that are given twice.
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands())) {
      if (destinations[value].front() != region.output(i) || isa<BlockArgument>(value)) {
        addRoot({value, region.output(i)});
      }
    }
    return std::move(kernels);
  }

private:
  /// Walks from the readers to what they read and settles what is stored.
  void decide();
  double readsInNest(Operation *op, scf::ForOp nest);
  void count(Operation *op, double evaluations);
  void addResult(Value value, unsigned buffer) { destinations[value].push_back(buffer); }
  unsigned destination(Value value);
  void addOp(Operation &op);
  void addNest(scf::ForOp nest);
  void addRoot(Root root);
  bool readsOnlyAtSamePlace(Value value, const KernelRoots &kernel);

  RegionBuilder &region;
  Block &block;
  /// Elements asked for of each tensor.
  llvm::DenseMap<Value, double> asked;
  llvm::DenseSet<Value> stored;
  llvm::DenseMap<Value, SmallVector<unsigned>> destinations;
  std::vector<KernelRoots> kernels;
};

void Scheduler::decide() {
  for (Value value : block.getTerminator()->getOperands()) {
    stored.insert(value);
  }
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (scf::ForOp nest = dyn_cast<scf::ForOp>(op)) {
      stored.insert_range(op.getResults());
      op.walk([&](tensor::ExtractOp extract) {
        asked[extract.getTensor()] += readsInNest(extract, nest);
      });
      continue;
    }
    linalg::GenericOp generic = dyn_cast<linalg::GenericOp>(op);
    if (!generic) {
      continue;
    }
    double most = 0, evaluations = 0;
    bool isStored = false;
    for (Value result : op.getResults()) {
      double size = region.estimate(region.dims(result));
      most = std::max(most, asked[result] / size);
      evaluations = std::max(evaluations, asked[result]);
      isStored |= stored.contains(result);
    }
    if (!isStored && most > mostComputations(generic)) {
      isStored = true;
      for (Value result : op.getResults()) {
        if (asked[result] > 0) {
          stored.insert(result);
        }
      }
    }
    SmallVector<unsigned> reductions;
    generic.getReductionDims(reductions);
    tn::Dims loops = region.loopSizes(generic);
    double steps = 1;
    for (unsigned loop : reductions) {
      steps *= region.estimate(loops[loop]);
    }
    double places = isStored ? region.estimate(region.dims(op.getResult(0))) : evaluations;
    count(&op, places * steps);
  }
}

/// How many elements an access in a nest reads.
double Scheduler::readsInNest(Operation *op, scf::ForOp nest) {
  double reads = tuning::kNestRead;
  for (Operation *outer = op->getParentOp(); outer != nest->getParentOp();
       outer = outer->getParentOp()) {
    scf::ForOp loop = dyn_cast<scf::ForOp>(outer);
    AffineExpr size = loop ? region.expressionOf(loop.getUpperBound()) : AffineExpr();
    if (loop && !size) {
      Value tensor = cast<tensor::ExtractOp>(op).getTensor();
      return tuning::kNestReads * region.estimate(region.dims(tensor));
    }
    reads *= size ? region.estimate(size) : 1;
  }
  return reads;
}

/// Notes that the body of `op` is evaluated so many times.
void Scheduler::count(Operation *op, double evaluations) {
  linalg::GenericOp generic = cast<linalg::GenericOp>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!generic.getMatchingBlockArgument(&operand).use_empty()) {
      asked[operand.get()] += evaluations;
    }
  }
  op->walk([&](tensor::ExtractOp extract) { asked[extract.getTensor()] += evaluations; });
}

unsigned Scheduler::destination(Value value) {
  SmallVector<unsigned> &buffers = destinations[value];
  if (buffers.empty()) {
    AffineExpr count = tn::elementCount(block.getParent()->getContext(), region.dims(value));
    buffers.push_back(region.addTemporary(count * byteSize(getElementTypeOrSelf(value))));
  }
  return buffers.front();
}

/// Whether `value`, computed in a kernel with `kernel.roots`, needs them nowhere but at its own
/// place.
bool Scheduler::readsOnlyAtSamePlace(Value value, const KernelRoots &kernel) {
  SmallVector<std::pair<Value, bool>> open = {{value, true}};
  llvm::DenseSet<Value> seenSame, seenElsewhere;
  while (!open.empty()) {
    auto [current, isSame] = open.pop_back_val();
    if (!(isSame ? seenSame : seenElsewhere).insert(current).second) {
      continue;
    }
    bool isRoot =
        llvm::any_of(kernel.roots, [&](const Root &root) { return root.tensor == current; });
    if (isRoot) {
      if (!isSame) {
        return false;
      }
      continue;
    }
    linalg::GenericOp op = current.getDefiningOp<linalg::GenericOp>();
    if (!op || (current != value && stored.contains(current))) {
      continue;
    }
    AffineMap output =
        op.getMatchingIndexingMap(op.getDpsInitOperand(cast<OpResult>(current).getResultNumber()));
    for (OpOperand &operand : op->getOpOperands()) {
      bool keeps = isSame && op.getMatchingIndexingMap(&operand) == output;
      open.push_back({operand.get(), keeps});
    }
    op->walk([&](tensor::ExtractOp extract) { open.push_back({extract.getTensor(), false}); });
  }
  return true;
}

void Scheduler::addRoot(Root root) {
  if (!kernels.empty() && !kernels.back().nest) {
    KernelRoots &last = kernels.back();
    bool isSame = tn::sameDims(region.dims(last.roots.front().tensor), region.dims(root.tensor));
    if (isSame && readsOnlyAtSamePlace(root.tensor, last)) {
      last.roots.push_back(root);
      return;
    }
  }
  kernels.push_back({{root}, nullptr});
}

void Scheduler::addNest(scf::ForOp nest) {
  KernelRoots kernel;
  kernel.nest = nest;
  for (OpResult result : nest->getResults()) {
    if (!isa<RankedTensorType>(result.getType())) {
      continue;
    }
    Root root{result, destination(result)};
    kernel.roots.push_back(root);
    Value start = nest.getInits()[result.getResultNumber()];
    if (!start.getDefiningOp<tensor::EmptyOp>()) {
      // The start of the nest is computed into its buffer, apart from whatever else reads it.
      addRoot({start, root.buffer});
    }
  }
  kernels.push_back(std::move(kernel));
}

void Scheduler::addOp(Operation &op) {
  if (scf::ForOp nest = dyn_cast<scf::ForOp>(op)) {
    return addNest(nest);
  }
  for (Value result : op.getResults()) {
    if (isa<RankedTensorType>(result.getType()) && stored.contains(result)) {
      addRoot({result, destination(result)});
    }
  }
}

} // namespace

std::vector<KernelRoots> schedule(RegionBuilder &region, func::FuncOp function) {
  return Scheduler(region, function).run();
}

bool startsNest(Value tensor) {
  return llvm::any_of(tensor.getUsers(), [&](Operation *user) {
    scf::ForOp nest = dyn_cast<scf::ForOp>(user);
    return nest && llvm::is_contained(nest.getInits(), tensor);
  });
}

void markStored(RegionBuilder &region, const KernelRoots &kernel) {
  for (const Root &root : kernel.roots) {
    bool isNestResult = root.tensor.getDefiningOp<scf::ForOp>() != nullptr;
    if ((!startsNest(root.tensor) || isNestResult) && !region.bufferOf(root.tensor)) {
      region.setBuffer(root.tensor, root.buffer);
    }
  }
}

bool isPointwise(RegionBuilder &region, Value tensor) {
  if (region.bufferOf(tensor) || !tensor.getDefiningOp<linalg::GenericOp>()) {
    return true;
  }
  linalg::GenericOp op = tensor.getDefiningOp<linalg::GenericOp>();
  if (isReduction(op)) {
    return false;
  }
  for (Operation &inner : op.getRegion().front()) {
    if (isa<linalg::IndexOp, tensor::ExtractOp>(inner)) {
      return false;
    }
  }
  AffineMap output =
      op.getMatchingIndexingMap(op.getDpsInitOperand(cast<OpResult>(tensor).getResultNumber()));
  for (OpOperand &operand : op->getOpOperands()) {
    if (op.getMatchingBlockArgument(&operand).use_empty()) {
      continue;
    }
    AffineMap map = op.getMatchingIndexingMap(&operand);
    bool isSingle = map.isConstant() || map.getNumResults() == 0;
    bool isSame = map == output && tn::sameDims(region.dims(operand.get()), region.dims(tensor));
    if (!isSingle && (!isSame || !isPointwise(region, operand.get()))) {
      return false;
    }
  }
  return true;
}

namespace {

FamilyMatch matchPoints(RegionBuilder &region) {
  if (llvm::any_of(region.source.getOps<tn::TopKOp>(), takesMany)) {
    return FamilyMatch::refuse("many of a row are no loop nest");
  }
  if (!region.source.getOps<tn::RecurrenceOp>().empty()) {
    return FamilyMatch::refuse("a recurrent layer is no loop nest");
  }
  if (hasExchange(region.source)) {
    return FamilyMatch::refuse("ranks exchange what it reads");
  }
  if (!region.source.getOps<tn::CustomOp>().empty()) {
    return FamilyMatch::refuse("only a kernel of the user's computes it");
  }
  // Any other region has a linalg form, but for faults of ours, which `emit` reports.
  return FamilyMatch::take(AnyRegion(), {kPointwise.name.str(), {}}, "takes any region");
}

void emitTensors(RegionBuilder &region, const KernelRoots &kernel, bool &hasFailed);

/// Reductions of which one needs the other are shared out one after the other, not computed by a
/// thread for each result. False if there are none.
bool emitApart(RegionBuilder &region, const KernelRoots &kernel, bool &hasFailed) {
  bool isShared = llvm::any_of(kernel.roots,
                               [&](const Root &root) { return isSharedReduction(region, {root}); });
  if (kernel.roots.size() == 1 || !isShared) {
    return false;
  }
  for (const Root &root : kernel.roots) {
    KernelRoots single{{root}, nullptr};
    emitTensors(region, single, hasFailed);
    markStored(region, single);
  }
  return true;
}

void emitTensors(RegionBuilder &region, const KernelRoots &kernel, bool &hasFailed) {
  if (!emitReductionKernels(region, kernel, hasFailed) && !emitApart(region, kernel, hasFailed) &&
      !emitTransposeKernel(region, kernel, hasFailed)) {
    emitPointsKernel(region, kernel, hasFailed);
  }
}

LogicalResult emitPoints(RegionBuilder &region, const AnyRegion &, const dispatch::KernelChoice &) {
  FailureOr<func::FuncOp> function = region.linalg();
  if (failed(function)) {
    return failure();
  }
  bool hasFailed = false;
  std::vector<KernelRoots> kernels = schedule(region, *function);
  if (region.strategy() == dispatch::kBundle) {
    emitBundle(region, kernels, hasFailed);
    return failure(hasFailed);
  }
  for (const KernelRoots &kernel : kernels) {
    if (kernel.nest) {
      emitNestKernel(region, kernel, hasFailed);
    } else {
      emitTensors(region, kernel, hasFailed);
    }
    if (hasFailed) {
      return failure();
    }
    markStored(region, kernel);
  }
  return success();
}

double pointsSeconds(RegionBuilder &region, const AnyRegion &, const dispatch::KernelChoice &) {
  return pointwiseSeconds(region);
}

dispatch::TimeParts pointsParts(RegionBuilder &region, const AnyRegion &,
                                const dispatch::KernelChoice &) {
  return pointwiseParts(region);
}

/// Of a convolution: neighbouring threads have neighbouring channels.
std::optional<dispatch::WeightLayout> pointwiseWeights(RegionBuilder &region, const AnyRegion &) {
  auto convs = region.source.getOps<tn::ConvOp>();
  if (convs.empty()) {
    return std::nullopt;
  }
  return dispatch::isDepthwise(*convs.begin()) ? layoutOfDepthwise(*convs.begin())
                                               : channelsLastWeight(region.source);
}

} // namespace

constexpr KernelFamily kPointwise = {.name = "pointwise",
                                     .what = "kernels with a thread for a few outputs; what would "
                                             "be computed too often is stored between",
                                     .match = matchPoints,
                                     .seconds = on<pointsSeconds>,
                                     .parts = on<pointsParts>,
                                     .weights = on<pointwiseWeights>,
                                     .emit = on<emitPoints>,
                                     .order = noSums<RegionBuilder>};

} // namespace tenon::codegen::cuda
