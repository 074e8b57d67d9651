// Pooling over regions of a map whose borders the data decides.
#include "compiler/frontend/common/Regions.h"

#include "compiler/frontend/common/Sampling.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::frontend {
namespace {

/// The samples along one dim of each region, [regions, bins * samples] as positions in pixels.
Value samplePositions(Emitter &c, Value start, Value length, int64_t bins, int64_t samples) {
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
SmallVector<Tap> regionTaps(Emitter &c, Value position, AffineExpr size) {
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
Value maxTaps(Emitter &c, ReadPixels read, const Taps &taps, ArrayRef<AffineExpr> sizes,
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

/// The samples of all regions, [regions, points, channels].
Value sampleRegions(Emitter &c, Value map, Value images, const Taps &taps, AffineExpr points,
                    const RegionPooling &p) {
  tn::Dims dims = tn::getDims(map.getType());
  AffineExpr regions = tn::getDims(images.getType())[0];
  // Regions share images, whose pixels stand one image after the other.
  Type index = c.builder().getI64Type();
  AffineExpr area = multiplySizes(dims[2], dims[3]);
  AffineExpr all = area ? multiplySizes(dims[0], area) : nullptr;
  if (!all) {
    c.gap("the number of its positions cannot be written as an expression",
          "declare the dimensions with --shape");
    return Value();
  }
  Value pixels = c.reshape(pixelsOf(c, map), {all, dims[1]});
  Value image = c.mul(c.alongAxis(c.cast(images, index), 0, 2), c.sizeValue(area, index));
  auto read = [&](Value numbers) {
    Value own = c.add(c.reshape(numbers, {regions, points}), image);
    return c.make<tn::GatherOp>(pixels, c.fromStart(own), int64_t{0});
  };
  Type real = sampleType(c, getElementTypeOrSelf(map));
  ArrayRef<AffineExpr> sizes = ArrayRef<AffineExpr>(dims).drop_front(2);
  return p.isMax ? maxTaps(c, read, taps, sizes, real) : sumTaps(c, read, taps, sizes, real);
}

} // namespace

Value alignRegions(Emitter &c, Value map, Value boxes, Value images, const RegionPooling &p) {
  if (!map || !boxes || !images) {
    return Value();
  }
  tn::Dims dims = tn::getDims(map.getType());
  AffineExpr regions = tn::getDims(images.getType())[0];
  Type element = getElementTypeOrSelf(map), real = sampleType(c, element);
  boxes = c.cast(boxes, real);
  Value offset = c.scalar(p.halfPixel ? 0.5 : 0, real);
  auto edge = [&](int64_t i) {
    Value column = c.sliceAxis(boxes, 1, c.constantSize(i), c.constantSize(1));
    return c.sub(c.mul(column, c.scalar(p.scale, real)), offset);
  };
  AffineExpr one = c.constantSize(1);
  int64_t rows = p.height * p.samples, columns = p.width * p.samples;
  auto along = [&](int64_t low, int64_t high, int64_t bins) {
    Value length = c.sub(edge(high), edge(low));
    length = p.halfPixel ? length : c.max(length, c.scalar(1, real));
    return samplePositions(c, edge(low), length, bins, p.samples);
  };
  // The points of a region are [regions, rows * columns, 1].
  AffineExpr points = c.constantSize(rows * columns);
  auto spread = [&](Value positions, bool isRow) {
    tn::Dims apart = {regions, isRow ? c.constantSize(rows) : one,
                      isRow ? one : c.constantSize(columns)};
    tn::Dims whole = {regions, c.constantSize(rows), c.constantSize(columns)};
    return c.reshape(c.broadcast(c.reshape(positions, apart), whole), {regions, points, one});
  };
  Taps taps = {regionTaps(c, spread(along(1, 3, p.height), true), dims[2]),
               regionTaps(c, spread(along(0, 2, p.width), false), dims[3])};
  Value samples = sampleRegions(c, map, images, taps, points, p);
  tn::Dims bins = {regions,
                   c.constantSize(p.height),
                   c.constantSize(p.samples),
                   c.constantSize(p.width),
                   c.constantSize(p.samples),
                   dims[1]};
  Value y = c.reduce(p.isMax ? tn::ReduceKind::max : tn::ReduceKind::mean, c.reshape(samples, bins),
                     {2, 4}, false);
  return c.cast(c.transpose(y, {0, 3, 1, 2}), element);
}

} // namespace tenon::frontend
