// Loop nests that insert elements one by one (top-k, scatter). Loops whose steps touch different
// parts of the results run over the threads of the grid; the rest runs in order in each thread.
#include "compiler/codegen/cuda/pointwise/Schedule.h"
#include "compiler/codegen/cuda/pointwise/Tuning.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Whether a value is carried by the loops of the nest: the tensors that it updates.
bool isCarried(Value tensor, scf::ForOp nest) {
  if (BlockArgument argument = dyn_cast<BlockArgument>(tensor)) {
    return nest->isAncestor(argument.getOwner()->getParentOp());
  }
  return nest->isProperAncestor(tensor.getDefiningOp());
}

/// Whether steps of `loop` never meet: it carries tensors only, and each access to them has the
/// loop's variable at the same dim.
bool isParallel(scf::ForOp loop, scf::ForOp nest) {
  if (!llvm::all_of(loop.getResultTypes(), llvm::IsaPred<RankedTensorType>)) {
    return false;
  }
  std::optional<size_t> dim;
  auto check = [&](ValueRange indices) {
    auto found = llvm::find(indices, loop.getInductionVar());
    size_t position = found - indices.begin();
    bool agrees = found != indices.end() && (!dim || *dim == position);
    dim = position;
    return agrees ? WalkResult::advance() : WalkResult::interrupt();
  };
  WalkResult result = loop.walk([&](Operation *op) {
    if (tensor::InsertOp insert = dyn_cast<tensor::InsertOp>(op)) {
      return check(insert.getIndices());
    }
    tensor::ExtractOp extract = dyn_cast<tensor::ExtractOp>(op);
    return extract && isCarried(extract.getTensor(), nest) ? check(extract.getIndices())
                                                           : WalkResult::advance();
  });
  return !result.wasInterrupted();
}

/// The loops of which each but the last holds nothing that carries but the next one, from the
/// outside.
SmallVector<scf::ForOp> perfectLoops(scf::ForOp nest) {
  SmallVector<scf::ForOp> loops = {nest};
  while (true) {
    scf::ForOp loop = loops.back();
    SmallVector<scf::ForOp> inner(loop.getBody()->getOps<scf::ForOp>());
    bool isPerfect =
        inner.size() == 1 && inner.front().getResultTypes() == loop.getResultTypes() &&
        inner.front().getInits() == ValueRange(loop.getRegionIterArgs()) &&
        ValueRange(inner.front().getResults()) == loop.getBody()->getTerminator()->getOperands();
    if (!isPerfect) {
      return loops;
    }
    loops.push_back(inner.front());
  }
}

class NestEmitter {
public:
  NestEmitter(ElementEmitter &emitter, scf::ForOp nest)
      : emitter(emitter), kernel(emitter.kernel), nest(nest) {}

  /// The variables of the loops in `threads` have these values; the other loops run in the thread.
  void run(ArrayRef<Root> roots, const llvm::DenseMap<Operation *, Index> &threads) {
    for (const Root &root : roots) {
      unsigned number = cast<OpResult>(root.tensor).getResultNumber();
      buffers[nest.getRegionIterArg(number)] = {root.buffer, nest.getResult(number)};
      kernel.pointer(root.buffer, /*isWritten=*/true);
    }
    spread = threads;
    emitLoop(nest);
  }

private:
  /// Where a carried tensor lies: the result of the nest that it becomes has its dims.
  struct Held {
    unsigned buffer = 0;
    Value result;
  };
  /// The tensors of a loop's variables are those that it starts from.
  void passOn(scf::ForOp loop) {
    for (auto [argument, init] : llvm::zip(loop.getRegionIterArgs(), loop.getInits())) {
      auto entry = buffers.find(init);
      if (entry != buffers.end()) {
        Held held = entry->second;
        buffers[argument] = held;
      }
    }
  }
  void emitBody(Block &body) {
    for (Operation &op : body.without_terminator()) {
      emitOp(op);
    }
  }
  void emitOp(Operation &op);
  void emitLoop(scf::ForOp loop);
  Index placeOf(Value tensor, ValueRange indices);

  ElementEmitter &emitter;
  KernelFrame &kernel;
  scf::ForOp nest;
  ElementEmitter::Lane lane;
  llvm::DenseMap<Value, Held> buffers;
  llvm::DenseMap<Operation *, Index> spread;
};

Index NestEmitter::placeOf(Value tensor, ValueRange indices) {
  Indices place =
      llvm::map_to_vector<6>(indices, [&](Value index) { return emitter.indexOf(index, lane); });
  return emitter.linear(tensor, place);
}

