// Batch, layer, group, instance and RMS normalization, and the older local and variance forms.
// Relies on `tn`'s norms for the usual results; extra results (mean, deviation) are computed apart.
#include "compiler/frontend/onnx/NodeContext.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

SmallVector<int64_t> axesFrom(int64_t first, int64_t rank) {
  SmallVector<int64_t> axes;
  for (int64_t axis = first; axis < rank; ++axis) {
    axes.push_back(axis);
  }
  return axes;
}

Value square(NodeContext &c, Value x) { return c.mul(x, x); }

/// Mean of the squared distance from the mean, dims kept.
Value variance(NodeContext &c, Value x, Value mean, ArrayRef<int64_t> axes) {
  return c.reduce(tn::ReduceKind::mean, square(c, c.sub(x, mean)), axes, true);
}

Value inverseDeviation(NodeContext &c, Value variance, double epsilon) {
  return c.unary<tn::ReciprocalOp>(
      c.unary<tn::SqrtOp>(c.add(variance, c.scalarLike(epsilon, variance))));
}

/// Training form: statistics of the batch, and the running ones moved towards them.
void batchNormTraining(NodeContext &c, Value input) {
  int64_t rank = std::max<int64_t>(2, c.rank(0));
  SmallVector<int64_t> axes = axesFrom(2, rank);
  axes.insert(axes.begin(), 0);
  Value x = c.widened(input);
  Value mean = c.reduce(tn::ReduceKind::mean, x, axes, true);
  Value var = variance(c, x, mean, axes);
  Value normal = c.mul(c.sub(x, mean), inverseDeviation(c, var, c.real("epsilon", 1e-5f)));
  auto parameter = [&](unsigned i) {
    return c.cast(c.alongAxis(c.value(i), 1, rank), getElementTypeOrSelf(x));
  };
  Value y = c.cast(c.add(c.mul(normal, parameter(1)), parameter(2)), c.element(0));
  c.setOutput(0, c.rank(0) == rank ? y : c.reshape(y, c.dims(0)));
  double momentum = c.real("momentum", 0.9f);
  for (unsigned i : {1u, 2u}) {
    c.ignoreInput(2 + i);
    if (c.wantsOutput(i)) {
      Value running = c.value(2 + i);
      Value batch = c.cast(c.reshape(i == 1 ? mean : var, c.dims(2 + i)), c.element(2 + i));
      c.setOutput(i, c.add(c.mul(running, c.scalarLike(momentum, running)),
                           c.mul(batch, c.scalarLike(1 - momentum, batch))));
    }
  }
}

void batchNorm(NodeContext &c) {
  if (c.rank(0) == 0) {
    return c.error(ErrorId::OnnxBadNode, "its input has no channel dimension");
  }
  if (c.opset < 9 && c.integer("spatial", 1) == 0) {
    return c.gap("statistics for each element (spatial = 0) are not supported",
                 "use statistics for each channel");
  }
  // One dimension is the batch of a single channel.
  tn::Dims dims = c.dims(0);
  Value x = dims.size() > 1 ? c.value(0) : c.reshape(c.value(0), {dims[0], c.constantSize(1)});
  if (c.opset >= 14 && c.integer("training_mode", 0) != 0) {
    return batchNormTraining(c, x);
  }
  if (c.opset < 7 && c.integer("is_test", 0) == 0) {
    return c.gap("training mode (is_test = 0) is not supported", "export in evaluation mode");
  }
  c.ignore("momentum");
  Value y = c.make<tn::BatchNormOp>(x, c.value(1), c.value(2), c.value(3), c.value(4),
                                    llvm::APFloat(c.real("epsilon", 1e-5f)), false);
  c.setOutput(0, dims.size() > 1 ? y : c.reshape(y, dims));
}

