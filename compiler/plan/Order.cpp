// Orders regions for a small peak: among those that are ready, the one that adds least to what is
// live. Relies on comparing peaks, so the model's own order stands unless the greedy one is
// smaller.
#include "compiler/plan/Order.h"

#include "compiler/graph/DataSizes.h"
#include "llvm/ADT/DenseMap.h"

#include <algorithm>

using namespace mlir;

namespace tenon::plan {
namespace {

/// Beyond this many regions the model's own order is taken.
constexpr size_t kMaxRegions = 20000;
/// Most places by which a branch is moved forward.
constexpr int64_t kFarthestMove = 16;

/// What is live while regions run: values of regions, by storage. The model's results live to the
/// end.
class Liveness {
public:
  Liveness(ArrayRef<tn::RegionOp> regions, Block *block,
           llvm::function_ref<int64_t(Value)> bytesOf) {
    for (tn::RegionOp region : regions) {
      for (Value output : region.getOutputs()) {
        bytes[output] = bytesOf(output);
      }
    }
    findDataSizes(regions, block);
    for (tn::RegionOp region : regions) {
      for (Value value : inputsOf(region)) {
        ++readers[value];
      }
    }
    for (Value result : block->getTerminator()->getOperands()) {
      ++readers[storageOf(result)];
    }
  }

  /// The storages made by regions that this one reads, each once, and those of the regions that
  /// bind symbols which it names.
  SmallVector<Value> inputsOf(tn::RegionOp region) const {
    SmallVector<Value> values(sizesOf.lookup(region));
    for (Value input : region.getInputs()) {
      Value storage = storageOf(input);
      if (bytes.contains(storage) && !llvm::is_contained(values, storage)) {
        values.push_back(storage);
      }
    }
    return values;
  }

  int64_t madeBy(tn::RegionOp region) const {
    int64_t sum = 0;
    for (Value output : region.getOutputs()) {
      sum += bytes.lookup(output);
    }
    return sum;
  }

  int64_t freedBy(tn::RegionOp region) const {
    int64_t sum = 0;
    for (Value value : inputsOf(region)) {
      sum += readers.lookup(value) == 1 ? bytes.lookup(value) : 0;
    }
    return sum;
  }

  void run(tn::RegionOp region) {
    live += madeBy(region);
    peak = std::max(peak, live);
    live -= freedBy(region);
    for (Value value : inputsOf(region)) {
      --readers[value];
    }
  }

  int64_t peak = 0;
  int64_t live = 0; ///< behind the region that ran last

private:
  void findDataSizes(ArrayRef<tn::RegionOp> regions, Block *block) {
    llvm::MapVector<unsigned, Operation *> binders = tn::sizeBinders(block->getParentOp());
    if (binders.empty()) {
      return;
    }
    for (tn::RegionOp region : regions) {
      for (unsigned symbol : tn::symbolsNamed(region)) {
        Operation *binder = binders.lookup(symbol);
        tn::RegionOp owner = binder ? binder->getParentOfType<tn::RegionOp>() : tn::RegionOp();
        if (owner && owner != region) {
          sizesOf[region].push_back(owner.getOutputs().front());
        }
      }
    }
  }