void NestEmitter::emitOp(Operation &op) {
  if (scf::ForOp loop = dyn_cast<scf::ForOp>(op)) {
    return emitLoop(loop);
  }
  if (tensor::InsertOp insert = dyn_cast<tensor::InsertOp>(op)) {
    Held held = buffers.lookup(insert.getDest());
    buffers[insert.getResult()] = held;
    return kernel.store(held.buffer, emitter.valueOf(insert.getScalar(), lane),
                        placeOf(held.result, insert.getIndices()));
  }
  tensor::ExtractOp extract = dyn_cast<tensor::ExtractOp>(op);
  auto entry = extract ? buffers.find(extract.getTensor()) : buffers.end();
  if (entry != buffers.end()) {
    Held held = entry->second;
    lane.values[extract] =
        kernel.load(held.buffer, extract.getType(), placeOf(held.result, extract.getIndices()));
    return;
  }
  emitter.emit(op, lane);
}

/// A loop in the thread: the tensors that it carries are updated in memory, the rest stays carried.
void NestEmitter::emitLoop(scf::ForOp loop) {
  passOn(loop);
  auto thread = spread.find(loop);
  if (thread != spread.end()) {
    lane.indices[loop.getInductionVar()] = thread->second;
    return emitBody(*loop.getBody());
  }
  SmallVector<Value> inits;
  SmallVector<unsigned> scalars;
  for (auto [i, init] : llvm::enumerate(loop.getInits())) {
    if (!isa<RankedTensorType>(init.getType())) {
      inits.push_back(emitter.valueOf(init, lane));
      scalars.push_back(i);
    }
  }
  OpBuilder &builder = kernel.builder;
  scf::ForOp made = scf::ForOp::create(
      builder, kernel.location, emitter.valueOf(loop.getLowerBound(), lane),
      emitter.valueOf(loop.getUpperBound(), lane), emitter.valueOf(loop.getStep(), lane), inits);
  {
    OpBuilder::InsertionGuard guard(builder);
    // A loop that carries nothing has a terminator already.
    builder.setInsertionPointToStart(made.getBody());
    emitter.openScope();
    lane.indices[loop.getInductionVar()] = {made.getInductionVar(), 0, 1, true};
    for (auto [number, argument] : llvm::zip(scalars, made.getRegionIterArgs())) {
      lane.values[loop.getRegionIterArg(number)] = argument;
    }
    emitBody(*loop.getBody());
    if (!scalars.empty()) {
      Operation *yield = loop.getBody()->getTerminator();
      SmallVector<Value> yielded = llvm::map_to_vector(
          scalars, [&](unsigned i) { return emitter.valueOf(yield->getOperand(i), lane); });
      scf::YieldOp::create(builder, kernel.location, yielded);
    }
    emitter.closeScope();
  }
  for (auto [number, result] : llvm::zip(scalars, made.getResults())) {
    lane.values[loop.getResult(number)] = result;
  }
  for (auto [result, argument] : llvm::zip(loop.getResults(), loop.getRegionIterArgs())) {
    auto entry = buffers.find(argument);
    if (entry != buffers.end()) {
      Held held = entry->second;
      buffers[result] = held;
    }
  }
}

/// The loops of a nest whose steps run in threads, and their sizes.
struct Spread {
  SmallVector<scf::ForOp> loops;
  SmallVector<AffineExpr> sizes;
};

Spread spreadOf(RegionBuilder &region, scf::ForOp nest) {
  Spread spread;
  for (scf::ForOp loop : perfectLoops(nest)) {
    if (isParallel(loop, nest)) {
      spread.loops.push_back(loop);
      spread.sizes.push_back(region.expressionOf(loop.getUpperBound()));
    }
  }
  return spread;
}

void emitThread(ElementEmitter &emitter, const KernelRoots &group, const Spread &spread,
                AffineExpr count, unsigned threads, const Index &block) {
  KernelFrame &kernel = emitter.kernel;
  IndexMath &math = kernel.math;
  Index number = math.add(math.multiply(block, Index::constant(threads)), kernel.thread());
  Value isInside = arith::CmpIOp::create(kernel.builder, kernel.location, arith::CmpIPredicate::ult,
                                         math.value(number), math.value(kernel.size(count)));
  emitter.when(isInside, [&] {
    Indices indices = math.delinearize(number, kernel.sizes(spread.sizes));
    llvm::DenseMap<Operation *, Index> places;
    for (auto [i, loop] : llvm::enumerate(spread.loops)) {
      places[loop] = indices[i];
    }
    NestEmitter(emitter, cast<scf::ForOp>(group.nest)).run(group.roots, places);
  });
}

} // namespace

Part nestPart(RegionBuilder &region, const KernelRoots &group, unsigned threads) {
  Spread spread = spreadOf(region, cast<scf::ForOp>(group.nest));
  AffineExpr count = tn::elementCount(region.source.getContext(), spread.sizes);
  return {count.ceilDiv(threads),
          [group, spread, count, threads](ElementEmitter &emitter, const Index &block) {
            emitThread(emitter, group, spread, count, threads, block);
          }};
}

void emitNestKernel(RegionBuilder &region, const KernelRoots &group, bool &hasFailed) {
  bool isSpread = !spreadOf(region, cast<scf::ForOp>(group.nest)).loops.empty();
  unsigned threads = isSpread ? tuning::kNestThreads : 1;
  emitParts(region, nestPart(region, group, threads), threads, hasFailed);
}

} // namespace tenon::codegen::cuda
