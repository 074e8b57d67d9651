// TreeEnsembleRegressor, TreeEnsembleClassifier, TreeEnsemble, LinearRegressor and LinearClassifier
// of ai.onnx.ml: how each reads its trees or coefficients, and makes labels of scores. Relies on
// Trees.h; where the specification is silent, scores of two classes are those of ONNX Runtime.
#include "compiler/frontend/onnx/ops/Trees.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr StringRef kAggregates[] = {"SUM", "AVERAGE", "MIN", "MAX"};

/// The transform as ONNX Runtime applies it: scores of one target stay as they are.
Value transformTargets(NodeContext &c, Value scores, int64_t targets, StringRef transform) {
  return transformScores(c, scores,
                         targets == 1 && transform != "PROBIT" ? StringRef("NONE") : transform);
}

/// True if `values` has one for each of `count` columns, or none; else an error.
bool fitsColumns(NodeContext &c, ArrayRef<double> values, int64_t count, StringRef name) {
  bool fits = values.empty() || static_cast<int64_t>(values.size()) == count;
  if (!fits) {
    c.error(ErrorId::OnnxBadAttribute, "attribute '" + name + "' does not have a value per column");
  }
  return fits;
}

void treeEnsembleRegressor(NodeContext &c) {
  std::optional<Ensemble> ensemble = readNodeLists(c, "target");
  SmallVector<double> base = c.numberList("base_values");
  std::string transform = c.choice("post_transform", kTransforms);
  std::string aggregate = c.choice("aggregate_function", kAggregates);
  int64_t targets = c.integer("n_targets", 1);
  if (!ensemble || c.failed() || !fitsColumns(c, base, targets, "base_values")) {
    return;
  }
  ensemble->targets = targets;
  ensemble->aggregate = aggregate == "SUM"       ? Aggregate::Sum
                        : aggregate == "AVERAGE" ? Aggregate::Average
                        : aggregate == "MIN"     ? Aggregate::Min
                                                 : Aggregate::Max;
  Value scores = addRow(c, evaluateTrees(c, *ensemble), base);
  scores = transformTargets(c, scores, targets, transform);
  c.setOutput(0, c.cast(scores, c.builder().getF32Type()));
}

//===--- Labels ---===//

/// The integer labels; a gap for those of strings where they are wanted.
SmallVector<int64_t> readLabels(NodeContext &c, StringRef integers, StringRef strings,
                                size_t &count) {
  SmallVector<int64_t> labels = c.integerList(integers);
  const Attribute *names = c.attribute(strings, AttributeType::Strings);
  count = labels.size();
  if (names && !names->strings.empty()) {
    count = names->strings.size();
    if (c.wantsOutput(0)) {
      c.gap("labels that are strings are not supported", "give the classes integers as labels");
    }
  }
  return labels;
}

/// Output 0: the labels that `places` [rows] number.
void setLabels(NodeContext &c, ArrayRef<int64_t> labels, Value places) {
  if (c.wantsOutput(0) && places) {
    int64_t count = static_cast<int64_t>(labels.size());
    Value table = c.integerConstant(labels, {count}, c.builder().getI64Type());
    c.setOutput(0, c.make<tn::GatherOp>(table, places, int64_t{0}));
  }
}

/// The first of the largest scores of each row.
Value best(NodeContext &c, Value scores) {
  return c.make<tn::ArgReduceOp>(scores, int64_t{1}, false, true, false);
}

/// Of one score s a row, [rows, 1]: the second label where it is above `least`, and the scores of
/// both classes, of which the first is `other`.
void setBinary(NodeContext &c, ArrayRef<int64_t> labels, Value s, double least, Value other,
               Value own) {
  Value isSecond = c.compare(s, tn::Predicate::gt, c.scalarLike(least, s));
  Type index = c.builder().getI64Type();
  if (!isSecond) {
    return;
  }
  AffineExpr rows = tn::getDims(s.getType())[0];
  setLabels(c, labels, c.reshape(c.cast(isSecond, index), {rows}));
  c.setOutput(1, c.cast(c.concat({other, own}, 1), c.builder().getF32Type()));
}

