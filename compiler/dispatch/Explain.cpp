// Records why each region is what it is and, for each edge between two regions, the rule that kept
// it apart with both costs. Relies on the refusals that the forming steps left; an edge that no
// step tried is judged by its two ends.
#include "compiler/dispatch/Explain.h"

#include "compiler/dispatch/ComputedIn.h"
#include "compiler/dispatch/Names.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/WideReason.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

struct Edge {
  Operation *producer;
  Operation *consumer;
  bool throughReshape;
};

/// Users of a value, looking through reshapes.
void collectEdges(Operation *producer, Value value, bool throughReshape,
                  SmallVectorImpl<Edge> &edges) {
  for (Operation *user : value.getUsers()) {
    if (isa<tn::ReshapeOp>(user)) {
      collectEdges(producer, user->getResult(0), true, edges);
    } else if (!staysOutside(user)) {
      edges.push_back({producer, user, throughReshape});
    }
  }
}

Refusal judge(const Formation &formation, const Edge &edge, Group *producers, Group *consumers) {
  if (edge.throughReshape) {
    return kReshapeBetween;
  }
  if (Refusal refusal = formation.refusals.lookup({edge.producer, edge.consumer});
      refusal.rule && refusal.rule != &kNotElementwise) {
    return refusal;
  }
  if (consumers->strategy == kAttention || producers->strategy == kAttention) {
    return kAttentionAlone;
  }
  if (consumers->strategy == kSingle || producers->strategy == kSingle) {
    return kCompiledAlone;
  }
  bool readsOften = consumers->strategy == kContraction || consumers->strategy == kDepthwise;
  if (readsOften && edge.consumer == consumers->root) {
    return kContractionReads;
  }
  bool tiles = producers->strategy == kContraction || producers->strategy == kDepthwise;
  if (tiles && edge.consumer == consumers->root) {
    return kTileHasNoRow;
  }
  if (!tn::sameDims(resultDims(edge.producer), resultDims(edge.consumer))) {
    return kDimsDiffer;
  }
  return kOtherRegion;
}

RegionRecord describe(const Formation &formation, Group *group, llvm::StringRef target) {
  RegionRecord record;
  for (Operation *op : group->ops) {
    for (const std::string &name : nodeNames(op->getLoc())) {
      if (!llvm::is_contained(record.nodes, name)) {
        record.nodes.push_back(name);
      }
    }
    record.operations.push_back(op->getName().stripDialect().str());
  }
  record.label = llvm::join(record.nodes.empty() ? record.operations : record.nodes, "+");
  record.target = target.str();
  record.strategy = group->strategy.str();
  record.reason = group->reason;
  record.cost = formation.costs.costOf(group->ops);
  record.computes = computedIn(*group);
  StringAttr wide =
      group->root ? group->root->getAttrOfType<StringAttr>(tn::kWideReason) : StringAttr();
  IntegerAttr priced =
      group->root ? group->root->getAttrOfType<IntegerAttr>(tn::kPriced) : IntegerAttr();
  record.other = inFloats(*group, formation.costs);
  record.wide = wide && record.other.name.empty() ? wide.str() : "";
  record.priced = priced ? std::optional(priced.getInt()) : std::nullopt;
  record.converts = isConversion(*group);
  return record;
}

std::string ofRegisters(const Cost &cost) {
  return llvm::formatv("{0} registers a thread and {1}% occupancy", cost.registers, cost.occupancy);
}

/// The numbers by which the two stay apart; empty where their form does not let them join.
std::string decidedBy(const Formation &formation, const EdgeRecord &edge, const Rule &rule) {
  double apart = edge.apart.microseconds, fused = edge.fused.microseconds;
  if (&rule == &kRegisters) {
    return llvm::formatv(
        "{0} as one ({1:F2} us, {2:F2} of them lost by that), {3} apart ({4:F2} us)",
        ofRegisters(edge.fused), fused, edge.fused.lostMicroseconds, ofRegisters(edge.apart),
        apart);
  }
  if (&rule == &kRecompute) {
    return llvm::formatv("{0:E2} operations as one ({1:F2} us), {2:E2} apart ({3:F2} us)",
                         edge.fused.work, fused, edge.apart.work, apart);
  }
  if (&rule == &kRegionFull) {
    return llvm::formatv("{0} operations, the most of a region", kMaxOperations);
  }
  if (&rule == &kTooFar) {
    return llvm::formatv("more than {0} operations between them", kFarthest);
  }
  if (&rule == &kRowTooLarge) {
    return llvm::formatv("{0} bytes of cache", formation.device().cacheBytes);
  }
  if (&rule == &kAddedInRows) {
    return "measurements of both ways: the bytes are the same";
  }
  return &rule == &kTakesLonger
             ? llvm::formatv("{0:F2} us as one, {1:F2} us apart, by the fastest kernels", fused,
                             apart)
             : std::string();
}

EdgeRecord describe(const Formation &formation, const Edge &edge, Group *producers,
                    Group *consumers) {
  EdgeRecord record;
  record.producer = nameOf(edge.producer);
  record.consumer = nameOf(edge.consumer);
  record.verdict = "apart";
  Refusal refusal = judge(formation, edge, producers, consumers);
  const Rule &rule = *refusal.rule;
  record.rule = rule.name.str();
  record.why = rule.why.str();
  auto isProduct = [](Group *group) { return group->strategy == kContraction; };
  bool isGenerated = formation.device().isGpu() && (isProduct(producers) || isProduct(consumers));
  CostModel::BothWays ways = formation.costs.compare(producers->ops, consumers->ops, isGenerated);
  record.apart = ways.apart;
  record.fused = ways.fused;
  if (refusal.apart > 0) {
    record.apart.microseconds = refusal.apart;
    record.fused.microseconds = refusal.fused;
  }
  record.decided = decidedBy(formation, record, rule);
  // The difference is what was decided by; apart they cost what the regions say.
  record.fused.microseconds += ways.apart.microseconds - record.apart.microseconds;
  record.apart = ways.apart;
  return record;
}

} // namespace

Records explain(const Formation &formation, ArrayRef<tn::Symbol> symbols, llvm::StringRef target) {
  Records records;
  records.profile = formation.costs.profile().name;
  records.launchMicroseconds = formation.costs.profile().launchSeconds * 1e6;
  for (auto [symbol, size] : llvm::zip_equal(symbols, formation.costs.sizes())) {
    records.sizes.emplace_back(symbol.name, size);
  }
  SmallVector<Group *> groups = formation.grouping.inOrder();
  llvm::DenseMap<Group *, int64_t> indexOf;
  for (auto [index, group] : llvm::enumerate(groups)) {
    indexOf[group] = static_cast<int64_t>(index);
    records.regions.push_back(describe(formation, group, target));
  }
  for (Group *group : groups) {
    SmallVector<Edge> edges;
    for (Operation *op : group->ops) {
      for (Value result : op->getResults()) {
        collectEdges(op, result, false, edges);
      }
    }
    llvm::SmallSetVector<std::pair<Operation *, Operation *>, 8> seen;
    for (const Edge &edge : edges) {
      Group *consumers = formation.grouping.groupOf(edge.consumer);
      if (consumers == group || !seen.insert({edge.producer, edge.consumer})) {
        continue;
      }
      records.edges.push_back(describe(formation, edge, group, consumers));
      records.edges.back().producerRegion = indexOf[group];
      records.edges.back().consumerRegion = indexOf[consumers];
    }
  }
  return records;
}

} // namespace tenon::dispatch