/// A scale or bias without leading dims of 1: it broadcasts to x, and x not to it, so that a size
/// of x that is free is its own.
Value parameter(NodeContext &c, unsigned i) {
  if (!c.has(i) || c.failed()) {
    return Value();
  }
  tn::Dims own = c.dims(i), x = c.dims(0);
  if (own.size() > x.size()) {
    c.error(ErrorId::OnnxBadNode, "a scale or bias has more dims than its input");
    return Value();
  }
  for (auto [have, need] : llvm::zip_equal(own, ArrayRef(x).take_back(own.size()))) {
    if (tn::constantDim(have) != 1) {
      c.require(tn::ConstraintKind::equal, need, have, "the sizes of its input and scale or bias");
    }
  }
  tn::Dims dims = c.dims(i);
  return c.reshape(c.value(i), ArrayRef(dims).drop_while(
                                   [](AffineExpr dim) { return tn::constantDim(dim) == 1; }));
}

/// Whether it has the dims of x from the axis on alone, which is what `tn`'s norms take.
bool isOfRow(NodeContext &c, Value parameter, int64_t axis) {
  return !parameter || cast<RankedTensorType>(parameter.getType()).getRank() <= c.rank(0) - axis;
}

Value overRow(NodeContext &c, Value parameter, int64_t axis) {
  tn::Dims dims = c.dims(0);
  return c.broadcast(parameter, ArrayRef(dims).drop_front(axis));
}

/// The type that the statistics of a norm are computed in; null after a failure.
Type stashType(NodeContext &c) {
  Type stash = c.elementNamed("stash_type", c.builder().getF32Type());
  if (stash && (!isa<FloatType>(stash) || stash.getIntOrFloatBitWidth() < 16)) {
    c.error(ErrorId::OnnxBadAttribute, "attribute 'stash_type' is not a float type");
  }
  return c.failed() ? Type() : stash;
}

/// A norm without parameters: in the input's type, then scaled and shifted.
Value scaled(NodeContext &c, Value normal, Value scale, Value bias) {
  Value y = c.mul(c.cast(normal, c.element(0)), scale);
  return bias ? c.add(y, bias) : y;
}

void layerNorm(NodeContext &c) {
  int64_t axis = c.axis("axis", -1, c.rank(0));
  Type stash = stashType(c);
  if (c.failed()) {
    return;
  }
  double epsilon = c.real("epsilon", 1e-5f);
  Value scale = parameter(c, 1), bias = parameter(c, 2);
  bool isFused = stash.isF32() && isOfRow(c, scale, axis) && isOfRow(c, bias, axis);
  auto norm = [&](Value x, Value by, Value plus) {
    return c.make<tn::LayerNormOp>(x, by, plus, axis, llvm::APFloat(epsilon));
  };
  Value x = c.cast(c.value(0), stash);
  // In f32 is how `tn.layer_norm` computes anyway.
  c.setOutput(0, isFused ? norm(c.value(0), overRow(c, scale, axis), overRow(c, bias, axis))
                         : scaled(c, norm(x, Value(), Value()), scale, bias));
  if (c.wantsOutput(1) || c.wantsOutput(2)) {
    // Both are computed in, and of, the type that is stashed.
    DataType stash = static_cast<DataType>(c.integer("stash_type", 1));
    Type element = stash == DataType::BFloat16 ? Type(c.builder().getBF16Type())
                                               : Type(c.builder().getF32Type());
    if (c.element(0).getIntOrFloatBitWidth() < 32) {
      x = c.cast(x, c.builder().getF32Type());
    }
    SmallVector<int64_t> axes = axesFrom(axis, c.rank(0));
    Value mean = c.reduce(tn::ReduceKind::mean, x, axes, true);
    c.setOutput(1, c.cast(mean, element));
    c.setOutput(2, c.cast(inverseDeviation(c, variance(c, x, mean, axes), epsilon), element));
  }
}

void rmsNorm(NodeContext &c) {
  int64_t axis = c.axis("axis", -1, c.rank(0));
  Type stash = stashType(c);
  if (c.failed()) {
    return;
  }
  double epsilon = c.real("epsilon", 1e-5f);
  Value scale = parameter(c, 1);
  auto norm = [&](Value x, Value by) {
    return c.make<tn::RmsNormOp>(x, by, axis, llvm::APFloat(epsilon));
  };
  c.setOutput(0, stash.isF32() && isOfRow(c, scale, axis)
                     ? norm(c.value(0), overRow(c, scale, axis))
                     : scaled(c, norm(c.cast(c.value(0), stash), Value()), scale, Value()));
}

