// Pooling and convolution over positions that the data decides: RoiAlign and DeformConv.
// Relies on Sampling.h for reading between pixels.
#include "compiler/frontend/common/Regions.h"
#include "compiler/frontend/common/Sampling.h"

#include "compiler/frontend/onnx/Windows.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

//===--- RoiAlign ---===//

std::optional<frontend::RegionPooling> readPooling(NodeContext &c) {
  std::string coordinates =
      c.text("coordinate_transformation_mode", c.opset < 16 ? "output_half_pixel" : "half_pixel");
  std::string mode = c.text("mode", "avg");
  frontend::RegionPooling p{.height = c.integer("output_height", 1),
                            .width = c.integer("output_width", 1),
                            .samples = c.integer("sampling_ratio", 0),
                            .halfPixel = coordinates == "half_pixel",
                            .isMax = mode == "max",
                            .scale = c.real("spatial_scale", 1)};
  if ((!p.halfPixel && coordinates != "output_half_pixel") || (!p.isMax && mode != "avg") ||
      p.height < 1 || p.width < 1 || p.samples < 0) {
    c.error(ErrorId::OnnxBadAttribute, "one of its attributes has an unknown value");
  } else if (constexpr int64_t kMax = 1024; std::max({p.height, p.width, p.samples}) > kMax) {
    c.gap("more than 1024 bins or samples along a dimension are not supported", "use fewer");
  } else if (p.samples == 0) {
    c.gap("the number of samples depends on the size of each region, which only data decides",
          "export with a sampling_ratio above 0");
  }
  return c.failed() ? std::nullopt : std::optional(p);
}

void roiAlign(NodeContext &c) {
  std::optional<frontend::RegionPooling> p = readPooling(c);
  if (!p) {
    return;
  }
  tn::Dims rois = c.dims(1);
  if (c.rank(0) != 4 || rois.size() != 2 || c.rank(2) != 1) {
    return c.error(ErrorId::OnnxBadNode, "its inputs are not images, boxes and their numbers");
  }
  if (!requireDim(c, rois[1], 4, "the length of its boxes")) {
    return;
  }
  if (!tn::sameDim(rois[0], c.dims(2)[0])) {
    return c.gap("the numbers of boxes and of image indices differ, or may differ",
                 "declare both dimensions with --shape");
  }
  c.setOutput(0, frontend::alignRegions(c, c.value(0), c.value(1), c.value(2), *p));
}

//===--- DeformConv ---===//

/// Where the taps of the windows lie before they are moved: [1, 1, taps, rows, columns].
Value windowPositions(NodeContext &c, const Windows &w, size_t dim, AffineExpr outputs, Type real) {
  SmallVector<double> places;
  for (int64_t row = 0; row < w.kernel[0]; ++row) {
    for (int64_t column = 0; column < w.kernel[1]; ++column) {
      places.push_back(
          static_cast<double>((dim == 0 ? row : column) * w.dilations[dim] - w.pads[dim]));
    }
  }
  int64_t taps = static_cast<int64_t>(places.size());
  Value tap = c.realConstant(places, {1, 1, taps, 1, 1}, real);
  Value output = c.mul(c.cast(c.positions(outputs), real),
                       c.scalar(static_cast<double>(w.strides[dim]), real));
  return c.add(tap, c.alongAxis(output, 3 + static_cast<int64_t>(dim), 5));
}

struct DeformConv {
  Windows windows;
  int64_t groups, offsetGroups, taps, channels, filters;
};

std::optional<DeformConv> readDeformConv(NodeContext &c) {
  RankedTensorType weight = c.type(1);
  if (c.rank(0) != 4 || weight.getRank() != 4 || c.rank(2) != 4) {
    c.gap("only images of two dimensions are supported", "use two spatial dimensions");
    return std::nullopt;
  }
  std::optional<int64_t> channels = tn::constantDim(c.dims(0)[1]);
  if (!weight.hasStaticShape() || !channels) {
    c.gap("the shape of its weight or the number of channels is not constant",
          "make them constant");
    return std::nullopt;
  }
  std::optional<Windows> w = readWindows(c, weight.getShape().drop_front(2));
  if (!w) {
    return std::nullopt;
  }
  DeformConv d{
      *w,        c.integer("group", 1), c.integer("offset_group", 1), w->kernel[0] * w->kernel[1],
      *channels, weight.getDimSize(0)};
  bool fits = d.groups > 0 && d.offsetGroups > 0 && d.channels % d.offsetGroups == 0 &&
              d.filters % d.groups == 0 && d.channels == weight.getDimSize(1) * d.groups &&
              (!c.has(4) || c.rank(4) == 4);
  if (!fits) {
    c.error(ErrorId::OnnxBadNode, "its weight, offsets, mask and groups do not fit each other");
    return std::nullopt;
  }
  int64_t moves = d.offsetGroups * d.taps;
  requireDim(c, c.dims(2)[1], moves * 2, "the number of offsets");
  if (c.has(4)) {
    requireDim(c, c.dims(4)[1], moves, "the number of the mask's planes");
  }
  return c.failed() ? std::nullopt : std::optional(d);
}