/// Two classes of which only the first has weights, which are the score of the second.
void setByOneWeight(NodeContext &c, ArrayRef<int64_t> labels, Value s, StringRef transform,
                    bool isProbability) {
  Value zero = c.scalarLike(0, s);
  Value negative = c.sub(zero, s);
  if (transform == "LOGISTIC") {
    return setBinary(c, labels, s, isProbability ? 0.5 : 0, c.unary<tn::SigmoidOp>(negative),
                     c.unary<tn::SigmoidOp>(s));
  }
  Value other = isProbability ? c.sub(c.scalarLike(1, s), s) : negative;
  setBinary(c, labels, s, isProbability ? 0.5 : 0, other, s);
}

void treeEnsembleClassifier(NodeContext &c) {
  std::optional<Ensemble> ensemble = readNodeLists(c, "class");
  SmallVector<double> base = c.numberList("base_values");
  std::string transform = c.choice("post_transform", kTransforms);
  size_t count = 0;
  SmallVector<int64_t> labels = readLabels(c, "classlabels_int64s", "classlabels_strings", count);
  if (!ensemble || c.failed()) {
    return;
  }
  if (transform == "PROBIT" || count < 2) {
    return c.gap("PROBIT, and a single class, are not supported", "use another post_transform");
  }
  std::set<int64_t> weighted;
  bool isProbability = true;
  for (const LeafWeight &leaf : ensemble->weights) {
    weighted.insert(leaf.target);
    isProbability &= leaf.weight >= 0;
  }
  bool isBinary = count == 2 && weighted.size() == 1 && *weighted.begin() == 0;
  ensemble->targets = isBinary ? 1 : static_cast<int64_t>(count);
  if (!fitsColumns(c, base, ensemble->targets, "base_values")) {
    return;
  }
  if (count == 2 && !isBinary && (c.wantsOutput(0) || !base.empty())) {
    return c.gap("two classes of which the second has weights of its own are not supported",
                 "give the weights of the second class as those of the first");
  }
  Value scores = addRow(c, evaluateTrees(c, *ensemble), base);
  if (!scores) {
    return;
  }
  if (isBinary) {
    return setByOneWeight(c, labels, scores, transform, isProbability);
  }
  setLabels(c, labels, best(c, scores));
  c.setOutput(1, c.cast(transformScores(c, scores, transform), c.builder().getF32Type()));
}

//===--- TreeEnsemble ---===//

/// The children of the branches as nodes: leaves come behind the branches, and a comparison with a
/// set is one with each of its members in turn.
std::optional<Ensemble> readTreeEnsemble(NodeContext &c) {
  SmallVector<int64_t> features = c.integerList("nodes_featureids"),
                       yes = c.integerList("nodes_truenodeids"),
                       no = c.integerList("nodes_falsenodeids"),
                       yesLeaf = c.integerList("nodes_trueleafs"),
                       noLeaf = c.integerList("nodes_falseleafs"),
                       missing = c.integerList("nodes_missing_value_tracks_true"),
                       targets = c.integerList("leaf_targetids");
  SmallVector<double> modes = c.numberList("nodes_modes"), splits = c.numberList("nodes_splits"),
                      weights = c.numberList("leaf_weights"),
                      members = c.numberList("membership_values");
  c.ignore("nodes_hitrates"); // what training counted
  size_t count = features.size();
  Ensemble ensemble;
  ensemble.roots = c.integerList("tree_roots");
  ensemble.targets = c.integer("n_targets", 1);
  bool isSound = modes.size() == count && splits.size() == count && yes.size() == count &&
                 no.size() == count && yesLeaf.size() == count && noLeaf.size() == count &&
                 (missing.empty() || missing.size() == count) && weights.size() == targets.size();
  int64_t branches = static_cast<int64_t>(count), leaves = static_cast<int64_t>(weights.size());
  // A tree that is one leaf has a branch both of whose sides are that leaf.
  auto child = [&](int64_t number, int64_t isLeaf) {
    isSound &= number >= 0 && number < (isLeaf != 0 ? leaves : branches);
    return isLeaf != 0 ? branches + number : number;
  };
  std::vector<TreeNode> chained;
  const double *member = members.begin();
  for (size_t i = 0; isSound && i < count; ++i) {
    isSound = modes[i] >= 0 && modes[i] <= 6;
    int64_t mode = isSound ? static_cast<int64_t>(modes[i]) : 0;
    TreeNode node{static_cast<Branch>(mode),
                  features[i],
                  splits[i],
                  child(yes[i], yesLeaf[i]),
                  child(no[i], noLeaf[i]),
                  !missing.empty() && missing[i] != 0};
    if (isSound && mode == 6) {
      node.branch = Branch::Equal;
      isSound &= member != members.end() && !std::isnan(*member);
      for (; isSound && member != members.end() && !std::isnan(*member); ++member) {
        bool isLast = member + 1 == members.end() || std::isnan(member[1]);
        bool isFirst = ensemble.nodes.size() == i;
        int64_t next = branches + leaves + static_cast<int64_t>(chained.size()) + (isFirst ? 0 : 1);
        TreeNode one = node;
        one.value = *member;
        one.no = isLast ? node.no : next;
        (isFirst ? ensemble.nodes : chained).push_back(one);
      }
      member += member == members.end() ? 0 : 1;
    } else {
      ensemble.nodes.push_back(node);
    }
  }
  for (int64_t leaf = 0; isSound && leaf < leaves; ++leaf) {
    ensemble.nodes.push_back({Branch::Leaf, 0, 0, branches + leaf, branches + leaf});
    ensemble.weights.push_back({branches + leaf, targets[leaf], weights[leaf]});
  }
  llvm::append_range(ensemble.nodes, chained);
  if (!isSound) {
    c.error(ErrorId::OnnxBadAttribute, "the lists of its nodes and leaves do not fit");
    return std::nullopt;
  }
  return ensemble;
}

