// Operators that take parts of a tensor or repeat it: slices, splits, tiles, blocks.
// Relies on bounds, sizes and repeats being known as expressions.
#include "compiler/frontend/common/Selection.h"
#include "compiler/frontend/common/Slicing.h"
#include "compiler/frontend/onnx/StatedSizes.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr int64_t kMaxStep = int64_t{1} << 30;

struct SliceRequest {
  SmallVector<AffineExpr> starts;
  SmallVector<AffineExpr> ends;
  SmallVector<int64_t> axes;
  SmallVector<int64_t> steps;
};

std::optional<SliceRequest> readSlice(NodeContext &c) {
  SliceRequest request;
  if (c.opset < 10) {
    for (int64_t start : c.integerList("starts")) {
      request.starts.push_back(c.constantSize(start));
    }
    for (int64_t end : c.integerList("ends")) {
      request.ends.push_back(c.constantSize(end));
    }
    request.axes = c.integerList("axes");
  } else {
    std::optional<Sizes> starts = c.requireSizes(1, "start of the slice");
    std::optional<Sizes> ends = starts ? c.requireSizes(2, "end of the slice") : std::nullopt;
    if (!ends) {
      return std::nullopt;
    }
    request.starts = starts->values;
    request.ends = ends->values;
    for (unsigned i : {3u, 4u}) {
      std::optional<SmallVector<int64_t>> list =
          c.has(i) ? c.requireIntegers(i, i == 3 ? "list of axes" : "step of the slice")
                   : SmallVector<int64_t>();
      if (!list) {
        return std::nullopt;
      }
      (i == 3 ? request.axes : request.steps) = *list;
    }
  }
  size_t count = request.starts.size();
  if (request.axes.empty()) {
    request.axes = llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(count)));
  }
  request.steps.resize(request.steps.empty() ? count : request.steps.size(), 1);
  bool sound =
      request.ends.size() == count && request.axes.size() == count && request.steps.size() == count;
  for (size_t i = 0; sound && i < count; ++i) {
    request.axes[i] = c.normalizeAxis(request.axes[i], c.rank(0));
    // A huge step reads one element, as does the largest that is allowed here.
    request.steps[i] = std::clamp(request.steps[i], -kMaxStep, kMaxStep);
    sound = request.steps[i] != 0;
  }
  if (!sound) {
    c.error(ErrorId::OnnxBadNode,
            "starts, ends, axes and steps do not fit each other, or a step is 0");
  }
  return c.failed() ? std::nullopt : std::optional(request);
}

/// The first elements of a dim that data decides: as many as the slice asks for, or as there are.
/// Null if the slice is not of that kind.
Value sliceFirst(NodeContext &c, Value x, const SliceRequest &request) {
  if (!x || request.axes.size() != 1 || request.steps[0] != 1 ||
      tn::constantDim(request.starts[0]) != 0) {
    return Value();
  }
  Type index = c.builder().getI64Type();
  AffineExpr dim = tn::getDims(x.getType())[request.axes[0]], end = request.ends[0];
  const Symbols &symbols = c.symbols();
  bool isProved = symbols.compare(end, Comparison::LessOrEqual, dim).has_value() ||
                  symbols.compare(dim, Comparison::LessOrEqual, end).has_value();
  if (isProved || !symbols.dependsOnData(dim) || symbols.bounds(end).min < 0) {
    return Value();
  }
  Value count = c.min(c.sizeValue(dim, index), c.sizeValue(end, index));
  return takeFirst(c, x, count, request.axes[0],
                   end ? ArrayRef<AffineExpr>(end) : ArrayRef<AffineExpr>());
}

/// Where a slice starts or ends along a dim, as ONNX clamps it.
Value clampedBound(NodeContext &c, Value bound, Value size, int64_t low, Value high) {
  Value zero = c.scalarLike(0, size);
  bound = c.select(c.compare(bound, tn::Predicate::lt, zero), c.add(bound, size), bound);
  return c.min(c.max(bound, c.scalarLike(static_cast<double>(low), size)), high);
}

