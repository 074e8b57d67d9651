// On a GPU small kernels that read the same values and not each other run in one launch, each in
// blocks of its own. Relies on groups being formed: what can run in one loop does already.
#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/Strategy.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// Elements that a bundle computes at most: with more, a launch is a small part of its time.
constexpr int64_t kMaxElements = int64_t(1) << 20;
/// Groups between two that are joined.
constexpr size_t kFarthestGroup = 8;

/// Elements that a group computes, if it may be part of a bundle.
std::optional<int64_t> elementsOf(const Formation &formation, Group *group) {
  if (group->strategy == kElementwise) {
    bool movesRows = llvm::any_of(group->ops, movesInnermost);
    return movesRows ? std::nullopt
                     : std::optional(formation.costs.countOf(resultDims(group->ops.back())));
  }
  // Many updates have kernels of their own.
  bool isScatter = group->root && isa<tn::ScatterElementsOp, tn::ScatterNdOp>(group->root);
  if (isScatter && hasFewUpdates(formation.costs, group->root)) {
    return formation.costs.countOf(tn::getDims(group->root->getOperand(2).getType()));
  }
  return std::nullopt;
}

using Sources = llvm::SmallSetVector<Value, 8>;

/// What a group reads that the model computes, seen through reshapes; not what a scatter writes
/// over.
Sources sourcesOf(Group *group) {
  Sources sources;
  for (Value value : outsideOperands(group->ops)) {
    bool isData = group->strategy == kSingle && value == group->root->getOperand(0);
    while (tn::ReshapeOp reshape = value.getDefiningOp<tn::ReshapeOp>()) {
      value = reshape.getX();
    }
    if (!isData &&
        !isa_and_nonnull<tn::WeightOp, tn::ConstantOp, tn::PackOp>(value.getDefiningOp())) {
      sources.insert(value);
    }
  }
  return sources;
}

struct Bundle {
  Group *group;
  int64_t elements;
  Sources sources;
  size_t last; ///< number of the group that joined it last
};

/// Whether the bundle reads what the group reads most of. Less is in common by chance: a position
/// that both read says nothing about when their other operands are there.
bool readsTheSame(const Formation &formation, const Bundle &bundle, const Sources &sources) {
  const Value *widest = llvm::max_element(sources, [&](Value a, Value b) {
    return formation.costs.bytesOf(a) < formation.costs.bytesOf(b);
  });
  return widest != sources.end() && bundle.sources.contains(*widest);
}

bool readsFrom(Group *consumers, Group *producers) {
  return llvm::any_of(outsideOperands(consumers->ops), [&](Value value) {
    return llvm::is_contained(producers->ops, value.getDefiningOp());
  });
}

/// Whether the group, which comes later, became a part of the bundle.
bool join(Formation &formation, Bundle &bundle, const Bundle &other) {
  Group *group = other.group;
  bool mayJoin = bundle.elements + other.elements <= kMaxElements &&
                 other.last - bundle.last <= kFarthestGroup &&
                 bundle.group->ops.size() + group->ops.size() <= kMaxOperations &&
                 readsTheSame(formation, bundle, other.sources) &&
                 !readsFrom(group, bundle.group) && !formation.grouping.merge(bundle.group, group);
  if (!mayJoin) {
    return false;
  }
  bundle.group->strategy = kBundle;
  bundle.group->root = nullptr;
  bundle.group->reason = "small kernels that do not read each other, in one launch";
  bundle.elements += other.elements;
  bundle.sources.insert(other.sources.begin(), other.sources.end());
  bundle.last = other.last;
  return true;
}

} // namespace

void formBundles(Formation &formation) {
  if (!formation.device().isGpu()) {
    return;
  }
  SmallVector<Bundle> open;
  for (auto [number, group] : llvm::enumerate(formation.grouping.inOrder())) {
    std::optional<int64_t> elements = elementsOf(formation, group);
    if (!elements || *elements > kMaxElements) {
      continue;
    }
    Bundle own{group, *elements, sourcesOf(group), number};
    bool isJoined =
        llvm::any_of(open, [&](Bundle &bundle) { return join(formation, bundle, own); });
    if (!isJoined) {
      open.push_back(std::move(own));
    }
    llvm::erase_if(open, [&](Bundle &bundle) { return number - bundle.last > kFarthestGroup; });
  }
}

} // namespace tenon::dispatch
