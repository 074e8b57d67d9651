// SVMClassifier and SVMRegressor of ai.onnx.ml: kernels between rows of features and the support
// vectors, then sums of them. Relies on ONNX Runtime's scores where the specification is silent.
#include "compiler/frontend/onnx/ops/Matrix.h"
#include "compiler/frontend/onnx/ops/Trees.h"

#include <numeric>

using namespace mlir;

namespace tenon::onnx {
namespace {

/// True if there are `count` numbers; else an error.
bool hasNumbers(NodeContext &c, size_t found, int64_t count, StringRef name) {
  if (count >= 0 && found != static_cast<size_t>(count)) {
    c.error(ErrorId::OnnxBadAttribute, "attribute '" + name + "' has " + Twine(found) +
                                           " numbers where " + Twine(count) + " fit");
  }
  return !c.failed();
}

/// The kernel of each row of input 0 with each of `count` rows of `attribute`: [rows, count].
Value kernels(NodeContext &c, StringRef attribute, int64_t count, StringRef type) {
  SmallVector<double> vectors = c.numberList(attribute);
  SmallVector<double> parameters = c.numberList("kernel_params");
  parameters.resize(3);
  std::optional<int64_t> features = c.rank(0) == 2 ? tn::constantDim(c.dims(0)[1]) : std::nullopt;
  if (!features || count < 1) {
    c.gap("its input is not a matrix with a constant number of features",
          "declare it with --shape");
    return Value();
  }
  if (!hasNumbers(c, vectors.size(), count * *features, attribute)) {
    return Value();
  }
  Type real = c.builder().getF32Type();
  Value x = c.cast(c.value(0), real);
  Value all = c.realConstant(vectors, {count, *features}, real);
  double gamma = parameters[0];
  if (type == "RBF") {
    AffineExpr one = c.constantSize(1), width = c.constantSize(*features);
    Value apart = c.sub(c.reshape(x, {c.dims(0)[0], one, width}),
                        c.reshape(all, {one, c.constantSize(count), width}));
    Value squares = c.reduce(tn::ReduceKind::sum, c.mul(apart, apart), {2}, false);
    return c.unary<tn::ExpOp>(c.mul(squares, c.scalar(-gamma, real)));
  }
  Value dot = c.make<tn::MatmulOp>(x, all, false, true);
  if (type == "LINEAR") {
    return dot;
  }
  dot = c.add(c.mul(dot, c.scalar(gamma, real)), c.scalar(parameters[1], real));
  return type == "SIGMOID" ? c.unary<tn::TanhOp>(dot)
                           : c.make<tn::PowOp>(dot, c.scalar(parameters[2], real));
}

constexpr StringRef kKernels[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};

void svmRegressor(NodeContext &c) {
  std::string type = c.choice("kernel_type", kKernels);
  int64_t supports = c.integer("n_supports", 0);
  bool isOneClass = c.integer("one_class", 0) != 0;
  SmallVector<double> rho = c.numberList("rho"), coefficients = c.numberList("coefficients");
  if (c.choice("post_transform", kTransforms) != "NONE") {
    c.ignore("post_transform"); // of one score, which no transform changes in ONNX Runtime
  }
  if (!hasNumbers(c, rho.size(), 1, "rho")) {
    return;
  }
  Type real = c.builder().getF32Type();
  Value sum;
  if (supports > 0) {
    Value each = kernels(c, "support_vectors", supports, type);
    if (!each || !hasNumbers(c, coefficients.size(), supports, "coefficients")) {
      return;
    }
    sum =
        c.make<tn::MatmulOp>(each, c.realConstant(coefficients, {supports, 1}, real), false, false);
  } else {
    c.ignore("support_vectors");
    sum = kernels(c, "coefficients", 1, "LINEAR");
  }
  sum = addRow(c, sum, rho);
  if (isOneClass && sum) {
    sum = c.select(c.compare(sum, tn::Predicate::gt, c.scalar(0, real)), c.scalar(1, real),
                   c.scalar(-1, real));
  }
  c.setOutput(0, sum);
}

//===--- Classifier ---===//

/// The classes, and what the attributes say of the pairs of them.
struct Classes {
  SmallVector<int64_t> labels, counts;
  int64_t number = 0, vectors = 0;
  SmallVector<double> weights;       ///< [pairs, vectors]
  SmallVector<double> first, second; ///< [pairs, classes]: 1 for the class of a pair
  int64_t pairs = 0;
};

std::optional<Classes> readClasses(NodeContext &c) {
  Classes all;
  all.labels = c.integerList("classlabels_ints");
  all.counts = c.integerList("vectors_per_class");
  all.number = static_cast<int64_t>(all.counts.size());
  all.pairs = all.number * (all.number - 1) / 2;
  const Attribute *names = c.attribute("classlabels_strings", AttributeType::Strings);
  bool isNamed = names && !names->strings.empty();
  if (isNamed && c.wantsOutput(0)) {
    c.gap("labels that are strings are not supported", "give the classes integers as labels");
  } else if (all.number < 2) {
    c.gap("classes without support vectors are not supported", "use LinearClassifier");
  } else if (!isNamed) {
    hasNumbers(c, all.labels.size(), all.number, "classlabels_ints");
  }
  constexpr int64_t kMax = 1 << 24;
  for (int64_t count : all.counts) {
    if (count < 0 || count > kMax) {
      c.error(ErrorId::OnnxBadAttribute, "attribute 'vectors_per_class' has " + Twine(count));
    }
  }
  all.vectors = std::accumulate(all.counts.begin(), all.counts.end(), int64_t{0});
  SmallVector<double> coefficients = c.numberList("coefficients");
  if (c.failed() ||
      !hasNumbers(c, coefficients.size(), (all.number - 1) * all.vectors, "coefficients")) {
    return std::nullopt;
  }
  auto classOf = [&](int64_t vector) {
    int64_t number = 0;
    for (; vector >= all.counts[number]; ++number) {
      vector -= all.counts[number];
    }
    return number;
  };
  for (int64_t i = 0; i < all.number; ++i) {
    for (int64_t j = i + 1; j < all.number; ++j) {
      for (int64_t v = 0; v < all.vectors; ++v) {
        int64_t own = classOf(v);
        all.weights.push_back(own == i   ? coefficients[(j - 1) * all.vectors + v]
                              : own == j ? coefficients[i * all.vectors + v]
                                         : 0);
      }
      for (int64_t k = 0; k < all.number; ++k) {
        all.first.push_back(k == i);
        all.second.push_back(k == j);
      }
    }
  }
  return all;
}

/// The scores of both classes of one pair.
Value scoresOfTwo(NodeContext &c, Value s, StringRef transform) {
  Type real = c.builder().getF32Type();
  Value negative = c.sub(c.scalar(0, real), s);
  if (transform == "LOGISTIC") {
    return c.concat({c.unary<tn::SigmoidOp>(negative), c.unary<tn::SigmoidOp>(s)}, 1);
  }
  return c.concat({transform == "NONE" ? negative : c.sub(c.scalar(1, real), s), s}, 1);
}

/// The probabilities [rows, classes] that fit those of all pairs best: where the sum over i, j of
/// (r_ji p_i - r_ij p_j)^2 is least (Wu, Lin and Weng, 2004, the second method).
Value probabilities(NodeContext &c, Value scores, const Classes &all, ArrayRef<double> a,
                    ArrayRef<double> b) {
  Type real = c.builder().getF32Type();
  int64_t count = all.number, square = count * count;
  Value at = c.add(c.mul(scores, c.realConstant(a, {1, all.pairs}, real)),
                   c.realConstant(b, {1, all.pairs}, real));
  constexpr double kLeast = 1e-7;
  Value own = c.unary<tn::SigmoidOp>(c.sub(c.scalar(0, real), at));
  own = c.min(c.max(own, c.scalar(kLeast, real)), c.scalar(1 - kLeast, real));
  SmallVector<double> above, below;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = i + 1; j < count; ++j) {
      for (int64_t k = 0; k < square; ++k) {
        above.push_back(k == i * count + j);
        below.push_back(k == j * count + i);
      }
    }
  }
  auto placed = [&](Value x, ArrayRef<double> places) {
    return c.make<tn::MatmulOp>(x, c.realConstant(places, {all.pairs, square}, real), false, false);
  };
  AffineExpr rows = c.dims(0)[0], one = c.constantSize(1), size = c.constantSize(count);
  Value r = c.add(placed(own, above), placed(c.sub(c.scalar(1, real), own), below));
  r = c.reshape(r, {rows, size, size});
  Value diagonal = c.reduce(tn::ReduceKind::sum, c.mul(r, r), {1}, true);
  Value isOwn = c.compare(c.alongAxis(c.positions(size), 1, 3), tn::Predicate::eq,
                          c.alongAxis(c.positions(size), 2, 3));
  Value zero = c.scalar(0, real);
  Value q = c.sub(c.select(isOwn, diagonal, zero), c.mul(r, c.transpose(r, {0, 2, 1})));
  // The sum of all is 1, by a multiplier.
  Value ones = c.broadcast(c.scalar(1, real), {rows, size, one});
  Value none = c.broadcast(zero, {rows, one, one}), nones = c.broadcast(zero, {rows, size, one});
  Value last = c.concat({c.transpose(ones, {0, 2, 1}), none}, 2);
  Value matrix = c.concat({c.concat({q, ones}, 2), last}, 1);
  Value right = c.concat({nones, c.broadcast(c.scalar(1, real), {rows, one, one})}, 1);
  Value p = solve(c, matrix, right, count + 1);
  return p ? c.reshape(c.sliceAxis(p, 1, c.constantSize(0), size), {rows, size}) : p;
}