/// `haveOwn`: the scale has an element for each channel.
std::optional<int64_t> channels(NodeContext &c, bool haveOwn) {
  if (c.rank(0) < 2 || c.rank(1) != 1) {
    c.error(ErrorId::OnnxBadNode, "its input has no channel dimension, or its scale is not a list");
    return std::nullopt;
  }
  if (haveOwn && tn::constantDim(c.dims(1)[0])) {
    c.require(tn::ConstraintKind::equal, c.dims(0)[1], c.dims(1)[0], "the channels and its scale");
  }
  std::optional<int64_t> count = tn::constantDim(c.dims(0)[1]);
  if (!count) {
    c.gap("the number of channels is not a constant", "declare it with --shape");
  }
  return c.failed() ? std::nullopt : count;
}

void groupNorm(NodeContext &c) {
  std::optional<int64_t> count = channels(c, /*haveOwn=*/c.opset >= 21);
  if (!count) {
    return;
  }
  int64_t groups = c.integer("num_groups", 0);
  if (groups <= 0 || *count % groups != 0) {
    return c.error(ErrorId::OnnxBadAttribute,
                   "attribute 'num_groups' does not divide the channels");
  }
  Value parameters[2] = {c.value(1), c.value(2)};
  if (c.opset < 21 && groups != *count) {
    for (Value &parameter : parameters) {
      AffineExpr g = c.constantSize(groups);
      Value column = c.reshape(parameter, {g, c.constantSize(1)});
      parameter = c.reshape(c.broadcast(column, {g, c.constantSize(*count / groups)}),
                            {c.constantSize(*count)});
    }
  }
  Type stash = stashType(c);
  double epsilon = c.real("epsilon", 1e-5f);
  auto norm = [&](Value x, Value scale, Value bias) {
    return c.make<tn::GroupNormOp>(x, scale, bias, groups, llvm::APFloat(epsilon));
  };
  if (!stash || stash.isF32()) {
    return c.setOutput(0, norm(c.value(0), parameters[0], parameters[1]));
  }
  auto all = [&](double value) {
    return c.broadcast(c.scalar(value, stash), {c.constantSize(*count)});
  };
  c.setOutput(0, scaled(c, norm(c.cast(c.value(0), stash), all(1), all(0)),
                        c.alongAxis(parameters[0], 1, c.rank(0)),
                        c.alongAxis(parameters[1], 1, c.rank(0))));
}

void instanceNorm(NodeContext &c) {
  std::optional<int64_t> count = channels(c, /*haveOwn=*/true);
  if (count) {
    c.setOutput(0, c.make<tn::GroupNormOp>(c.value(0), c.value(1), c.value(2), *count,
                                           llvm::APFloat(c.real("epsilon", 1e-5f))));
  }
}

void meanVariance(NodeContext &c) {
  SmallVector<int64_t> axes = c.integerList("axes", {0, 2, 3});
  for (int64_t &axis : axes) {
    axis = c.normalizeAxis(axis, c.rank(0));
  }
  llvm::sort(axes);
  Value x = c.widened(c.value(0));
  Value mean = c.reduce(tn::ReduceKind::mean, x, axes, true);
  Value deviation = c.unary<tn::SqrtOp>(variance(c, x, mean, axes));
  Value y = c.div(c.sub(x, mean), c.add(deviation, c.scalarLike(1e-9, x)));
  c.setOutput(0, c.cast(y, c.element(0)));
}

