// The kernel of depthwise convolutions. A thread goes over the lines of its windows: of each it
// loads every place once, then the taps of the line, and adds up all its outputs. Relies on places
// outside of the input counting as zeros.
#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "compiler/codegen/cuda/conv/ConvFilter.h"
#include "compiler/codegen/cuda/conv/Depthwise.h"
#include "compiler/codegen/cuda/conv/Tuning.h"
#include "compiler/codegen/cuda/gemm/EpilogueStore.h"
#include "compiler/codegen/cuda/gemm/IntegerSums.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

class DepthwiseKernel {
public:
  DepthwiseKernel(RegionBuilder &region, const DepthwiseProblem &problem, const DepthwiseTile &tile,
                  unsigned filter)
      : kernel(region, tuning::kDepthwiseBlock), emitter(kernel), math(kernel.math),
        t(kernel.builder, kernel.location), p(problem), tile(tile), filter(filter),
        last(p.dims.back()) {
    pieces = (last.taps + tuning::kDepthwiseLine - 1) / tuning::kDepthwiseLine;
    pieceTaps = (last.taps + pieces - 1) / pieces;
    lines = p.taps() / last.taps * pieces;
  }

  bool run();

private:
  /// A line of the windows, or a piece of one: where it begins in the input's pixels, whether it is
  /// in the input (null: always), its first place along the last dim, and its first tap.
  struct Line {
    Value pixel, isInside, first, tap, tapOfLine;
  };
  void place();
  AffineExpr strips() const { return last.out.ceilDiv(tile.width); }
  AffineExpr units() const;
  Line lineAt(Value number);
  Values addLine(const Line &line, const Values &accumulators);
  Values loadPlace(const Line &line, int64_t distance);
  Values loadTap(const Line &line, int64_t tap);
  Values wide(Value loaded, bool isSigned);
  Value wideElement(Value element, bool isSigned);
  Values addLines();
  void store(const Values &accumulators);
  Value isBelow(Value a, Value bound) {
    return arith::CmpIOp::create(t.builder, t.location, arith::CmpIPredicate::ult, a, bound);
  }
  Type stripType() const {
    return tile.lanes == 1 ? p.element : Type(VectorType::get(tile.lanes, p.element));
  }

  KernelFrame kernel;
  ElementEmitter emitter;
  IndexMath &math;
  ThreadBuilder t;
  const DepthwiseProblem &p;
  const DepthwiseTile &tile;
  unsigned filter;
  const DepthwiseDim &last;
  int64_t pieces, pieceTaps, lines;

  Index image, channel, firstOutput;
  Indices outer; ///< the place along the spatial dims but the last
};

AffineExpr DepthwiseKernel::units() const {
  AffineExpr count = p.images * strips() * (p.channels / tile.lanes);
  for (const DepthwiseDim &dim : ArrayRef(p.dims).drop_back()) {
    count = count * dim.out;
  }
  return count;
}

/// Neighbouring threads have neighbouring channels, as many as fill a line of the caches; a block
/// has the outputs around each other of those, since their windows meet.
void DepthwiseKernel::place() {
  Index unit = math.add(math.multiply(kernel.block(), Index::constant(tuning::kDepthwiseBlock)),
                        kernel.thread());
  auto constant = [&](int64_t value) {
    return getAffineConstantExpr(value, t.builder.getContext());
  };
  int64_t groups = p.channels / tile.lanes;
  int64_t together = tuning::kDepthwiseBytes / (tile.lanes * byteSize(p.element));
  while (groups % together != 0) {
    --together;
  }
  tn::Dims sizes = {p.images, constant(groups / together)};
  for (const DepthwiseDim &dim : ArrayRef(p.dims).drop_back()) {
    sizes.push_back(dim.out);
  }
  sizes.push_back(strips());
  sizes.push_back(constant(together));
  Indices at = math.delinearize(unit, kernel.sizes(sizes));
  image = at.front();
  outer.assign(at.begin() + 2, at.end() - 2);
  firstOutput = math.multiply(at[at.size() - 2], Index::constant(tile.width));
  Index group = math.add(math.multiply(at[1], Index::constant(together)), at.back());
  channel = math.multiply(group, Index::constant(tile.lanes));
}