  llvm::DenseMap<Value, int64_t> bytes;
  llvm::DenseMap<Value, int64_t> readers;
  llvm::DenseMap<Operation *, SmallVector<Value>> sizesOf;
};

bool isOrdered(ArrayRef<tn::RegionOp> regions, const Liveness &liveness) {
  llvm::SmallPtrSet<Operation *, 16> done;
  return llvm::all_of(regions, [&](tn::RegionOp region) {
    bool isReady = llvm::all_of(liveness.inputsOf(region),
                                [&](Value value) { return done.contains(value.getDefiningOp()); });
    done.insert(region);
    return isReady;
  });
}

SmallVector<tn::RegionOp> greedyOrder(ArrayRef<tn::RegionOp> regions, Liveness &liveness) {
  llvm::DenseMap<Operation *, size_t> waitsFor;
  SmallVector<size_t> ready;
  llvm::DenseMap<Operation *, size_t> indexOf;
  llvm::DenseMap<Value, SmallVector<size_t>> readersOf;
  for (auto [index, region] : llvm::enumerate(regions)) {
    SmallVector<Value> inputs = liveness.inputsOf(region);
    waitsFor[region] = inputs.size();
    for (Value value : inputs) {
      readersOf[value].push_back(index);
    }
    if (inputs.empty()) {
      ready.push_back(index);
    }
  }
  SmallVector<tn::RegionOp> order;
  while (!ready.empty()) {
    auto growth = [&](size_t index) {
      return liveness.madeBy(regions[index]) - liveness.freedBy(regions[index]);
    };
    SmallVector<size_t>::iterator best =
        std::min_element(ready.begin(), ready.end(), [&](size_t a, size_t b) {
          return std::pair(growth(a), a) < std::pair(growth(b), b);
        });
    tn::RegionOp region = regions[*best];
    ready.erase(best);
    liveness.run(region);
    order.push_back(region);
    for (Value output : region.getOutputs()) {
      for (size_t reader : readersOf.lookup(output)) {
        if (--waitsFor[regions[reader]] == 0) {
          ready.push_back(reader);
        }
      }
    }
  }
  return order;
}

bool readOneArgument(tn::RegionOp a, tn::RegionOp b) {
  return llvm::any_of(a.getInputs(), [&](Value value) {
    Value storage = storageOf(value);
    return isa<BlockArgument>(storage) &&
           llvm::any_of(b.getInputs(), [&](Value other) { return storageOf(other) == storage; });
  });
}

/// Moves regions forward to just behind what they read, where that needs no more memory: then a
/// branch is not laid into memory that the other branch has only just left.
class BranchMover {
public:
  BranchMover(SmallVector<tn::RegionOp> regions, Liveness &liveness)
      : order(std::move(regions)), lives(liveness) {
    for (tn::RegionOp region : order) {
      position[region] = static_cast<int64_t>(during.size());
      during.push_back(lives.live + lives.madeBy(region));
      lives.run(region);
    }
  }

  SmallVector<tn::RegionOp> run() {
    for (int64_t from = 0; from < static_cast<int64_t>(order.size()); ++from) {
      int64_t to = placeBehindInputs(order[from]);
      if (from - to <= kFarthestMove && mayMove(from, to)) {
        move(from, to);
      }
    }
    return order;
  }

private:
  int64_t placeBehindInputs(tn::RegionOp region) const {
    int64_t place = 0;
    for (Value value : lives.inputsOf(region)) {
      place = std::max(place, position.lookup(value.getDefiningOp()) + 1);
    }
    return place;
  }

  bool mayMove(int64_t from, int64_t to) const {
    int64_t made = lives.madeBy(order[from]);
    bool fits = to == 0 || during[to - 1] + made <= lives.peak;
    for (int64_t i = to; i < from; ++i) {
      // Of two readers of an input, the last may write over it.
      fits &= during[i] + made <= lives.peak && !readOneArgument(order[i], order[from]);
    }
    return fits && to < from;
  }

  void move(int64_t from, int64_t to) {
    int64_t made = lives.madeBy(order[from]);
    for (int64_t i = to; i < from; ++i) {
      during[i] += made;
    }
    during[from] = to == 0 ? made : during[to - 1] + made;
    std::rotate(order.begin() + to, order.begin() + from, order.begin() + from + 1);
    std::rotate(during.begin() + to, during.begin() + from, during.begin() + from + 1);
    for (int64_t i = to; i <= from; ++i) {
      position[order[i]] = i;
    }
  }

  SmallVector<tn::RegionOp> order;
  Liveness &lives;
  SmallVector<int64_t> during; ///< bytes that are live while a region runs
  llvm::DenseMap<Operation *, int64_t> position;
};

} // namespace

Value storageOf(Value value) {
  while (isa_and_nonnull<tn::ReshapeOp, tn::SliceOp>(value.getDefiningOp())) {
    value = value.getDefiningOp()->getOperand(0);
  }
  return value;
}

SmallVector<tn::RegionOp> orderRegions(Block *block, llvm::function_ref<int64_t(Value)> bytesOf,
                                       bool partsBranches) {
  SmallVector<tn::RegionOp> original(block->getOps<tn::RegionOp>());
  if (original.size() > kMaxRegions) {
    return original;
  }
  Liveness own(original, block, bytesOf);
  for (tn::RegionOp region : original) {
    own.run(region);
  }
  Liveness greedy(original, block, bytesOf);
  SmallVector<tn::RegionOp> order = greedyOrder(original, greedy);
  order = greedy.peak < own.peak || !isOrdered(original, own) ? order : original;
  if (!partsBranches) {
    return order;
  }
  Liveness chosen(original, block, bytesOf);
  return BranchMover(std::move(order), chosen).run();
}

} // namespace tenon::plan