void svmClassifier(NodeContext &c) {
  std::string type = c.choice("kernel_type", kKernels);
  std::string transform = c.choice("post_transform", kTransforms);
  SmallVector<double> rho = c.numberList("rho"), a = c.numberList("prob_a"),
                      b = c.numberList("prob_b");
  std::optional<Classes> classes = readClasses(c);
  if (!classes || !hasNumbers(c, rho.size(), classes->pairs, "rho")) {
    return;
  }
  constexpr int64_t kMaxClasses = 32;
  if (transform == "PROBIT" || (!a.empty() && classes->number > kMaxClasses)) {
    return c.gap("PROBIT, and probabilities of more than 32 classes, are not supported",
                 "export without them");
  }
  if (!a.empty() && (!hasNumbers(c, a.size(), classes->pairs, "prob_a") ||
                     !hasNumbers(c, b.size(), classes->pairs, "prob_b"))) {
    return;
  }
  Type real = c.builder().getF32Type();
  Value each = kernels(c, "support_vectors", classes->vectors, type);
  Value weights = c.realConstant(classes->weights, {classes->pairs, classes->vectors}, real);
  Value scores = each ? addRow(c, c.make<tn::MatmulOp>(each, weights, false, true), rho) : Value();
  if (!scores) {
    return;
  }
  Value isFirst = c.cast(c.compare(scores, tn::Predicate::gt, c.scalar(0, real)), real);
  SmallVector<int64_t> shape = {classes->pairs, classes->number};
  Value votes = c.add(
      c.make<tn::MatmulOp>(isFirst, c.realConstant(classes->first, shape, real), false, false),
      c.make<tn::MatmulOp>(c.sub(c.scalar(1, real), isFirst),
                           c.realConstant(classes->second, shape, real), false, false));
  if (c.wantsOutput(0) && votes) {
    Value table = c.integerConstant(classes->labels, {classes->number}, c.builder().getI64Type());
    Value best = c.make<tn::ArgReduceOp>(votes, int64_t{1}, false, true, false);
    c.setOutput(0, c.make<tn::GatherOp>(table, best, int64_t{0}));
  }
  if (a.empty() && classes->number == 2) {
    return c.setOutput(1, scoresOfTwo(c, scores, transform));
  }
  scores = a.empty() ? scores : probabilities(c, scores, *classes, a, b);
  c.setOutput(1, transformScores(c, scores, transform));
}

constexpr Attributes kSupportClassifier = {{"classlabels_ints", kInts},
                                           {"classlabels_strings", kStrings},
                                           {"coefficients", kFloats},
                                           {"kernel_params", kFloats},
                                           {"kernel_type", kString},
                                           {"post_transform", kString},
                                           {"prob_a", kFloats},
                                           {"prob_b", kFloats},
                                           {"rho", kFloats},
                                           {"support_vectors", kFloats},
                                           {"vectors_per_class", kInts}};
constexpr Attributes kSupportRegressor = {{"coefficients", kFloats}, {"kernel_params", kFloats},
                                          {"kernel_type", kString},  {"n_supports", kInt},
                                          {"one_class", kInt},       {"post_transform", kString},
                                          {"rho", kFloats},          {"support_vectors", kFloats}};

constexpr OpRow kSupportOpRows[] = {
    {"SVMClassifier", 1, 1, 1, 2, svmClassifier, kSupportClassifier, "ai.onnx.ml"},
    {"SVMRegressor", 1, 1, 1, 1, svmRegressor, kSupportRegressor, "ai.onnx.ml"},
};

} // namespace

ArrayRef<OpRow> supportRows() { return kSupportOpRows; }

} // namespace tenon::onnx