/// The sampled windows as columns: [batch, groups, channels of a group * taps, positions].
Value sampledColumns(NodeContext &c, const DeformConv &d, AffineExpr positions, Type real) {
  tn::Dims dims = c.dims(0), offsets = c.dims(2);
  AffineExpr batch = dims[0], rows = offsets[2], columns = offsets[3];
  auto size = [&](int64_t value) { return c.constantSize(value); };
  AffineExpr maps = multiplySizes(batch, size(d.offsetGroups));
  AffineExpr points = multiplySizes(size(d.taps), positions);
  Value moves = c.reshape(c.cast(c.value(2), real),
                          {batch, size(d.offsetGroups), size(d.taps), size(2), rows, columns});
  Taps taps;
  for (size_t dim = 0; dim < 2; ++dim) {
    Value move = c.reshape(c.sliceAxis(moves, 3, size(static_cast<int64_t>(dim)), size(1)),
                           {batch, size(d.offsetGroups), size(d.taps), rows, columns});
    Value place = c.add(move, windowPositions(c, d.windows, dim, dim == 0 ? rows : columns, real));
    taps.push_back(linearTaps(c, c.reshape(place, {maps, points, size(1)}), dims[2 + dim]));
  }
  int64_t own = d.channels / d.offsetGroups;
  Value pixels = pixelsOf(c, c.reshape(c.value(0), {maps, size(own), dims[2], dims[3]}));
  Value samples = sumTaps(
      c, [&](Value numbers) { return readPixels(c, pixels, numbers); }, taps,
      ArrayRef<AffineExpr>(dims).drop_front(2), real);
  if (c.has(4)) {
    samples = c.mul(samples, c.reshape(c.cast(c.value(4), real), {maps, points, size(1)}));
  }
  samples = c.reshape(samples, {batch, size(d.offsetGroups), size(d.taps), positions, size(own)});
  return c.reshape(c.transpose(samples, {0, 1, 4, 2, 3}),
                   {batch, size(d.groups), size(d.channels / d.groups * d.taps), positions});
}

void deformConv(NodeContext &c) {
  std::optional<DeformConv> d = readDeformConv(c);
  if (!d) {
    return;
  }
  tn::Dims offsets = c.dims(2);
  AffineExpr positions = multiplySizes(offsets[2], offsets[3]);
  if (!positions) {
    return c.gap("the number of its positions cannot be written as an expression",
                 "declare the dimensions with --shape");
  }
  Type real = sampleType(c, c.element(0));
  int64_t depth = d->channels / d->groups * d->taps;
  Value weight = c.reshape(c.cast(c.value(1), real),
                           {c.constantSize(1), c.constantSize(d->groups),
                            c.constantSize(d->filters / d->groups), c.constantSize(depth)});
  Value product =
      c.make<tn::MatmulOp>(weight, sampledColumns(c, *d, positions, real), false, false);
  Value y = c.reshape(product, {c.dims(0)[0], c.constantSize(d->filters), offsets[2], offsets[3]});
  if (c.has(3)) {
    y = c.add(y, c.alongAxis(c.cast(c.value(3), real), 1, 4));
  }
  c.setOutput(0, c.cast(y, c.element(0)));
}

constexpr OpRow kSamplingOpRows[] = {
    {"DeformConv",
     19,
     3,
     5,
     1,
     deformConv,
     {{"dilations", kInts},
      {"group", kInt},
      {"kernel_shape", kInts},
      {"offset_group", kInt},
      {"pads", kInts},
      {"strides", kInts}}},
    {"RoiAlign",
     10,
     3,
     3,
     1,
     roiAlign,
     {{"coordinate_transformation_mode", kString, 16},
      {"mode", kString},
      {"output_height", kInt},
      {"output_width", kInt},
      {"sampling_ratio", kInt},
      {"spatial_scale", kFloat}}},
};

} // namespace

ArrayRef<OpRow> samplingRows() { return kSamplingOpRows; }

} // namespace tenon::onnx