/// The elements of x along an axis from `start` up to `end`, wherever data says that these are: as
/// many of the dim's positions as lie between them.
Value sliceBetween(NodeContext &c, Value x, int64_t axis, Value start, Value end, int64_t step) {
  if (!x || !start || !end) {
    return Value();
  }
  Type index = c.builder().getI64Type();
  AffineExpr dim = tn::getDims(x.getType())[axis];
  Value size = c.sizeValue(dim, index), zero = c.scalar(0, index);
  int64_t stride = std::abs(step);
  Value span;
  if (step > 0) {
    start = clampedBound(c, start, size, 0, size);
    span = c.sub(clampedBound(c, end, size, 0, size), start);
  } else {
    Value last = c.sub(size, c.scalar(1, index));
    start = clampedBound(c, start, size, 0, last);
    span = c.sub(start, clampedBound(c, end, size, -1, last));
  }
  AffineExpr most = dim;
  if (stride > 1) {
    AffineExpr up = c.constantSize(stride - 1);
    span = c.div(c.add(span, c.scalar(static_cast<double>(stride - 1), index)),
                 c.scalar(static_cast<double>(stride), index));
    most = divideSizes(c.symbols(), addSizes(dim, up), c.constantSize(stride));
  }
  if (!most) {
    return Value();
  }
  Value places = takeFirst(c, c.positions(most), c.max(span, zero), 0);
  return c.make<tn::GatherOp>(
      x, c.add(start, c.mul(places, c.scalar(static_cast<double>(step), index))), axis);
}

/// A slice whose bounds data decides.
void sliceByData(NodeContext &c) {
  std::optional<SmallVector<int64_t>> axes, steps;
  int64_t count = c.rank(1) == 1 && c.type(1).hasStaticShape() ? c.type(1).getNumElements() : -1;
  if (count < 0 || !c.type(2).hasStaticShape()) {
    return c.gap("the number of dims of the slice is unknown",
                 "give starts and ends a fixed length with --shape");
  }
  axes = c.has(3) ? c.requireIntegers(3, "list of axes")
                  : llvm::to_vector(llvm::seq<int64_t>(0, count));
  steps = c.has(4) ? c.requireIntegers(4, "step of the slice") : SmallVector<int64_t>(count, 1);
  if (!axes || !steps) {
    return;
  }
  bool sound = c.type(2) == RankedTensorType::get({count}, c.element(2)) &&
               static_cast<int64_t>(axes->size()) == count &&
               static_cast<int64_t>(steps->size()) == count && !llvm::is_contained(*steps, 0);
  if (!sound) {
    return c.error(ErrorId::OnnxBadNode,
                   "starts, ends, axes and steps do not fit each other, or a step is 0");
  }
  Type index = c.builder().getI64Type();
  auto bound = [&](unsigned input, int64_t i) {
    Value list = c.cast(c.value(input), index);
    return c.reshape(c.sliceAxis(list, 0, c.constantSize(i), c.constantSize(1)), {});
  };
  Value x = c.value(0);
  for (int64_t i = 0; i < count && !c.failed(); ++i) {
    x = sliceBetween(c, x, c.normalizeAxis((*axes)[i], c.rank(0)), bound(1, i), bound(2, i),
                     std::clamp((*steps)[i], -kMaxStep, kMaxStep));
  }
  c.setOutput(0, x);
}

void slice(NodeContext &c) {
  if (c.opset >= 10 && !(c.sizes(1) && c.sizes(2))) {
    return sliceByData(c);
  }
  std::optional<SliceRequest> request = readSlice(c);
  if (!request) {
    return;
  }
  if (Value first = sliceFirst(c, c.value(0), *request)) {
    return c.setOutput(0, first);
  }
  tn::Dims dims = c.dims(0);
  SmallVector<AffineExpr> starts(dims.size(), c.constantSize(0));
  SmallVector<int64_t> steps(dims.size(), 1);
  for (auto [i, axis] : llvm::enumerate(request->axes)) {
    std::optional<AxisSlice> part = clampSlice(c.symbols(), dims[axis], request->starts[i],
                                               request->ends[i], request->steps[i]);
    if (!part) {
      return c.gap("the bounds of the slice cannot be shown to lie in dimension " + Twine(axis),
                   "declare smaller ranges with --shape");
    }
    starts[axis] = part->start;
    dims[axis] = part->size;
    steps[axis] = request->steps[i];
  }
  Value x = c.value(0);
  RankedTensorType type = tn::makeTensor(dims, c.element(0));
  if (type == c.type(0) && llvm::all_of(steps, [](int64_t step) { return step == 1; })) {
    return c.setOutput(0, x);
  }
  AffineMap map = tn::symbolMap(starts, c.builder().getContext());
  c.setOutput(0, c.makeTyped<tn::SliceOp>(type, x, map, steps));
}

