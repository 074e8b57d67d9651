// Operators that put patches or pooled elements back where they came from, and centred crops.
// Relies on sizes of images being known as expressions.
#include "compiler/frontend/onnx/Windows.h"
#include "compiler/graph/ElementType.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr int64_t kMaxTaps = 4096;

/// Attributes of Col2Im, one entry a spatial dim.
struct Folding {
  SmallVector<int64_t> image, block, strides, dilations, pads;
};

std::optional<Folding> readFolding(NodeContext &c) {
  std::optional<SmallVector<int64_t>> image = c.requireIntegers(1, "shape of the image");
  std::optional<SmallVector<int64_t>> block =
      image ? c.requireIntegers(2, "shape of the blocks") : std::nullopt;
  if (!block) {
    return std::nullopt;
  }
  size_t n = image->size();
  SmallVector<int64_t> ones(n, 1);
  Folding f{*image, *block, c.integerList("strides", ones), c.integerList("dilations", ones),
            c.integerList("pads", SmallVector<int64_t>(2 * n, 0))};
  auto inRange = [](ArrayRef<int64_t> values, int64_t least) {
    return llvm::all_of(values, [&](int64_t v) { return v >= least && v < (int64_t{1} << 31); });
  };
  int64_t taps = 1;
  for (int64_t size : f.block) {
    taps = inRange(size, 1) && taps <= kMaxTaps ? taps * size : kMaxTaps + 1;
  }
  bool sound = n >= 1 && f.block.size() == n && f.strides.size() == n && f.dilations.size() == n &&
               f.pads.size() == 2 * n && inRange(f.image, 1) && inRange(f.strides, 1) &&
               inRange(f.dilations, 1) && inRange(f.pads, 0) && c.rank(0) == 3;
  if (!sound) {
    c.error(ErrorId::OnnxBadNode, "its shapes, strides, dilations or pads do not fit each other");
  } else if (taps > kMaxTaps || n > 3) {
    c.gap("blocks of more than 4096 elements or three dimensions are not supported",
          "use smaller blocks");
  }
  return c.failed() ? std::nullopt : std::optional(f);
}

/// Columns are the input of a transposed convolution whose kernel puts each where it belongs.
void col2Im(NodeContext &c) {
  std::optional<Folding> f = readFolding(c);
  if (!f) {
    return;
  }
  if (!isa<FloatType>(c.element(0)) || tn::isLowBit(c.element(0))) {
    return c.gap("only floats are supported", "cast to float32 before");
  }
  size_t n = f->image.size();
  int64_t taps = 1;
  SmallVector<int64_t> counts, ends(n, 0), kernel;
  for (size_t i = 0; i < n; ++i) {
    taps *= f->block[i];
    int64_t reach = (f->block[i] - 1) * f->dilations[i] + 1;
    int64_t room = f->image[i] + f->pads[i] + f->pads[n + i] - reach;
    counts.push_back(room < 0 ? 0 : room / f->strides[i] + 1);
    // What no block reaches at the end of the image.
    ends[i] = room - (counts.back() - 1) * f->strides[i];
  }
  tn::Dims dims = c.dims(0);
  std::optional<int64_t> rows = tn::constantDim(dims[1]);
  if (!rows || !tn::constantDim(dims[2])) {
    return c.gap("the number of its columns or their length is not constant",
                 "declare the dimension with --shape");
  }
  int64_t total = 1;
  for (int64_t count : counts) {
    total *= count;
  }
  if (*rows % taps != 0 || total == 0 || tn::constantDim(dims[2]) != total) {
    return c.error(ErrorId::OnnxBadNode, "its columns are not those of the image's blocks");
  }
  int64_t channels = *rows / taps;
  tn::Dims grid = {dims[0], dims[1]};
  SmallVector<int64_t> shape = {taps, 1};
  for (size_t i = 0; i < n; ++i) {
    grid.push_back(c.constantSize(counts[i]));
    shape.push_back(f->block[i]);
  }
  // Each image channel has the same kernel: tap t of block position t.
  SmallVector<double> one(taps * taps, 0);
  for (int64_t t = 0; t < taps; ++t) {
    one[t * taps + t] = 1;
  }
  Value kernelOfOne = c.realConstant(one, shape, c.element(0));
  // The channels become images of their own, so that the kernel is as small as that.
  AffineExpr images = multiplySizes(dims[0], c.constantSize(channels));
  grid[0] = images;
  grid[1] = c.constantSize(taps);
  Value x = c.reshape(c.value(0), grid);
  Value image = c.make<tn::ConvTransposeOp>(x, kernelOfOne, Value(), f->strides, f->pads,
                                            f->dilations, ends, int64_t{1});
  tn::Dims result = {dims[0], c.constantSize(channels)};
  for (int64_t size : f->image) {
    result.push_back(c.constantSize(size));
  }
  c.setOutput(0, c.reshape(image, result));
}

