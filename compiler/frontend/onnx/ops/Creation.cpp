// Operators that make tensors from attributes, shapes or bounds.
// Relies on Sizes for integer results that later shape computations read.
#include "compiler/frontend/onnx/BoundedSizes.h"
#include "compiler/frontend/onnx/StatedSizes.h"

#include <cmath>

using namespace mlir;

namespace tenon::onnx {
namespace {

void setIntegers(NodeContext &c, ArrayRef<int64_t> values, ArrayRef<int64_t> shape) {
  if (static_cast<int64_t>(values.size()) > Sizes::kMaxElements) {
    return c.setOutput(0, c.integerConstant(values, shape, c.builder().getI64Type()));
  }
  Sizes sizes{SmallVector<int64_t>(shape), {}};
  for (int64_t value : values) {
    sizes.values.push_back(c.constantSize(value));
  }
  c.setOutput(0, sizes, c.builder().getI64Type());
}

void constant(NodeContext &c) {
  if (const Attribute *value = c.find("value"); value && value->tensor) {
    Status status = c.importer().defineConstant(c.scope(), c.node.outputs[0], *value->tensor);
    if (!status.isOk()) {
      return c.importer().setError(std::move(status));
    }
    return c.takeDefined(0);
  }
  if (const Attribute *value = c.attribute("sparse_value", AttributeType::SparseTensor)) {
    const SparseTensor &sparse = *value->sparse;
    Status status =
        c.importer().defineConstant(c.scope(), c.node.outputs[0], sparse.values, &sparse);
    if (!status.isOk()) {
      return c.importer().setError(std::move(status));
    }
    return c.takeDefined(0);
  }
  if (const Attribute *list = c.attribute("value_ints", AttributeType::Ints)) {
    return setIntegers(c, list->ints, {static_cast<int64_t>(list->ints.size())});
  }
  if (c.hasAttribute("value_int")) {
    return setIntegers(c, {c.integer("value_int", 0)}, {});
  }
  if (const Attribute *list = c.attribute("value_floats", AttributeType::Floats)) {
    return c.setOutput(0, ArrayRef<float>(list->floats),
                       {static_cast<int64_t>(list->floats.size())});
  }
  if (c.hasAttribute("value_float")) {
    float value = static_cast<float>(c.real("value_float", 0));
    return c.setOutput(0, ArrayRef<float>(value), {});
  }
  if (c.hasAttribute("value_string") || c.hasAttribute("value_strings")) {
    return c.gap("strings are not supported", "move the part of the model that needs them outside");
  }
  c.error(ErrorId::OnnxBadAttribute, "it has no value");
}

/// The value attribute of ConstantOfShape as a rank-0 value; float zero without it.
Value fillValue(NodeContext &c) {
  const Attribute *value = c.attribute("value", AttributeType::Tensor);
  if (!value) {
    return c.scalar(0, c.builder().getF32Type());
  }
  Scope local;
  Status status = c.importer().defineConstant(local, "value", *value->tensor);
  if (!status.isOk()) {
    c.importer().setError(std::move(status));
    return Value();
  }
  ImportedValue &defined = local.values["value"];
  if (!defined.type || defined.type.getNumElements() != 1) {
    c.error(ErrorId::OnnxBadAttribute, "attribute 'value' is not one element");
    return Value();
  }
  return c.reshape(c.importer().materialize(defined, c.location()), {});
}

void constantOfShape(NodeContext &c) {
  std::optional<tn::Dims> dims = c.sizes(0) ? std::nullopt : c.statedDims(0);
  bool isKnown = !dims;
  if (isKnown) {
    std::optional<Sizes> sizes = c.requireSizes(0, "shape");
    if (!sizes) {
      return;
    }
    dims = tn::Dims(sizes->values);
  }
  if (!c.requireNotNegative(*dims, "a dimension of the requested shape")) {
    return;
  }
  Value fill = fillValue(c);
  c.setOutput(
      0, c.broadcast(isKnown ? fill : requireData(c, fill, 0, Sizes::list(*dims), "shape"), *dims));
}

/// The number of elements of a Range over known integers; null if it cannot be written down.
AffineExpr rangeCount(NodeContext &c, AffineExpr start, AffineExpr limit, AffineExpr delta) {
  std::optional<int64_t> step = tn::constantDim(delta);
  if (!step || *step == 0 || std::abs(*step) > (int64_t{1} << 40)) {
    return nullptr;
  }
  AffineExpr span = *step > 0 ? subtractSizes(limit, start) : subtractSizes(start, limit);
  if (!span || c.symbols().bounds(span).max <= 0) {
    return span ? c.constantSize(0) : nullptr;
  }
  if (c.symbols().bounds(span).min < 0) {
    span = c.symbols().dependsOnData(span) ? AffineExpr()
                                           : c.symbols().greater(span, c.constantSize(0));
  }
  if (!span) {
    return nullptr;
  }
  int64_t stride = std::abs(*step);
  AffineExpr rounded = addSizes(span, c.constantSize(stride - 1));
  return stride == 1 ? span : divideSizes(c.symbols(), rounded, c.constantSize(stride));
}

AffineExpr realRangeCount(NodeContext &c) {
  double bounds[3];
  for (unsigned i = 0; i < 3; ++i) {
    std::optional<SmallVector<double>> known = c.reals(i);
    if (!known || known->size() != 1) {
      return nullptr;
    }
    bounds[i] = (*known)[0];
  }
  double count = std::ceil((bounds[1] - bounds[0]) / bounds[2]);
  bool sound = std::isfinite(count) && count < 1e15;
  return sound ? c.constantSize(std::max<int64_t>(0, static_cast<int64_t>(count))) : nullptr;
}

/// The start, where a Range of run-time bounds has `count` elements: it is past its limit behind
/// them, and not before.
Value requireRangeCount(NodeContext &c, AffineExpr count, Value start, Value limit, Value delta) {
  if (!start || !limit || !delta) {
    return Value();
  }
  Type element = cast<RankedTensorType>(start.getType()).getElementType();
  auto at = [&](AffineExpr position) {
    return c.add(
        start, c.mul(delta, c.cast(c.materialize(Sizes::scalar(position), c.builder().getI64Type()),
                                   element)));
  };
  auto isBefore = [&](Value x) {
    Value rising = c.compare(delta, tn::Predicate::gt, c.scalar(0, element));
    return c.select(rising, c.compare(x, tn::Predicate::lt, limit),
                    c.compare(x, tn::Predicate::gt, limit));
  };
  Value reached = isBefore(at(count));
  Value fits = reached ? c.unary<tn::NotOp>(reached) : Value();
  if (tn::constantDim(count) != 0) {
    fits = c.make<tn::AndOp>(fits, isBefore(at(addSizes(count, c.constantSize(-1)))));
  }
  return requireCondition(c, start, fits,
                          "the bounds give the length that the model states for '" +
                              StringRef(c.node.outputs[0]) + "'");
}

/// The number of elements of a Range whose bounds data decides; null if nothing bounds it.
AffineExpr boundedRangeCount(NodeContext &c) {
  std::optional<SmallVector<int64_t>> delta = c.integers(2);
  if (!isa<IntegerType>(c.element(0)) || !delta || delta->size() != 1 || delta->front() == 0 ||
      std::abs(delta->front()) > (int64_t{1} << 40)) {
    return nullptr;
  }
  std::optional<SmallVector<int64_t>> zero = c.integers(0);
  if (delta->front() == 1 && zero && zero->size() == 1 && zero->front() == 0) {
    return boundedSize(c, c.value(1)); // what else is as long has the same symbol
  }
  Type index = c.builder().getI64Type();
  Value start = c.cast(c.reshape(c.value(0), {}), index);
  Value limit = c.cast(c.reshape(c.value(1), {}), index);
  int64_t stride = std::abs(delta->front());
  Value span = delta->front() > 0 ? c.sub(limit, start) : c.sub(start, limit);
  Value count = c.div(c.add(span, c.scalar(static_cast<double>(stride - 1), index)),
                      c.scalar(static_cast<double>(stride), index));
  return boundedSize(c, c.max(count, c.scalar(0, index)));
}

void range(NodeContext &c) {
  std::optional<Sizes> start = c.sizes(0), limit = c.sizes(1), delta = c.sizes(2);
  AffineExpr count;
  if (start && limit && delta && start->isScalarLike() && limit->isScalarLike() &&
      delta->isScalarLike()) {
    count = rangeCount(c, start->values[0], limit->values[0], delta->values[0]);
  } else {
    count = realRangeCount(c);
  }
  bool isKnown = static_cast<bool>(count);
  if (std::optional<tn::Dims> stated = isKnown ? std::nullopt : c.statedDims(0);
      stated && stated->size() == 1) {
    count = (*stated)[0];
  }
  if (!count) {
    count = boundedRangeCount(c);
    isKnown = true;
  }
  if (!count) {
    return c.gap("its length is computed from input data without a bound",
                 "compute the bounds from shapes or constants, or take the minimum of the limit "
                 "and a constant (Min)");
  }
  // Sums of 16-bit floats are taken in a wider type.
  Type wide = c.elementNamed("stash_type", c.builder().getF32Type());
  bool narrow = isa<FloatType>(c.element(0)) && c.element(0).getIntOrFloatBitWidth() == 16;
  Type element = narrow ? wide : c.element(0);
  if (!element) {
    return;
  }
  auto scalarOf = [&](unsigned i) { return c.cast(c.reshape(c.value(i), {}), element); };
  Value first = scalarOf(0), step = scalarOf(2);
  if (!isKnown) {
    first = requireRangeCount(c, count, first, scalarOf(1), step);
  }
  Value y = c.makeTyped<tn::IotaOp>(tn::makeTensor({count}, element), first, step);
  c.setOutput(0, c.cast(y, c.element(0)));
}

void eyeLike(NodeContext &c) {
  c.ignoreInput(0);
  if (c.rank(0) != 2) {
    return c.error(ErrorId::OnnxBadNode, "its input is not a matrix");
  }
  Type element = c.elementNamed("dtype", c.element(0));
  if (!element) {
    return;
  }
  tn::Dims dims = c.dims(0);
  Value rows = c.alongAxis(c.positions(dims[0]), 0, 2);
  Value columns = c.alongAxis(c.positions(dims[1]), 1, 2);
  Value shifted =
      c.add(rows, c.scalar(static_cast<double>(c.integer("k", 0)), c.builder().getI64Type()));
  c.setOutput(0, c.cast(c.compare(shifted, tn::Predicate::eq, columns), element));
}

/// The cosine windows: a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N).
void window(NodeContext &c, double a0, double a1, double a2) {
  std::optional<Sizes> size = c.sizes(0);
  std::optional<tn::Dims> stated = size ? std::nullopt : c.statedDims(0);
  AffineExpr count = size && size->isScalarLike()    ? size->values[0]
                     : stated && stated->size() == 1 ? (*stated)[0]
                                                     : nullptr;
  Type element = c.elementNamed("output_datatype", c.builder().getF32Type());
  if (!count || !isa_and_nonnull<FloatType>(element)) {
    return c.gap("its size is unknown or its type is not a float type", "make the size a constant");
  }
  Value scale = size ? c.scalar(1, element)
                     : requireData(c, c.scalar(1, element), 0, Sizes::list(count), "size");
  bool periodic = c.integer("periodic", 1) != 0;
  AffineExpr period = periodic ? count : addSizes(count, c.constantSize(-1));
  Value n = c.cast(c.positions(count), c.builder().getF64Type());
  Value whole = c.cast(c.materialize(Sizes::scalar(period), c.builder().getI64Type()),
                       c.builder().getF64Type());
  Value angle = c.div(c.mul(n, c.scalarLike(2 * M_PI, n)), whole);
  Value first = c.mul(c.unary<tn::CosOp>(angle), c.scalarLike(a1, n));
  Value result = c.sub(c.scalarLike(a0, n), first);
  if (a2 != 0) {
    Value twice = c.unary<tn::CosOp>(c.mul(angle, c.scalarLike(2, n)));
    result = c.add(result, c.mul(twice, c.scalarLike(a2, n)));
  }
  c.setOutput(0, c.mul(c.cast(result, element), scale));
}

void hann(NodeContext &c) { window(c, 0.5, 0.5, 0); }
void hamming(NodeContext &c) { window(c, 25.0 / 46, 1 - 25.0 / 46, 0); }
void blackman(NodeContext &c) { window(c, 0.42, 0.5, 0.08); }

constexpr Attributes kConstant = {{"sparse_value", kSparseTensor, 11},
                                  needs({"value", kTensor, 1, 10}),
                                  {"value", kTensor, 11},
                                  {"value_float", kFloat, 12},
                                  {"value_floats", kFloats, 12},
                                  {"value_int", kInt, 12},
                                  {"value_ints", kInts, 12},
                                  {"value_string", kString, 12},
                                  {"value_strings", kStrings, 12}};
constexpr Attributes kWindow = {{"output_datatype", kInt}, {"periodic", kInt}};

constexpr OpRow kCreationOpRows[] = {
    {"BlackmanWindow", 17, 1, 1, 1, blackman, kWindow},
    {"Constant", 1, 0, 0, 1, constant, kConstant},
    {"ConstantOfShape", 9, 1, 1, 1, constantOfShape, {{"value", kTensor}}},
    {"EyeLike", 9, 1, 1, 1, eyeLike, {{"dtype", kInt}, {"k", kInt}}},
    {"HammingWindow", 17, 1, 1, 1, hamming, kWindow},
    {"HannWindow", 17, 1, 1, 1, hann, kWindow},
    {"Range", 11, 3, 3, 1, range, {{"stash_type", kInt, 27}}},
};

} // namespace

ArrayRef<OpRow> creationRows() { return kCreationOpRows; }

} // namespace tenon::onnx
