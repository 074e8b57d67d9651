// Walks trees by gathers: a position for each row and tree goes down a level at a time, and stays
// at leaves. Relies on the number of levels being known here.
#include "compiler/frontend/onnx/ops/Trees.h"

#include "mlir/IR/TypeUtilities.h"

#include <map>
#include <set>

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr int64_t kMaxLevels = 256;
constexpr int64_t kMaxNodes = int64_t{1} << 24;

std::optional<Branch> branchNamed(StringRef mode) {
  static constexpr std::pair<StringLiteral, Branch> kModes[] = {
      {"BRANCH_LEQ", Branch::LessEqual},
      {"BRANCH_LT", Branch::Less},
      {"BRANCH_GTE", Branch::GreaterEqual},
      {"BRANCH_GT", Branch::Greater},
      {"BRANCH_EQ", Branch::Equal},
      {"BRANCH_NEQ", Branch::NotEqual},
      {"LEAF", Branch::Leaf}};
  for (const auto &[name, branch] : kModes) {
    if (name == mode) {
      return branch;
    }
  }
  return std::nullopt;
}

tn::Predicate predicateOf(Branch branch) {
  static constexpr tn::Predicate kPredicates[] = {tn::Predicate::le, tn::Predicate::lt,
                                                  tn::Predicate::ge, tn::Predicate::gt,
                                                  tn::Predicate::eq, tn::Predicate::ne};
  return kPredicates[static_cast<size_t>(branch)];
}

/// How many branches there are on the longest way to a leaf; none if nodes lead in a circle.
std::optional<int64_t> levelsOf(const Ensemble &ensemble) {
  constexpr int64_t kUnknown = -1, kOpen = -2;
  std::vector<int64_t> levels(ensemble.nodes.size(), kUnknown);
  auto all = llvm::seq<int64_t>(0, static_cast<int64_t>(ensemble.nodes.size()));
  SmallVector<int64_t> stack(all.begin(), all.end());
  int64_t most = 0;
  while (!stack.empty()) {
    int64_t at = stack.back();
    const TreeNode &node = ensemble.nodes[at];
    if (levels[at] >= 0) {
      stack.pop_back();
      continue;
    }
    if (node.branch == Branch::Leaf) {
      levels[at] = 0;
      continue;
    }
    int64_t yes = levels[node.yes], no = levels[node.no];
    if (yes >= 0 && no >= 0) {
      levels[at] = 1 + std::max(yes, no);
      most = std::max(most, levels[at]);
      continue;
    }
    if (yes == kOpen || no == kOpen) {
      return std::nullopt;
    }
    levels[at] = kOpen;
    for (auto [child, known] : {std::pair(node.yes, yes), std::pair(node.no, no)}) {
      if (known < 0) {
        stack.push_back(child);
      }
    }
  }
  return most;
}

/// A list of one number a node.
template <typename Read> SmallVector<int64_t> listOf(const Ensemble &ensemble, const Read &read) {
  SmallVector<int64_t> list;
  for (const TreeNode &node : ensemble.nodes) {
    list.push_back(static_cast<int64_t>(read(node)));
  }
  return list;
}

/// What a step down needs of the nodes, each a table of one element a node.
struct Tables {
  Value features, values, yes, no;
  SmallVector<std::pair<Branch, Value>> kinds; ///< of each kind which nodes are of it
  Value missingIsYes;                          ///< null if no node says so
};

Tables makeTables(NodeContext &c, const Ensemble &ensemble, Type element) {
  Type index = c.builder().getI64Type(), truth = c.builder().getI1Type();
  int64_t size = static_cast<int64_t>(ensemble.nodes.size());
  auto table = [&](auto read, Type type) {
    return c.integerConstant(listOf(ensemble, read), {size}, type);
  };
  SmallVector<double> values;
  for (const TreeNode &node : ensemble.nodes) {
    values.push_back(node.value);
  }
  Tables tables;
  tables.values = c.realConstant(values, {size}, element);
  tables.features = table([](const TreeNode &node) { return node.feature; }, index);
  tables.yes = table([](const TreeNode &node) { return node.yes; }, index);
  tables.no = table([](const TreeNode &node) { return node.no; }, index);
  for (size_t kind = 0; kind < static_cast<size_t>(Branch::Leaf); ++kind) {
    Branch branch = static_cast<Branch>(kind);
    auto isOfKind = [&](const TreeNode &node) { return node.branch == branch; };
    if (llvm::any_of(ensemble.nodes, isOfKind)) {
      tables.kinds.push_back({branch, table(isOfKind, truth)});
    }
  }
  auto isMissingYes = [](const TreeNode &node) { return node.missingIsYes; };
  if (llvm::any_of(ensemble.nodes, isMissingYes)) {
    tables.missingIsYes = table(isMissingYes, truth);
  }
  return tables;
}