/// Parts of equal size, the last one smaller if that is allowed; none after a failure.
std::optional<SmallVector<AffineExpr>> equalParts(NodeContext &c, AffineExpr dim) {
  unsigned parts = c.numOutputs();
  AffineExpr count = c.constantSize(parts);
  bool divisible = c.opset < 18;
  if (divisible && !c.require(tn::ConstraintKind::divisible, dim, count,
                              "the dimension that is split into equal parts")) {
    return std::nullopt;
  }
  dim = c.symbols().canonical(dim);
  AffineExpr chunk =
      divideSizes(c.symbols(), divisible ? dim : addSizes(dim, c.constantSize(parts - 1)), count);
  AffineExpr last =
      divisible ? chunk : subtractSizes(dim, multiplySizes(chunk, c.constantSize(parts - 1)));
  if (last && c.symbols().bounds(last).max < 0) {
    c.error(ErrorId::OnnxBadNode, "the dimension is too small for the number of outputs");
    return std::nullopt;
  }
  if (!last || !c.symbols().assume(tn::ConstraintKind::at_least, last, c.constantSize(0))) {
    c.gap("the sizes of the parts cannot be written as expressions",
          "declare the dimension with --shape");
    return std::nullopt;
  }
  SmallVector<AffineExpr> sizes(parts - 1, chunk);
  sizes.push_back(last);
  return sizes;
}

/// The sizes of Split's parts along `dim`; none after a failure.
std::optional<SmallVector<AffineExpr>> splitSizes(NodeContext &c, AffineExpr dim) {
  SmallVector<AffineExpr> sizes;
  if (c.opset < 13 && c.hasAttribute("split")) {
    for (int64_t size : c.integerList("split")) {
      sizes.push_back(c.constantSize(size));
    }
  } else if (c.opset >= 13 && c.has(1)) {
    std::optional<Sizes> known = c.requireSizes(1, "list of split sizes");
    if (!known) {
      return std::nullopt;
    }
    sizes = known->values;
  } else {
    return equalParts(c, dim);
  }
  if (!c.requireNotNegative(sizes, "the size of a part")) {
    return std::nullopt;
  }
  AffineExpr total = c.constantSize(0);
  for (AffineExpr size : sizes) {
    total = addSizes(total, size);
  }
  if (sizes.size() != c.numOutputs()) {
    c.error(ErrorId::OnnxBadNode, "the sizes of the parts do not fit the outputs");
    return std::nullopt;
  }
  bool fits =
      c.require(tn::ConstraintKind::equal, dim, total, "the dimension and the sizes of its parts");
  return fits ? std::optional(sizes) : std::nullopt;
}

void split(NodeContext &c) {
  int64_t axis = c.axis("axis", 0, c.rank(0));
  if (c.integer("num_outputs", c.numOutputs()) != c.numOutputs()) {
    c.error(ErrorId::OnnxBadAttribute, "attribute 'num_outputs' is not the number of its outputs");
  }
  if (c.failed()) {
    return;
  }
  std::optional<SmallVector<AffineExpr>> sizes = splitSizes(c, c.dims(0)[axis]);
  AffineExpr start = c.constantSize(0);
  for (unsigned i = 0; sizes && i < c.numOutputs(); ++i) {
    c.setOutput(i, c.sliceAxis(c.value(0), axis, start, (*sizes)[i]));
    start = addSizes(start, (*sizes)[i]);
  }
}

