// Gathers, scatters, one-hot, top-k and reversed sequences.
// Relies on `tn` taking i32 and i64 indices, negative ones counting from the end.
#include "compiler/frontend/onnx/BoundedSizes.h"
#include "compiler/frontend/onnx/StatedSizes.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

void gather(NodeContext &c) {
  int64_t axis = c.axis("axis", 0, c.rank(0));
  c.setOutput(0, c.make<tn::GatherOp>(c.value(0), c.value(1), axis));
}

void gatherElements(NodeContext &c) {
  int64_t axis = c.axis("axis", 0, c.rank(0));
  c.setOutput(0, c.make<tn::GatherElementsOp>(c.value(0), c.value(1), axis));
}

void gatherNd(NodeContext &c) {
  c.setOutput(0, c.make<tn::GatherNdOp>(c.value(0), c.value(1), c.integer("batch_dims", 0)));
}

std::optional<tn::ScatterKind> scatterKind(NodeContext &c) {
  std::string name = c.text("reduction", "none");
  if (name == "none") {
    return tn::ScatterKind::none;
  }
  if (name == "add") {
    return tn::ScatterKind::add;
  }
  if (name == "mul") {
    return tn::ScatterKind::mul;
  }
  if (name == "max") {
    return tn::ScatterKind::max;
  }
  if (name == "min") {
    return tn::ScatterKind::min;
  }
  c.error(ErrorId::OnnxBadAttribute, "attribute 'reduction' has an unknown value");
  return std::nullopt;
}

void scatterElements(NodeContext &c) {
  int64_t axis = c.axis("axis", 0, c.rank(0));
  std::optional<tn::ScatterKind> kind = scatterKind(c);
  if (kind) {
    c.setOutput(0, c.make<tn::ScatterElementsOp>(c.value(0), c.value(1), c.value(2), axis, *kind));
  }
}

void scatterNd(NodeContext &c) {
  std::optional<tn::ScatterKind> kind = scatterKind(c);
  if (kind) {
    c.setOutput(0, c.make<tn::ScatterNdOp>(c.value(0), c.value(1), c.value(2), *kind));
  }
}

/// The number of classes of OneHot: known, or as the model states the result; then `indices` are to
/// be used only where the data says so too.
AffineExpr oneHotDepth(NodeContext &c, int64_t axis, Value &indices) {
  if (std::optional<Sizes> known = c.sizes(1); known && known->isScalarLike()) {
    return known->values[0];
  }
  if (std::optional<SmallVector<double>> real = c.reals(1); real && real->size() == 1) {
    return c.constantSize(static_cast<int64_t>((*real)[0]));
  }
  std::optional<tn::Dims> stated = c.statedDims(0);
  if (stated && static_cast<int64_t>(stated->size()) == c.rank(0) + 1) {
    indices = requireData(c, indices, 1, Sizes::list((*stated)[axis]), "depth");
    return (*stated)[axis];
  }
  c.requireSizes(1, "depth");
  return nullptr;
}

/// The two values where constant indices put them, so that sizes among them stay sizes; null if the
/// indices are no short constant, or the classes no last axis.
Value oneHotOfConstants(NodeContext &c, int64_t axis, AffineExpr depth) {
  std::optional<SmallVector<int64_t>> indices = c.integers(0);
  std::optional<int64_t> classes = tn::constantDim(depth);
  if (!indices || !classes || axis != c.rank(0) ||
      static_cast<int64_t>(indices->size()) * *classes > Sizes::kMaxElements) {
    return Value();
  }
  SmallVector<int64_t> places, shape(c.type(0).getShape());
  for (int64_t index : *indices) {
    for (int64_t i = 0; i < *classes; ++i) {
      places.push_back(i == (index < 0 ? index + *classes : index));
    }
  }
  shape.push_back(*classes);
  int64_t count = static_cast<int64_t>(places.size());
  Value picked = c.make<tn::GatherOp>(
      c.value(2), c.integerConstant(places, {count}, c.builder().getI64Type()), 0);
  return c.reshape(picked,
                   llvm::map_to_vector(shape, [&](int64_t n) { return c.constantSize(n); }));
}