/// The positions [rows, trees] one level further down; at a leaf they stay.
Value stepDown(NodeContext &c, const Tables &tables, Value x, Value at) {
  auto look = [&](Value table) { return c.make<tn::GatherOp>(table, at, int64_t{0}); };
  Value own = c.make<tn::GatherElementsOp>(x, look(tables.features), int64_t{1});
  Value bound = look(tables.values);
  Value goes;
  for (const auto &[branch, isOfKind] : tables.kinds) {
    Value holds = c.compare(own, predicateOf(branch), bound);
    goes = goes ? c.select(look(isOfKind), holds, goes) : holds;
  }
  if (tables.missingIsYes) {
    Value isMissing = c.compare(own, tn::Predicate::ne, own);
    goes = c.make<tn::OrOp>(goes, c.make<tn::AndOp>(isMissing, look(tables.missingIsYes)));
  }
  return c.select(goes, look(tables.yes), look(tables.no));
}

/// What each leaf gives to each target: a table [nodes, targets] with `absent` where it gives
/// nothing.
Value weightTable(NodeContext &c, const Ensemble &ensemble, double absent, Type element) {
  int64_t nodes = static_cast<int64_t>(ensemble.nodes.size());
  SmallVector<double> table(nodes * ensemble.targets, absent);
  for (const LeafWeight &leaf : ensemble.weights) {
    double &entry = table[leaf.node * ensemble.targets + leaf.target];
    entry = entry == absent ? leaf.weight : entry + leaf.weight;
  }
  return c.realConstant(table, {nodes, ensemble.targets}, element);
}

/// The leaves' weights [rows, trees, targets] as one of all trees.
Value aggregated(NodeContext &c, const Ensemble &ensemble, Value at, Type element) {
  double infinity = std::numeric_limits<double>::infinity();
  bool isLeast = ensemble.aggregate == Aggregate::Min;
  bool isMost = ensemble.aggregate == Aggregate::Max;
  double absent = isLeast ? infinity : isMost ? -infinity : 0;
  Value parts = c.make<tn::GatherOp>(weightTable(c, ensemble, absent, element), at, int64_t{0});
  if (!isLeast && !isMost) {
    Value sum = c.reduce(tn::ReduceKind::sum, parts, {1}, false);
    double trees = static_cast<double>(ensemble.roots.size());
    return ensemble.aggregate == Aggregate::Sum ? sum : c.div(sum, c.scalarLike(trees, sum));
  }
  Value best = c.reduce(isLeast ? tn::ReduceKind::min : tn::ReduceKind::max, parts, {1}, false);
  Value isAbsent = c.compare(best, tn::Predicate::eq, c.scalarLike(absent, best));
  return c.select(isAbsent, c.scalarLike(0, best), best);
}

bool areSound(const Ensemble &ensemble, AffineExpr features) {
  int64_t nodes = static_cast<int64_t>(ensemble.nodes.size());
  auto isNode = [&](int64_t number) { return number >= 0 && number < nodes; };
  int64_t most = tn::constantDim(features).value_or(std::numeric_limits<int32_t>::max());
  return ensemble.targets >= 1 && llvm::all_of(ensemble.roots, isNode) &&
         llvm::all_of(ensemble.nodes,
                      [&](const TreeNode &node) {
                        return isNode(node.yes) && isNode(node.no) && node.feature >= 0 &&
                               (node.branch == Branch::Leaf || node.feature < most);
                      }) &&
         llvm::all_of(ensemble.weights, [&](const LeafWeight &leaf) {
           return isNode(leaf.node) && leaf.target >= 0 && leaf.target < ensemble.targets;
         });
}

using NodeKey = std::pair<int64_t, int64_t>; ///< of a tree, and of a node in it

} // namespace