void tile(NodeContext &c) {
  tn::Dims dims = c.dims(0);
  SmallVector<AffineExpr> repeats;
  std::optional<Sizes> given = c.sizes(1);
  if (given) {
    repeats = given->values;
  } else if (std::optional<tn::Dims> stated = c.statedDims(0);
             stated && stated->size() == dims.size()) {
    for (auto [to, from] : llvm::zip_equal(*stated, dims)) {
      repeats.push_back(divideProducts(c.symbols(), {to}, {from}));
    }
  } else {
    given = c.requireSizes(1, "list of repeats");
    if (!given) {
      return;
    }
    repeats = given->values;
  }
  bool known = llvm::all_of(repeats, [](AffineExpr repeat) { return static_cast<bool>(repeat); });
  if (repeats.size() != dims.size() || !known) {
    return c.error(ErrorId::OnnxBadNode, "the repeats do not fit its input");
  }
  if (!c.requireNotNegative(repeats, "a repeat")) {
    return;
  }
  tn::Dims apart, spread, result;
  for (auto [dim, repeat] : llvm::zip_equal(dims, repeats)) {
    llvm::append_range(apart, ArrayRef<AffineExpr>{c.constantSize(1), dim});
    llvm::append_range(spread, ArrayRef<AffineExpr>{repeat, dim});
    result.push_back(multiplySizes(dim, repeat));
    if (!result.back()) {
      return c.error(ErrorId::OnnxShapeOverflow, "the repeated size is too large");
    }
  }
  Value x = c.value(0);
  if (!given) {
    std::optional<tn::Dims> stated = c.statedDims(0);
    for (auto [size, wanted] : llvm::zip_equal(result, *stated)) {
      c.require(tn::ConstraintKind::equal, size, wanted,
                "the repeated dimension and the one that the model states");
    }
    x = requireData(c, x, 1, Sizes::list(repeats), "list of repeats");
  }
  c.setOutput(0, c.reshape(c.broadcast(c.reshape(x, apart), spread), result));
}

/// DepthToSpace and SpaceToDepth: dims cut into blocks, transposed, merged.
template <bool toSpace> void blocks(NodeContext &c) {
  int64_t size = c.integer("blocksize", 0);
  if (c.rank(0) != 4 || size < 1 || size > kMaxStep) {
    return c.error(
        ErrorId::OnnxBadAttribute,
        "attribute 'blocksize' is not positive, or its input does not have four dimensions");
  }
  tn::Dims d = c.dims(0);
  AffineExpr b = c.constantSize(size);
  AffineExpr area = c.constantSize(size * size);
  bool columnRowDepth = c.choice("mode", {"DCR", "CRD"}) == "CRD";
  auto divided = [&](AffineExpr dim, AffineExpr by) {
    return divideProducts(c.symbols(), {dim}, {by});
  };
  tn::Dims apart, result;
  SmallVector<int64_t> order;
  if (toSpace) {
    AffineExpr depth = divided(d[1], area);
    apart = columnRowDepth ? tn::Dims{d[0], depth, b, b, d[2], d[3]}
                           : tn::Dims{d[0], b, b, depth, d[2], d[3]};
    order = columnRowDepth ? SmallVector<int64_t>{0, 1, 4, 2, 5, 3}
                           : SmallVector<int64_t>{0, 3, 4, 1, 5, 2};
    result = {d[0], depth, multiplySizes(d[2], b), multiplySizes(d[3], b)};
  } else {
    AffineExpr height = divided(d[2], b), width = divided(d[3], b);
    apart = {d[0], d[1], height, b, width, b};
    order = {0, 3, 5, 1, 2, 4};
    result = {d[0], multiplySizes(d[1], area), height, width};
  }
  if (llvm::any_of(apart, [](AffineExpr dim) { return !dim; }) ||
      llvm::any_of(result, [](AffineExpr dim) { return !dim; })) {
    return c.gap("the block sizes cannot be written as expressions",
                 "declare the input shapes with --shape");
  }
  Value cut = c.reshape(c.value(0), apart);
  c.setOutput(0, c.reshape(cut ? c.transpose(cut, order) : cut, result));
}

constexpr Attributes kSlice = {{"axes", kInts}, needs({"ends", kInts}), needs({"starts", kInts})};
constexpr Attributes kSplit = {{"axis", kInt}, {"split", kInts}};

constexpr OpRow kPartOpRows[] = {
    {"DepthToSpace", 1, 1, 1, 1, blocks<true>, {needs({"blocksize", kInt}), {"mode", kString, 11}}},
    {"Slice", 1, 1, 1, 1, slice, kSlice},
    {"Slice", 10, 3, 5, 1, slice},
    {"SpaceToDepth", 1, 1, 1, 1, blocks<false>, {needs({"blocksize", kInt})}},
    {"Split", 1, 1, 2, kMany, split, kSplit},
    {"Split", 2, 1, 1, kMany, split, kSplit},
    {"Split", 13, 1, 2, kMany, split, {{"axis", kInt}, {"num_outputs", kInt, 18}}},
    {"Tile", 6, 2, 2, 1, tile},
};

} // namespace

ArrayRef<OpRow> partRows() { return kPartOpRows; }

} // namespace tenon::onnx