void lpNorm(NodeContext &c) {
  int64_t axis = c.axis("axis", -1, c.rank(0));
  int64_t p = c.integer("p", 2);
  if (p != 1 && p != 2) {
    return c.error(ErrorId::OnnxBadAttribute, "attribute 'p' is neither 1 nor 2");
  }
  Value x = c.widened(c.value(0));
  Value sum =
      c.reduce(tn::ReduceKind::sum, p == 1 ? c.unary<tn::AbsOp>(x) : square(c, x), {axis}, true);
  Value norm = p == 1 ? sum : c.unary<tn::SqrtOp>(sum);
  // 0 / 0 is defined to be 0.
  Value zero = c.scalarLike(0, x);
  Value safe = c.select(c.compare(norm, tn::Predicate::eq, zero), c.scalarLike(1, x), norm);
  c.setOutput(0, c.cast(c.div(x, safe), c.element(0)));
}

void lrn(NodeContext &c) {
  int64_t size = c.integer("size", 0);
  if (size <= 0 || size > 1024 || c.rank(0) < 2) {
    return c.error(ErrorId::OnnxBadAttribute,
                   "attribute 'size' is missing or not a small positive number");
  }
  Value x = c.widened(c.value(0));
  int64_t rank = c.rank(0);
  SmallVector<int64_t> begins(rank, 0);
  SmallVector<int64_t> ends(rank, 0);
  begins[1] = (size - 1) / 2;
  ends[1] = size - 1 - begins[1];
  Value padded = c.make<tn::PadOp>(square(c, x), Value(), begins, ends, tn::PadMode::constant);
  Value sum;
  for (int64_t i = 0; i < size; ++i) {
    Value part = c.sliceAxis(padded, 1, c.constantSize(i), c.dims(0)[1]);
    sum = sum ? c.add(sum, part) : part;
  }
  Value base = c.add(c.mul(sum, c.scalarLike(c.real("alpha", 1e-4f) / size, x)),
                     c.scalarLike(c.real("bias", 1), x));
  Value y = c.div(x, c.make<tn::PowOp>(base, c.scalarLike(c.real("beta", 0.75), x)));
  c.setOutput(0, c.cast(y, c.element(0)));
}

constexpr Attributes kBatchNorm = {
    {"epsilon", kFloat}, {"is_test", kInt, 1, 6}, {"momentum", kFloat}, {"spatial", kInt, 1, 8}};
constexpr Attributes kBatchNorm14 = {
    {"epsilon", kFloat}, {"momentum", kFloat}, {"training_mode", kInt}};
constexpr Attributes kGroupNorm = {
    {"epsilon", kFloat}, needs({"num_groups", kInt}), {"stash_type", kInt, 21}};
constexpr Attributes kLrn = {
    {"alpha", kFloat}, {"beta", kFloat}, {"bias", kFloat}, needs({"size", kInt})};
constexpr Attributes kRowNorm = {{"axis", kInt}, {"epsilon", kFloat}, {"stash_type", kInt}};

constexpr OpRow kNormalizationOpRows[] = {
    {"BatchNormalization", 1, 5, 5, 5, batchNorm, kBatchNorm},
    {"BatchNormalization", 14, 5, 5, 3, batchNorm, kBatchNorm14},
    {"GroupNormalization", 18, 3, 3, 1, groupNorm, kGroupNorm},
    {"InstanceNormalization", 1, 3, 3, 1, instanceNorm, {{"epsilon", kFloat}}},
    {"LRN", 1, 1, 1, 1, lrn, kLrn},
    // ONNX Runtime writes it for older opsets too, as it does the simplified one.
    {"LayerNormalization", 1, 2, 3, 3, layerNorm, kRowNorm},
    {"LpNormalization", 1, 1, 1, 1, lpNorm, {{"axis", kInt}, {"p", kInt}}},
    {"MeanVarianceNormalization", 9, 1, 1, 1, meanVariance, {{"axes", kInts}}},
    {"SimplifiedLayerNormalization", 1, 2, 2, 2, rmsNorm, kRowNorm},
    {"RMSNormalization", 23, 2, 2, 1, rmsNorm, kRowNorm},
};

} // namespace

ArrayRef<OpRow> normalizationRows() { return kNormalizationOpRows; }

} // namespace tenon::onnx