void oneHot(NodeContext &c) {
  int64_t rank = c.rank(0) + 1;
  int64_t axis = c.axis("axis", -1, rank);
  Value given = c.value(0);
  AffineExpr depth = c.failed() ? nullptr : oneHotDepth(c, axis, given);
  if (!depth) {
    return;
  }
  if (c.rank(2) != 1) {
    return c.error(ErrorId::OnnxBadNode, "its values are not a list of two");
  }
  if (!c.requireNotNegative(depth, "the depth")) {
    return;
  }
  if (Value picked = oneHotOfConstants(c, axis, depth)) {
    return c.setOutput(0, picked);
  }
  Type index = c.builder().getI64Type();
  tn::Dims dims = c.dims(0);
  dims.insert(dims.begin() + axis, c.constantSize(1));
  Value positions = c.makeTyped<tn::IotaOp>(tn::makeTensor({depth}, index), c.scalar(0, index),
                                            c.scalar(1, index));
  Value indices = c.reshape(c.cast(given, index), dims);
  Value count = c.materialize(Sizes::scalar(depth), index);
  Value negative = c.compare(indices, tn::Predicate::lt, c.scalar(0, index));
  indices = c.select(negative, c.add(indices, count), indices);
  Value hit = c.compare(indices, tn::Predicate::eq, c.alongAxis(positions, axis, rank));
  auto choice = [&](int64_t i) {
    return c.reshape(c.sliceAxis(c.value(2), 0, c.constantSize(i), c.constantSize(1)), {});
  };
  c.setOutput(0, c.select(hit, choice(1), choice(0)));
}

/// The k of TopK: known, or as the model states the result; then x is to be used only where the
/// data says so too.
AffineExpr topKCount(NodeContext &c, int64_t axis, Value &x) {
  if (c.opset < 10) {
    return c.constantSize(c.integer("k", -1));
  }
  if (std::optional<Sizes> known = c.sizes(1); known && known->isScalarLike()) {
    return known->values[0];
  }
  if (std::optional<tn::Dims> stated = c.statedDims(0);
      stated && static_cast<int64_t>(stated->size()) == c.rank(0)) {
    x = requireData(c, x, 1, Sizes::list((*stated)[axis]), "number of elements to keep");
    return (*stated)[axis];
  }
  return nullptr;
}

/// Longer lists are sorted as a whole.
constexpr int64_t kMaxKept = 4096;

/// The largest that a count can be: the least of several sizes is no larger than any of them.
std::optional<int64_t> mostOf(NodeContext &c, Value count) {
  Operation *op = count ? count.getDefiningOp() : nullptr;
  while (isa_and_nonnull<tn::ReshapeOp, tn::CastOp>(op)) {
    op = op->getOperand(0).getDefiningOp();
  }
  tn::ReduceOp least = dyn_cast_or_null<tn::ReduceOp>(op);
  tn::SizesOp sizes = least && least.getKind() == tn::ReduceKind::min
                          ? least.getX().getDefiningOp<tn::SizesOp>()
                          : tn::SizesOp();
  if (!sizes) {
    return std::nullopt;
  }
  int64_t most = std::numeric_limits<int64_t>::max();
  for (AffineExpr size : sizes.getValues().getResults()) {
    most = std::min(most, c.symbols().bounds(size).max);
  }
  return most;
}

/// x with `count` elements behind it that come after all others in its order.
Value withLast(NodeContext &c, Value x, int64_t axis, AffineExpr count, bool largest) {
  double last = largest ? -std::numeric_limits<double>::infinity() : std::nan("");
  tn::Dims dims = c.dims(0);
  dims[axis] = count;
  return c.concat({x, c.broadcast(c.scalarLike(last, x), dims)}, axis);
}

/// All elements in order, of which data says how many to keep.
void topOfAll(NodeContext &c, Value x, int64_t axis, tn::TopKOp all) {
  if (!c.value(1) || !c.type(1).hasStaticShape() || c.type(1).getNumElements() != 1) {
    return c.error(ErrorId::OnnxBadNode, "the number of elements to keep is not a single number");
  }
  AffineExpr sorted = tn::getDims(all.getIndices().getType())[axis];
  SmallVector<AffineExpr> most = {c.dims(0)[axis]};
  if (sorted != most.front()) {
    most.push_back(sorted);
  }
  AffineExpr count =
      requiredSize(c, c.value(1), most, "there are as many elements as are to be kept");
  if (!count) {
    return;
  }
  Value indices = c.sliceAxis(all.getIndices(), axis, c.constantSize(0), count);
  c.setOutput(0, c.make<tn::GatherElementsOp>(x, indices, axis));
  if (c.wantsOutput(1)) {
    c.setOutput(1, indices);
  }
}