void treeEnsemble(NodeContext &c) {
  constexpr Aggregate kKinds[] = {Aggregate::Average, Aggregate::Sum, Aggregate::Min,
                                  Aggregate::Max};
  int64_t aggregate = c.integer("aggregate_function", 1);
  int64_t transform = c.integer("post_transform", 0);
  std::optional<Ensemble> ensemble = readTreeEnsemble(c);
  if (!ensemble || aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4) {
    return c.error(ErrorId::OnnxBadAttribute,
                   "its aggregate_function or post_transform is unknown");
  }
  ensemble->aggregate = kKinds[aggregate];
  Value scores = evaluateTrees(c, *ensemble);
  scores = transformTargets(c, scores, ensemble->targets, kTransforms[transform]);
  c.setOutput(0, c.cast(scores, c.element(0)));
}

//===--- Linear models ---===//

/// x W^T + b: a row of coefficients and an intercept for each of `targets`.
Value linear(NodeContext &c, int64_t targets) {
  SmallVector<double> coefficients = c.numberList("coefficients");
  SmallVector<double> intercepts = c.numberList("intercepts");
  int64_t count = static_cast<int64_t>(coefficients.size());
  if (targets < 1 || count % targets != 0 || c.rank(0) != 2) {
    c.error(ErrorId::OnnxBadAttribute,
            "its coefficients are not rows for its targets, or its input is not a matrix");
    return Value();
  }
  Type real = c.builder().getF32Type();
  Value weights = c.realConstant(coefficients, {targets, count / targets}, real);
  Value y = c.make<tn::MatmulOp>(c.cast(c.value(0), real), weights, false, true);
  return fitsColumns(c, intercepts, targets, "intercepts") ? addRow(c, y, intercepts) : Value();
}

void linearRegressor(NodeContext &c) {
  int64_t targets = c.integer("targets", 1);
  std::string transform = c.choice("post_transform", kTransforms);
  c.setOutput(0, transformTargets(c, linear(c, targets), targets, transform));
}

void linearClassifier(NodeContext &c) {
  c.ignore("multi_class"); // says how it was trained
  std::string transform = c.choice("post_transform", kTransforms);
  size_t count = 0;
  SmallVector<int64_t> labels = readLabels(c, "classlabels_ints", "classlabels_strings", count);
  int64_t rows = static_cast<int64_t>(c.numberList("intercepts").size());
  rows = rows == 0 ? static_cast<int64_t>(count) : rows;
  Value scores = linear(c, rows);
  if (!scores || c.failed()) {
    return;
  }
  if (rows == static_cast<int64_t>(count) && rows > 1) {
    setLabels(c, labels, best(c, scores));
    return c.setOutput(1, transformScores(c, scores, transform));
  }
  if (rows != 1 || count != 2) {
    return c.gap("it does not have one row of coefficients per class", "give each class its own");
  }
  setByOneWeight(c, labels, scores, transform, false);
}