DepthwiseKernel::Line DepthwiseKernel::lineAt(Value number) {
  Line line;
  Value piece = t.rem(number, pieces), row = t.div(number, pieces), rest = row;
  SmallVector<Value> places(outer.size());
  for (size_t i = outer.size(); i-- > 0;) {
    const DepthwiseDim &dim = p.dims[i];
    Value tap = t.rem(rest, dim.taps);
    rest = t.div(rest, dim.taps);
    Value start = t.add(t.mul(math.value(outer[i]), dim.stride), -dim.before);
    places[i] = t.add(start, t.mul(tap, dim.dilation));
    if (dim.isPadded) {
      Value inside = isBelow(places[i], math.value(kernel.size(dim.in)));
      line.isInside = line.isInside ? t.bitAnd(line.isInside, inside) : inside;
    }
  }
  line.pixel = math.value(image);
  for (auto [dim, at] : llvm::zip(p.dims, places)) {
    line.pixel = t.add(t.mul(line.pixel, math.value(kernel.size(dim.in))), at);
  }
  line.pixel = t.mul(line.pixel, math.value(kernel.size(last.in)));
  Value start = t.add(t.mul(math.value(firstOutput), last.stride), -last.before);
  line.tapOfLine = t.mul(piece, pieceTaps);
  line.first = t.add(start, t.mul(line.tapOfLine, last.dilation));
  line.tap = t.add(t.mul(row, last.taps), line.tapOfLine);
  return line;
}

Value DepthwiseKernel::wideElement(Value element, bool isSigned) {
  if (!p.areBytes) {
    return t.toF32(element);
  }
  return isSigned
             ? arith::SIToFPOp::create(t.builder, t.location, t.f32Type(), element).getResult()
             : arith::UIToFPOp::create(t.builder, t.location, t.f32Type(), element).getResult();
}

Values DepthwiseKernel::wide(Value loaded, bool isSigned) {
  Values elements;
  for (int64_t lane = 0; lane < tile.lanes; ++lane) {
    elements.push_back(wideElement(tile.lanes == 1 ? loaded : t.extract(loaded, lane), isSigned));
  }
  return elements;
}

/// The channels of one place of the line.
Values DepthwiseKernel::loadPlace(const Line &line, int64_t distance) {
  Value at = t.add(line.first, distance), isInside;
  bool isExact = last.out.isMultipleOf(tile.width) && pieces * pieceTaps == last.taps;
  if (last.isPadded || !isExact) {
    isInside = isBelow(at, math.value(kernel.size(last.in)));
    at = t.select(isInside, at, math.constant(0));
  }
  int64_t channels = p.channels / p.multiplier;
  Value pixel = t.add(line.pixel, at);
  auto load = [&](Type type, const Index &inChannel) {
    Index start = math.multiply({pixel, 0, 1, true}, Index::constant(channels));
    Value loaded = kernel.load(p.input, type, math.add(start, inChannel));
    Value zero = arith::ConstantOp::create(t.builder, t.location, t.builder.getZeroAttr(type));
    return isInside ? t.select(isInside, loaded, zero) : loaded;
  };
  if (p.multiplier == 1) {
    return wide(load(stripType(), channel), p.isSigned);
  }
  Values elements;
  for (int64_t lane = 0; lane < tile.lanes; ++lane) {
    Index own = math.add(channel, Index::constant(lane));
    Value element = load(p.element, math.floorDiv(own, Index::constant(p.multiplier)));
    elements.push_back(wideElement(element, p.isSigned));
  }
  return elements;
}

Values DepthwiseKernel::loadTap(const Line &line, int64_t tap) {
  Value at = t.add(line.tap, tap), isInside;
  if (pieces * pieceTaps != last.taps) {
    isInside = t.isLess(t.add(line.tapOfLine, tap), math.constant(last.taps));
    at = t.select(isInside, at, math.constant(0));
  }
  Index start = math.multiply({at, 0, 1, true}, Index::constant(p.channels));
  Values weights =
      wide(kernel.load(filter, stripType(), math.add(start, channel)), /*isSigned=*/true);
  for (Value &weight : weights) {
    weight = isInside ? t.select(isInside, weight, t.f32(0)) : weight;
  }
  return weights;
}