std::optional<Ensemble> readNodeLists(NodeContext &c, StringRef weights) {
  SmallVector<int64_t> trees = c.integerList("nodes_treeids"), ids = c.integerList("nodes_nodeids"),
                       features = c.integerList("nodes_featureids"),
                       yes = c.integerList("nodes_truenodeids"),
                       no = c.integerList("nodes_falsenodeids"),
                       missing = c.integerList("nodes_missing_value_tracks_true");
  SmallVector<double> values = c.numberList("nodes_values");
  const Attribute *modes = c.attribute("nodes_modes", AttributeType::Strings);
  c.ignore("nodes_hitrates"); // what training counted
  c.ignore("nodes_hitrates_as_tensor");
  size_t count = trees.size();
  bool isSound = modes && modes->strings.size() == count && ids.size() == count &&
                 features.size() == count && yes.size() == count && no.size() == count &&
                 values.size() == count && (missing.empty() || missing.size() == count);
  Ensemble ensemble;
  std::map<NodeKey, int64_t> numbers;
  for (size_t i = 0; isSound && i < count; ++i) {
    numbers[{trees[i], ids[i]}] = static_cast<int64_t>(i);
  }
  std::vector<bool> isChild(count);
  auto child = [&](size_t i, int64_t id) {
    auto found = numbers.find({trees[i], id});
    if (found != numbers.end()) {
      isChild[found->second] = true;
    }
    return found == numbers.end() ? int64_t{-1} : found->second;
  };
  for (size_t i = 0; isSound && i < count; ++i) {
    std::optional<Branch> branch = branchNamed(modes->strings[i]);
    int64_t self = static_cast<int64_t>(i);
    bool isLeaf = branch == Branch::Leaf;
    isSound = branch.has_value();
    ensemble.nodes.push_back({branch.value_or(Branch::Leaf), isLeaf ? 0 : features[i], values[i],
                              isLeaf ? self : child(i, yes[i]), isLeaf ? self : child(i, no[i]),
                              !missing.empty() && missing[i] != 0});
  }
  for (size_t i = 0; isSound && i < count; ++i) {
    if (!isChild[i]) {
      ensemble.roots.push_back(static_cast<int64_t>(i));
    }
  }
  std::set<int64_t> distinct(trees.begin(), trees.end());
  isSound = isSound && ensemble.roots.size() == distinct.size();
  SmallVector<int64_t> ownTrees = c.integerList((weights + "_treeids").str()),
                       ownNodes = c.integerList((weights + "_nodeids").str()),
                       targets = c.integerList((weights + "_ids").str());
  SmallVector<double> gives = c.numberList((weights + "_weights").str());
  isSound = isSound && ownTrees.size() == gives.size() && ownNodes.size() == gives.size() &&
            targets.size() == gives.size();
  for (size_t i = 0; isSound && i < gives.size(); ++i) {
    auto found = numbers.find({ownTrees[i], ownNodes[i]});
    ensemble.weights.push_back({found == numbers.end() ? -1 : found->second, targets[i], gives[i]});
  }
  if (!isSound) {
    c.error(ErrorId::OnnxBadAttribute, "the lists of its nodes and weights do not fit");
    return std::nullopt;
  }
  return ensemble;
}

Value evaluateTrees(NodeContext &c, const Ensemble &ensemble) {
  if (c.rank(0) != 2) {
    c.gap("features that are not rows of a matrix are not supported", "reshape the input");
    return Value();
  }
  bool isSound = areSound(ensemble, c.dims(0)[1]);
  std::optional<int64_t> levels = isSound ? levelsOf(ensemble) : std::nullopt;
  if (!levels || ensemble.roots.empty()) {
    c.error(ErrorId::OnnxBadAttribute, "its nodes do not form trees over its features");
    return Value();
  }
  int64_t nodes = static_cast<int64_t>(ensemble.nodes.size());
  if (*levels > kMaxLevels || ensemble.targets > kMaxNodes / nodes) {
    c.gap("trees of more than " + Twine(kMaxLevels) + " levels, or with more than " +
              Twine(kMaxNodes) + " weights, are not supported",
          "train smaller trees");
    return Value();
  }
  Type element = c.element(0).isF64() ? c.element(0) : Type(c.builder().getF32Type());
  Type index = c.builder().getI64Type();
  Value x = c.cast(c.value(0), element);
  int64_t trees = static_cast<int64_t>(ensemble.roots.size());
  Value at = c.broadcast(c.integerConstant(ensemble.roots, {1, trees}, index),
                         {c.dims(0)[0], c.constantSize(trees)});
  Tables tables = makeTables(c, ensemble, element);
  for (int64_t level = 0; level < *levels && !c.failed(); ++level) {
    at = stepDown(c, tables, x, at);
  }
  return c.failed() ? Value() : aggregated(c, ensemble, at, element);
}

Value transformScores(NodeContext &c, Value scores, StringRef transform) {
  if (transform == "NONE") {
    return scores;
  }
  if (transform == "LOGISTIC") {
    return c.unary<tn::SigmoidOp>(scores);
  }
  if (transform == "SOFTMAX") {
    return c.unary<tn::SoftmaxOp>(scores, int64_t{1}, false);
  }
  if (transform != "SOFTMAX_ZERO") {
    c.gap("post_transform " + transform + " is not supported", "use another one");
    return Value();
  }
  // Scores that are 0 as good as stay so.
  Value most = c.reduce(tn::ReduceKind::max, scores, {1}, true);
  Value isThere =
      c.compare(c.unary<tn::AbsOp>(scores), tn::Predicate::gt, c.scalarLike(1e-7f, scores));
  Value powers = c.unary<tn::ExpOp>(c.sub(scores, most));
  powers = c.select(isThere, powers, c.scalarLike(0, scores));
  return c.div(powers, c.reduce(tn::ReduceKind::sum, powers, {1}, true));
}

Value addRow(NodeContext &c, Value scores, ArrayRef<double> values) {
  if (values.empty() || !scores) {
    return scores;
  }
  return c.add(scores, c.realConstant(values, {1, static_cast<int64_t>(values.size())},
                                      getElementTypeOrSelf(scores)));
}

} // namespace tenon::onnx