/// Crops or pads one dim around its middle; what is odd goes to the end.
Value centre(NodeContext &c, Value x, int64_t axis, AffineExpr wanted) {
  tn::Dims dims = tn::getDims(x.getType());
  if (tn::sameDim(dims[axis], wanted)) {
    return x;
  }
  AffineExpr more = subtractSizes(wanted, dims[axis]), less = subtractSizes(dims[axis], wanted);
  if (less && c.symbols().bounds(less).min >= 0) {
    AffineExpr start = divideSizes(c.symbols(), less, c.constantSize(2));
    return start ? c.sliceAxis(x, axis, start, wanted) : Value();
  }
  std::optional<int64_t> missing = more ? tn::constantDim(more) : std::nullopt;
  if (!missing || *missing < 0) {
    c.gap("dimension " + Twine(axis) + " cannot be shown to be cropped, or padded by a constant",
          "declare the dimension with --shape");
    return Value();
  }
  SmallVector<int64_t> begins(dims.size(), 0), ends(dims.size(), 0);
  begins[axis] = *missing / 2;
  ends[axis] = *missing - begins[axis];
  return c.make<tn::PadOp>(x, Value(), begins, ends, tn::PadMode::constant);
}

void centerCropPad(NodeContext &c) {
  std::optional<Sizes> shape = c.requireSizes(1, "wanted shape");
  if (!shape) {
    return;
  }
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, c.rank(0)));
  SmallVector<int64_t> axes = c.integerList("axes", all);
  if (axes.size() != shape->values.size()) {
    return c.error(ErrorId::OnnxBadNode, "the requested shape does not have one entry per axis");
  }
  if (!c.requireNotNegative(shape->values, "a wanted dimension")) {
    return;
  }
  Value x = c.value(0);
  for (auto [axis, wanted] : llvm::zip_equal(axes, shape->values)) {
    int64_t normal = c.normalizeAxis(axis, c.rank(0));
    x = x && !c.failed() ? centre(c, x, normal, wanted) : Value();
  }
  c.setOutput(0, x);
}

/// Zeros in which each element stands at its index among all positions.
void maxUnpool(NodeContext &c) {
  std::optional<Windows> w = readWindows(c, {});
  if (!w) {
    return;
  }
  tn::Dims dims = c.dims(0);
  size_t n = w->kernel.size();
  for (size_t i = 0; i < n; ++i) {
    AffineExpr steps =
        multiplySizes(addSizes(dims[2 + i], c.constantSize(-1)), c.constantSize(w->strides[i]));
    dims[2 + i] = addSizes(steps, c.constantSize(w->kernel[i] - w->pads[i] - w->pads[n + i]));
  }
  std::optional<Sizes> wanted = c.has(2) ? c.requireSizes(2, "output shape") : Sizes::list(dims);
  AffineExpr total = tn::elementCount(c.builder().getContext(), dims);
  AffineExpr count = tn::elementCount(c.builder().getContext(), c.dims(0));
  if (!wanted || !c.requireNotNegative(dims, "a dimension of the result")) {
    return;
  }
  if (wanted->values.size() != dims.size() || !total || !count || c.rank(1) != c.rank(0)) {
    return c.error(ErrorId::OnnxBadNode, "the output shape or the indices do not fit its input");
  }
  Value zeros = c.broadcast(c.scalar(0, c.element(0)), {total});
  Value flat = c.make<tn::ScatterElementsOp>(zeros, c.fromStart(c.reshape(c.value(1), {count})),
                                             c.reshape(c.value(0), {count}), int64_t{0},
                                             tn::ScatterKind::none);
  SmallVector<int64_t> begins(dims.size(), 0), ends(dims.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    AffineExpr more = subtractSizes(wanted->values[i], dims[i]);
    std::optional<int64_t> missing = more ? tn::constantDim(more) : std::nullopt;
    if (!missing || *missing < 0) {
      return c.gap("the output shape does not exceed the reach of the windows by a constant",
                   "leave out the output shape");
    }
    ends[i] = *missing;
  }
  Value y = c.reshape(flat, dims);
  bool isLarger = llvm::any_of(ends, [](int64_t end) { return end != 0; });
  c.setOutput(0, isLarger ? c.make<tn::PadOp>(y, Value(), begins, ends, tn::PadMode::constant) : y);
}

constexpr OpRow kFoldingOpRows[] = {
    {"CenterCropPad", 18, 2, 2, 1, centerCropPad, {{"axes", kInts}}},
    {"Col2Im", 18, 3, 3, 1, col2Im, {{"dilations", kInts}, {"pads", kInts}, {"strides", kInts}}},
    {"MaxUnpool",
     9,
     2,
     3,
     1,
     maxUnpool,
     {needs({"kernel_shape", kInts}), {"pads", kInts}, {"strides", kInts}}},
};

} // namespace

ArrayRef<OpRow> foldingRows() { return kFoldingOpRows; }

} // namespace tenon::onnx