Values DepthwiseKernel::addLine(const Line &line, const Values &accumulators) {
  std::map<int64_t, Values> places;
  for (int64_t tap = 0; tap < pieceTaps; ++tap) {
    for (int64_t output = 0; output < tile.width; ++output) {
      int64_t distance = output * last.stride + tap * last.dilation;
      if (!places.contains(distance)) {
        places[distance] = loadPlace(line, distance);
      }
    }
  }
  Values next = accumulators;
  for (int64_t tap = 0; tap < pieceTaps; ++tap) {
    Values weights = loadTap(line, tap);
    for (int64_t output = 0; output < tile.width; ++output) {
      const Values &elements = places[output * last.stride + tap * last.dilation];
      for (int64_t lane = 0; lane < tile.lanes; ++lane) {
        Value &sum = next[output * tile.lanes + lane];
        sum = t.fma(elements[lane], weights[lane], sum);
      }
    }
  }
  return next;
}

Values DepthwiseKernel::addLines() {
  // Sums of bytes are the low bits of floats.
  Values zeros(tile.width * tile.lanes, t.f32(p.areBytes ? kIntegerZero : 0));
  auto add = [&](const ThreadBuilder &, Value number, ValueRange carried) -> Values {
    math.openScope();
    Line line = lineAt(number);
    Values accumulators(carried);
    if (line.isInside) {
      accumulators = t.choose(
          line.isInside,
          [&](const ThreadBuilder &) {
            math.openScope();
            Values added = addLine(line, Values(carried));
            math.closeScope();
            return added;
          },
          [&](const ThreadBuilder &) { return Values(carried); });
    } else {
      accumulators = addLine(line, accumulators);
    }
    math.closeScope();
    return accumulators;
  };
  return t.loop(math.constant(0), math.constant(lines), math.constant(1), zeros, add);
}

void DepthwiseKernel::store(const Values &accumulators) {
  Index count = kernel.size(last.out);
  Index row = image;
  for (auto [dim, at] : llvm::zip(p.dims, outer)) {
    row = math.add(math.multiply(row, kernel.size(dim.out)), at);
  }
  SmallVector<ResultStrip> strips(tile.width);
  for (auto [output, strip] : llvm::enumerate(strips)) {
    Index at = math.add(firstOutput, Index::constant(output));
    if (!last.out.isMultipleOf(tile.width)) {
      strip.isStored = t.isLess(math.value(at), math.value(count));
      // What follows may read there.
      at = {t.min(math.value(at), t.add(math.value(count), -1)), 0, 1, true};
    }
    Index pixel = math.add(math.multiply(row, count), at);
    strip.linear = math.add(math.multiply(pixel, Index::constant(p.channels)), channel);
    strip.place = {image};
    strip.place.append(outer);
    strip.place.append({at, channel});
    ArrayRef<Value> own = ArrayRef(accumulators).slice(output * tile.lanes, tile.lanes);
    for (Value sum : own) {
      strip.accumulators.push_back(
          p.areBytes ? t.sub(t.bitcast(t.i32Type(), sum), t.i32(kIntegerZeroBits)) : sum);
    }
  }
  storeThroughEpilogue(emitter, *productTensors(kernel.region), strips);
}

bool DepthwiseKernel::run() {
  place();
  Index unit = math.add(math.multiply(kernel.block(), Index::constant(tuning::kDepthwiseBlock)),
                        kernel.thread());
  Value isInside = t.isLess(math.value(unit), math.value(kernel.size(units())));
  emitter.when(isInside, [&] { store(addLines()); });
  kernel.finish(units().ceilDiv(tuning::kDepthwiseBlock));
  return !emitter.hasFailed();
}

} // namespace

bool emitDepthwise(RegionBuilder &region, const DepthwiseProblem &problem,
                   const DepthwiseTile &tile) {
  unsigned filter = problem.filter;
  if (!problem.isLaidOut) {
    auto constant = [&](int64_t value) {
      return getAffineConstantExpr(value, region.source.getContext());
    };
    StridedTensor from{
        problem.filter, problem.element, constant(0), {constant(1), constant(problem.taps())}};
    filter = layOutFilter(region, from, {problem.taps(), problem.channels});
  }
  return DepthwiseKernel(region, problem, tile, filter).run();
}

} // namespace tenon::codegen::cuda