void topK(NodeContext &c) {
  int64_t axis = c.axis("axis", -1, c.rank(0));
  Value x = c.value(0);
  if (c.failed()) {
    return;
  }
  AffineExpr known = topKCount(c, axis, x);
  AffineExpr k = known ? known : c.dims(0)[axis];
  const Value given = x;
  bool isLargest = c.integer("largest", 1) != 0;
  std::optional<int64_t> most = known ? std::nullopt : mostOf(c, c.value(1));
  if (most && *most <= kMaxKept && isa<FloatType>(c.element(0))) {
    k = c.constantSize(*most);
    x = withLast(c, x, axis, k, isLargest);
  }
  tn::Dims dims = x ? tn::getDims(x.getType()) : c.dims(0);
  if (!c.requireNotNegative(k, "the number of elements to keep")) {
    return;
  }
  if (c.symbols().compare(k, Comparison::LessOrEqual, dims[axis]) == false) {
    return c.error(ErrorId::OnnxBadNode, "it requests more elements than the dimension has");
  }
  tn::TopKOp op = c.topK(x, axis, k, isLargest, c.integer("sorted", 1) != 0);
  if (op && !known) {
    return topOfAll(c, given, axis, op);
  }
  if (op) {
    c.setOutput(0, op.getValues());
    c.setOutput(1, op.getIndices());
  }
}

void reverseSequence(NodeContext &c) {
  int64_t rank = c.rank(0);
  int64_t time = c.axis("time_axis", 0, rank);
  int64_t batch = c.axis("batch_axis", 1, rank);
  if (c.failed() || rank < 2) {
    return c.error(ErrorId::OnnxBadNode, "its input has no batch and time dimensions");
  }
  Type index = c.builder().getI64Type();
  tn::Dims dims = c.dims(0);
  Value steps = c.makeTyped<tn::IotaOp>(tn::makeTensor({dims[time]}, index), c.scalar(0, index),
                                        c.scalar(1, index));
  steps = c.alongAxis(steps, time, rank);
  Value lengths = c.alongAxis(c.cast(c.value(1), index), batch, rank);
  Value mirrored = c.sub(c.sub(lengths, c.scalar(1, index)), steps);
  // What is mirrored at a negative length is no step either.
  Value isMoved = c.make<tn::OrOp>(c.compare(steps, tn::Predicate::lt, lengths),
                                   c.compare(lengths, tn::Predicate::lt, c.scalar(0, index)));
  Value source = c.fromStart(c.select(isMoved, mirrored, steps));
  c.setOutput(0, c.make<tn::GatherElementsOp>(c.value(0), c.broadcast(source, dims), time));
}

void trilu(NodeContext &c) {
  std::optional<SmallVector<int64_t>> k =
      c.has(1) ? c.requireIntegers(1, "diagonal") : SmallVector<int64_t>{0};
  if (!k) {
    return;
  }
  if (k->size() != 1 || c.rank(0) < 2) {
    return c.error(ErrorId::OnnxBadNode,
                   "its input is not a matrix or its diagonal is not a scalar");
  }
  int64_t diagonal = std::clamp((*k)[0], -(int64_t{1} << 40), int64_t{1} << 40);
  c.setOutput(0, c.unary<tn::TriluOp>(c.value(0), diagonal, c.integer("upper", 1) != 0));
}

constexpr OpRow kIndexingOpRows[] = {
    {"Gather", 1, 2, 2, 1, gather, {{"axis", kInt}}},
    {"GatherElements", 11, 2, 2, 1, gatherElements, {{"axis", kInt}}},
    {"GatherND", 11, 2, 2, 1, gatherNd, {{"batch_dims", kInt, 12}}},
    {"OneHot", 9, 3, 3, 1, oneHot, {{"axis", kInt}}},
    {"ReverseSequence", 10, 2, 2, 1, reverseSequence, {{"batch_axis", kInt}, {"time_axis", kInt}}},
    {"Scatter", 9, 3, 3, 1, scatterElements, {{"axis", kInt}}},
    {"ScatterElements", 11, 3, 3, 1, scatterElements, {{"axis", kInt}, {"reduction", kString, 16}}},
    {"ScatterND", 11, 3, 3, 1, scatterNd, {{"reduction", kString, 16}}},
    {"TopK", 1, 1, 1, 2, topK, {{"axis", kInt}, needs({"k", kInt})}},
    {"TopK", 10, 2, 2, 2, topK, {{"axis", kInt}, {"largest", kInt, 11}, {"sorted", kInt, 11}}},
    {"Trilu", 14, 1, 2, 1, trilu, {{"upper", kInt}}},
    {"Trilu", 1, 1, 2, 1, trilu, {{"upper", kInt}}, kMicrosoft},
};

} // namespace

ArrayRef<OpRow> indexingRows() { return kIndexingOpRows; }

} // namespace tenon::onnx
