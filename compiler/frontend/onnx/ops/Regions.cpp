// Pooling and convolution over positions that the data decides: RoiAlign and DeformConv.
// Relies on Sampling.h for reading between pixels.
#include "compiler/frontend/common/Sampling.h"

#include "compiler/frontend/onnx/Windows.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

//===--- RoiAlign ---===//

struct Pooling {
  int64_t height, width, samples;
  bool halfPixel, isMax;
  double scale;
};

std::optional<Pooling> readPooling(NodeContext &c) {
  std::string coordinates =
      c.text("coordinate_transformation_mode", c.opset < 16 ? "output_half_pixel" : "half_pixel");
  std::string mode = c.text("mode", "avg");
  Pooling p{c.integer("output_height", 1),
            c.integer("output_width", 1),
            c.integer("sampling_ratio", 0),
            coordinates == "half_pixel",
            mode == "max",
            c.real("spatial_scale", 1)};
  auto inRange = [](int64_t v, int64_t least) { return v >= least && v <= 1024; };
  if ((!p.halfPixel && coordinates != "output_half_pixel") || (!p.isMax && mode != "avg") ||
      !inRange(p.height, 1) || !inRange(p.width, 1) || !inRange(p.samples, 0)) {
    c.error(ErrorId::OnnxBadAttribute, "one of its attributes has an unknown value");
  } else if (p.samples == 0) {
    c.gap("the number of samples follows from the size of each region, which only data decides",
          "export with a sampling_ratio above 0");
  }
  return c.failed() ? std::nullopt : std::optional(p);
}

/// The samples along one dim of each region, [regions, bins * samples] as positions in pixels.
Value samplePositions(NodeContext &c, Value start, Value length, int64_t bins, int64_t samples) {
  SmallVector<double> places;
  for (int64_t i = 0; i < bins * samples; ++i) {
    places.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(samples));
  }
  Type real = start ? getElementTypeOrSelf(start) : Type(c.builder().getF32Type());
  Value bin = c.div(length, c.scalar(static_cast<double>(bins), real));
  return c.add(start, c.mul(bin, c.realConstant(places, {1, bins * samples}, real)));
}

/// Both neighbours of a position that is held inside; a sample further out than a pixel counts as
/// 0.
SmallVector<Tap> regionTaps(NodeContext &c, Value position, AffineExpr size) {
  Type real = position ? getElementTypeOrSelf(position) : Type(c.builder().getF32Type());
  Value one = c.scalar(1, real), extent = c.sizeValue(size, real);
  Value low = c.compare(position, tn::Predicate::ge, c.scalar(-1, real));
  Value high = c.compare(position, tn::Predicate::le, extent);
  Value inside = c.make<tn::AndOp>(low, high);
  Value held = clampPosition(c, position, size);
  Value first = c.unary<tn::FloorOp>(held);
  Value second = c.min(c.add(first, one), c.sub(extent, one));
  Value part = c.sub(held, first);
  return {{first, inside, c.sub(one, part)}, {second, inside, part}};
}

/// The largest weighted pixel of each sample.
Value maxTaps(NodeContext &c, ReadPixels read, const Taps &taps, ArrayRef<AffineExpr> sizes,
              Type real) {
  Value most;
  for (const Tap &y : taps[0]) {
    for (const Tap &x : taps[1]) {
      Value pixel = sumTaps(c, read, {{y}, {x}}, sizes, real);
      most = most ? c.max(most, pixel) : pixel;
    }
  }
  return most;
}

void roiAlign(NodeContext &c) {
  std::optional<Pooling> p = readPooling(c);
  if (!p) {
    return;
  }
  tn::Dims dims = c.dims(0), rois = c.dims(1);
  if (dims.size() != 4 || rois.size() != 2 || c.rank(2) != 1) {
    return c.error(ErrorId::OnnxBadNode, "its inputs are not images, boxes and their numbers");
  }
  if (!requireDim(c, rois[1], 4, "the length of its boxes")) {
    return;
  }
  if (!tn::sameDim(rois[0], c.dims(2)[0])) {
    return c.gap("there are not as many boxes as numbers of images, or that is not known",
                 "declare both dimensions with --shape");
  }
  Type real = sampleType(c, c.element(0));
  Value boxes = c.cast(c.value(1), real);
  Value offset = c.scalar(p->halfPixel ? 0.5 : 0, real);
  auto edge = [&](int64_t i) {
    Value column = c.sliceAxis(boxes, 1, c.constantSize(i), c.constantSize(1));
    return c.sub(c.mul(column, c.scalar(p->scale, real)), offset);
  };
  AffineExpr one = c.constantSize(1);
  int64_t rows = p->height * p->samples, columns = p->width * p->samples;
  auto along = [&](int64_t low, int64_t high, int64_t bins) {
    Value length = c.sub(edge(high), edge(low));
    length = p->halfPixel ? length : c.max(length, c.scalar(1, real));
    return samplePositions(c, edge(low), length, bins, p->samples);
  };
  // The points of a region are [regions, rows * columns, 1].
  AffineExpr points = c.constantSize(rows * columns);
  auto spread = [&](Value positions, bool isRow) {
    tn::Dims apart = {rois[0], isRow ? c.constantSize(rows) : one,
                      isRow ? one : c.constantSize(columns)};
    tn::Dims whole = {rois[0], c.constantSize(rows), c.constantSize(columns)};
    return c.reshape(c.broadcast(c.reshape(positions, apart), whole), {rois[0], points, one});
  };
  Taps taps = {regionTaps(c, spread(along(1, 3, p->height), true), dims[2]),
               regionTaps(c, spread(along(0, 2, p->width), false), dims[3])};
  // Regions share images, whose pixels stand one image after the other.
  Type index = c.builder().getI64Type();
  AffineExpr area = multiplySizes(dims[2], dims[3]);
  AffineExpr all = area ? multiplySizes(dims[0], area) : nullptr;
  if (!all) {
    return c.gap("the number of its positions cannot be written as an expression",
                 "declare the dimensions with --shape");
  }
  Value pixels = c.reshape(pixelsOf(c, c.value(0)), {all, dims[1]});
  Value image = c.mul(c.alongAxis(c.cast(c.value(2), index), 0, 2), c.sizeValue(area, index));
  auto read = [&](Value numbers) {
    Value own = c.add(c.reshape(numbers, {rois[0], points}), image);
    return c.make<tn::GatherOp>(pixels, own, int64_t{0});
  };
  ArrayRef<AffineExpr> sizes = ArrayRef<AffineExpr>(dims).drop_front(2);
  Value samples =
      p->isMax ? maxTaps(c, read, taps, sizes, real) : sumTaps(c, read, taps, sizes, real);
  tn::Dims bins = {rois[0],
                   c.constantSize(p->height),
                   c.constantSize(p->samples),
                   c.constantSize(p->width),
                   c.constantSize(p->samples),
                   dims[1]};
  Value y = c.reduce(p->isMax ? tn::ReduceKind::max : tn::ReduceKind::mean,
                     c.reshape(samples, bins), {2, 4}, false);
  c.setOutput(0, c.cast(c.transpose(y, {0, 3, 1, 2}), c.element(0)));
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

constexpr OpRow kRows[] = {
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

ArrayRef<OpRow> samplingRows() { return kRows; }

} // namespace tenon::onnx