constexpr char kMl[] = "ai.onnx.ml";

constexpr Attributes kLinearClassifier = {{"classlabels_ints", kInts},
                                          {"classlabels_strings", kStrings},
                                          needs({"coefficients", kFloats}),
                                          {"intercepts", kFloats},
                                          {"multi_class", kInt},
                                          {"post_transform", kString}};
constexpr Attributes kLinearRegressor = {{"coefficients", kFloats},
                                         {"intercepts", kFloats},
                                         {"post_transform", kString},
                                         {"targets", kInt}};
constexpr Attributes kTreeEnsemble = {{"aggregate_function", kInt},
                                      needs({"leaf_targetids", kInts}),
                                      needs({"leaf_weights", kTensor}),
                                      {"membership_values", kTensor},
                                      {"n_targets", kInt},
                                      needs({"nodes_falseleafs", kInts}),
                                      needs({"nodes_falsenodeids", kInts}),
                                      needs({"nodes_featureids", kInts}),
                                      {"nodes_hitrates", kTensor},
                                      {"nodes_missing_value_tracks_true", kInts},
                                      needs({"nodes_modes", kTensor}),
                                      needs({"nodes_splits", kTensor}),
                                      needs({"nodes_trueleafs", kInts}),
                                      needs({"nodes_truenodeids", kInts}),
                                      {"post_transform", kInt},
                                      needs({"tree_roots", kInts})};
constexpr Attributes kClassifier = {{"base_values", kFloats},
                                    {"base_values_as_tensor", kTensor, 3},
                                    {"class_ids", kInts},
                                    {"class_nodeids", kInts},
                                    {"class_treeids", kInts},
                                    {"class_weights", kFloats},
                                    {"class_weights_as_tensor", kTensor, 3},
                                    {"classlabels_int64s", kInts},
                                    {"classlabels_strings", kStrings},
                                    {"nodes_falsenodeids", kInts},
                                    {"nodes_featureids", kInts},
                                    {"nodes_hitrates", kFloats},
                                    {"nodes_hitrates_as_tensor", kTensor, 3},
                                    {"nodes_missing_value_tracks_true", kInts},
                                    {"nodes_modes", kStrings},
                                    {"nodes_nodeids", kInts},
                                    {"nodes_treeids", kInts},
                                    {"nodes_truenodeids", kInts},
                                    {"nodes_values", kFloats},
                                    {"nodes_values_as_tensor", kTensor, 3},
                                    {"post_transform", kString}};
constexpr Attributes kRegressor = {{"aggregate_function", kString},
                                   {"base_values", kFloats},
                                   {"base_values_as_tensor", kTensor, 3},
                                   {"n_targets", kInt},
                                   {"nodes_falsenodeids", kInts},
                                   {"nodes_featureids", kInts},
                                   {"nodes_hitrates", kFloats},
                                   {"nodes_hitrates_as_tensor", kTensor, 3},
                                   {"nodes_missing_value_tracks_true", kInts},
                                   {"nodes_modes", kStrings},
                                   {"nodes_nodeids", kInts},
                                   {"nodes_treeids", kInts},
                                   {"nodes_truenodeids", kInts},
                                   {"nodes_values", kFloats},
                                   {"nodes_values_as_tensor", kTensor, 3},
                                   {"post_transform", kString},
                                   {"target_ids", kInts},
                                   {"target_nodeids", kInts},
                                   {"target_treeids", kInts},
                                   {"target_weights", kFloats},
                                   {"target_weights_as_tensor", kTensor, 3}};

constexpr OpRow kTreeOpRows[] = {
    {"LinearClassifier", 1, 1, 1, 2, linearClassifier, kLinearClassifier, kMl},
    {"LinearRegressor", 1, 1, 1, 1, linearRegressor, kLinearRegressor, kMl},
    {"TreeEnsemble", 5, 1, 1, 1, treeEnsemble, kTreeEnsemble, kMl},
    {"TreeEnsembleClassifier", 1, 1, 1, 2, treeEnsembleClassifier, kClassifier, kMl},
    {"TreeEnsembleRegressor", 1, 1, 1, 1, treeEnsembleRegressor, kRegressor, kMl},
};

} // namespace

ArrayRef<OpRow> treeRows() { return kTreeOpRows; }

} // namespace tenon::onnx
