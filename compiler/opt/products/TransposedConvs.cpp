// A transposed convolution as convolutions, one for each set of output positions that equally many
// taps reach: position q * stride + r, shifted by the padding, receives input q - t through tap k
// where k * dilation is t * stride + r. Remainders r with as many taps are output channels of one
// convolution; no tap is added, since one of zeros would turn infinite neighbours into NaN, and
// where no tap leads stands the bias. Relies on channels-last layouts, in which the results are put
// together without moving single elements.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace tenon::opt {
namespace {

/// More convolutions than this cost more than they gain.
constexpr int64_t kMaxConvs = 16;

/// Remainders next to each other that equally many taps reach, from `shift` inputs before an output
/// on.
struct Phases {
  int64_t first, count, taps, shift;
};

/// One spatial dim.
struct Axis {
  AffineExpr in, out;
  int64_t filter, stride, dilation;
  int64_t padBegin, rest; ///< padBegin + out is in * stride + rest
  SmallVector<Phases> sets;

  int64_t divisor() const { return std::gcd(stride, dilation); }
  /// From one tap of a remainder to its next: in taps, and in inputs.
  int64_t tapStep() const { return stride / divisor(); }
  int64_t inputStep() const { return dilation / divisor(); }
  /// The first tap of a remainder; none if no tap leads there.
  std::optional<int64_t> firstTap(int64_t phase) const {
    for (int64_t tap = 0; tap < std::min(filter, tapStep()); ++tap) {
      if (tap * dilation % stride == phase) {
        return tap;
      }
    }
    return std::nullopt;
  }
  void collectSets();

  int64_t beginOf(const Phases &set) const { return (set.taps - 1) * inputStep() + set.shift; }
  /// The first multiple of the stride that is computed, and how many.
  int64_t first() const;
  int64_t padEnd() const { return std::max<int64_t>(0, llvm::divideCeilSigned(rest, stride)); }
  AffineExpr steps() const { return in + (padEnd() - first()); }
};

void Axis::collectSets() {
  for (int64_t phase = 0; phase < stride; ++phase) {
    std::optional<int64_t> tap = firstTap(phase);
    int64_t taps = tap ? llvm::divideCeil(filter - *tap, tapStep()) : 0;
    int64_t shift = tap ? *tap * dilation / stride : 0;
    if (!sets.empty() && sets.back().taps == taps && sets.back().shift == shift) {
      ++sets.back().count;
    } else {
      sets.push_back({phase, 1, taps, shift});
    }
  }
}

int64_t Axis::first() const {
  int64_t result = padBegin / stride;
  for (const Phases &set : sets) {
    result = set.taps > 0 ? std::min(result, beginOf(set)) : result;
  }
  return result;
}

AffineExpr constant(OpBuilder &builder, int64_t value) {
  return builder.getAffineConstantExpr(value);
}

Value slice(OpBuilder &builder, Location location, Value x, tn::Dims dims,
            ArrayRef<AffineExpr> starts, ArrayRef<int64_t> steps) {
  if (tn::sameDims(dims, tn::getDims(x.getType()))) {
    return x;
  }
  RankedTensorType type = tn::makeTensor(dims, tensorType(x).getElementType());
  return tn::SliceOp::create(builder, location, type, x,
                             AffineMap::get(0, 0, starts, builder.getContext()), steps);
}

class TransposedConv {
public:
  TransposedConv(tn::ConvTransposeOp op, OpBuilder &builder)
      : op(op), builder(builder), location(op.getLoc()), groups(op.getGroups()),
        dims(tn::getDims(op.getX().getType())), filter(tensorType(op.getWeight()).getShape()),
        quantized(quantizedWeight(op)) {
    tn::Dims out = tn::getDims(op.getType());
    size_t spatial = dims.size() - 2;
    for (size_t i = 0; i < spatial; ++i) {
      Axis axis{dims[2 + i],
                out[2 + i],
                filter[2 + i],
                op.getStrides()[i],
                op.getDilations()[i],
                op.getPads()[i],
                0,
                {}};
      int64_t reach = (axis.filter - 1) * axis.dilation + 1;
      axis.rest = op.getOutputPadding()[i] + reach - axis.stride - op.getPads()[spatial + i];
      axis.collectSets();
      axes.push_back(axis);
    }
  }

  /// Constants of 8 bits with one scale, or one for each output channel of a group; else null.
  static tn::DequantizeOp quantizedWeight(tn::ConvTransposeOp op) {
    tn::DequantizeOp source = op.getWeight().getDefiningOp<tn::DequantizeOp>();
    bool isTaken = source && getElementTypeOrSelf(source.getX()).isInteger(8) &&
                   Constants::isConstant(source.getX()) &&
                   llvm::all_of(source->getOperands().drop_front(), [&](Value parameter) {
                     return tensorType(parameter).getRank() == 0 || source.getAxis() == 1;
                   });
    return isTaken ? source : tn::DequantizeOp();
  }

  bool isSupported();
  /// The result in the layout N, spatial..., C.
  Value build();

private:
  Value allPhases(size_t axis, SmallVector<Phases> &chosen);
  Value convolve(ArrayRef<Phases> chosen);
  Value withoutTaps(ArrayRef<Phases> chosen);
  tn::Dims resultOf(ArrayRef<Phases> chosen) const;
  Value tapsOf(Value weight, size_t axis, const Phases &set);
  Value weightOf(ArrayRef<Phases> chosen);
  Value ofChannels(Value parameter, int64_t copies);
  Value biasOf(int64_t phases);

  tn::ConvTransposeOp op;
  OpBuilder &builder;
  Location location;
  int64_t groups;
  tn::Dims dims;
  ArrayRef<int64_t> filter;
  SmallVector<Axis> axes;
  Value x; ///< channels last
  /// Weights of 8 bits are moved as such: the convolutions may multiply them.
  tn::DequantizeOp quantized;
};

bool TransposedConv::isSupported() {
  size_t convs = 1;
  for (const Axis &axis : axes) {
    bool padsEnough =
        llvm::all_of(axis.sets, [&](const Phases &set) { return axis.padEnd() >= set.shift; });
    if (!axis.in || !axis.out || axis.filter < 1 || !padsEnough) {
      return false;
    }
    convs *= axis.sets.size();
  }
  return convs <= kMaxConvs && isa<FloatType>(op.getType().getElementType());
}

/// The weight with the filter's dim of an axis as taps and phases. Those of the axes before it
/// already are.
Value TransposedConv::tapsOf(Value weight, size_t axis, const Phases &set) {
  size_t dim = 2 + 2 * axis;
  const Axis &along = axes[axis];
  tn::Dims dims = tn::getDims(weight.getType()), split = dims;
  split[dim] = constant(builder, set.taps);
  split.insert(split.begin() + dim + 1, constant(builder, set.count));
  if (set.taps * set.count == along.filter && along.dilation == 1) {
    return reshape(builder, location, weight, split);
  }
  SmallVector<AffineExpr> starts(dims.size(), constant(builder, 0));
  SmallVector<int64_t> steps(dims.size(), 1);
  dims[dim] = split[dim];
  steps[dim] = along.tapStep();
  tn::Dims single = split;
  single[dim + 1] = constant(builder, 1);
  SmallVector<Value> parts;
  for (int64_t phase = set.first; phase < set.first + set.count; ++phase) {
    starts[dim] = constant(builder, *along.firstTap(phase));
    Value part = slice(builder, location, weight, dims, starts, steps);
    parts.push_back(reshape(builder, location, part, single));
  }
  Type type = tn::makeTensor(split, tensorType(weight).getElementType());
  return parts.size() == 1 ? parts.front()
                           : tn::ConcatOp::create(builder, location, type, parts, dim + 1);
}

/// The taps of the chosen phases in reverse order, as [O, C / groups, taps...], where O counts
/// groups, phases and a group's channels.
Value TransposedConv::weightOf(ArrayRef<Phases> chosen) {
  Value weight = quantized ? quantized.getX() : op.getWeight();
  // [groups, C / groups, O / groups, taps and phases of each axis]
  int64_t in = filter[0] / groups, out = filter[1];
  tn::Dims split = {constant(builder, groups), constant(builder, in), constant(builder, out)};
  SmallVector<int64_t> order = {0};
  tn::Dims joined = {constant(builder, in)};
  SmallVector<int64_t> tapDims;
  int64_t channels = groups * out;
  for (auto [i, set] : llvm::enumerate(chosen)) {
    weight = tapsOf(weight, i, set);
    tapDims.push_back(split.size());
    order.push_back(split.size() + 1);
    split.append({constant(builder, set.taps), constant(builder, set.count)});
    joined.push_back(constant(builder, set.taps));
    channels *= set.count;
  }
  weight = reshape(builder, location, weight, split);
  SmallVector<AffineExpr> ends(split.size(), constant(builder, 0));
  SmallVector<int64_t> backwards(split.size(), 1);
  bool isReversed = false;
  for (int64_t dim : tapDims) {
    int64_t taps = *tn::constantDim(split[dim]);
    ends[dim] = constant(builder, taps - 1);
    backwards[dim] = -1;
    isReversed |= taps > 1;
  }
  if (isReversed) {
    weight = tn::SliceOp::create(builder, location, weight.getType(), weight,
                                 AffineMap::get(0, 0, ends, builder.getContext()), backwards);
  }
  order.append({2, 1});
  order.append(tapDims);
  joined.insert(joined.begin(), constant(builder, channels));
  weight = reshape(builder, location, transpose(builder, location, weight, order), joined);
  if (!quantized) {
    return weight;
  }
  int64_t copies = channels / out;
  Type type = tn::withElement(weight.getType(), getElementTypeOrSelf(quantized.getResult()));
  return tn::DequantizeOp::create(builder, location, type, weight,
                                  ofChannels(quantized.getScale(), copies),
                                  ofChannels(quantized.getZeroPoint(), copies), /*axis=*/0);
}

/// A parameter for each output channel of a group, or one for all, as one of `copies` as many.
Value TransposedConv::ofChannels(Value parameter, int64_t copies) {
  if (tensorType(parameter).getRank() == 0) {
    return parameter;
  }
  AffineExpr count = constant(builder, copies), out = constant(builder, filter[1]);
  RankedTensorType repeated = tn::makeTensor({count, out}, tensorType(parameter).getElementType());
  Value parts = tn::BroadcastOp::create(builder, location, repeated, parameter);
  return reshape(builder, location, parts, {constant(builder, copies * filter[1])});
}

Value TransposedConv::biasOf(int64_t phases) {
  Value bias = op.getBias();
  if (!bias || phases == 1) {
    return bias;
  }
  AffineExpr one = constant(builder, 1), out = constant(builder, filter[1]);
  AffineExpr group = constant(builder, groups), count = constant(builder, phases);
  Value parts = reshape(builder, location, bias, {group, one, out});
  RankedTensorType repeated =
      tn::makeTensor({group, count, out}, tensorType(bias).getElementType());
  parts = tn::BroadcastOp::create(builder, location, repeated, parts);
  return reshape(builder, location, parts, {constant(builder, groups * phases * filter[1])});
}

/// [N, steps and phases of each axis, C].
tn::Dims TransposedConv::resultOf(ArrayRef<Phases> chosen) const {
  tn::Dims result = {dims[0]};
  for (auto [axis, set] : llvm::zip(axes, chosen)) {
    result.append({axis.steps(), constant(builder, set.count)});
  }
  result.push_back(constant(builder, groups * filter[1]));
  return result;
}

Value TransposedConv::convolve(ArrayRef<Phases> chosen) {
  SmallVector<int64_t> ones(axes.size(), 1), dilations, begins, ends;
  tn::Dims out = {dims[0]}, split = {dims[0]};
  SmallVector<int64_t> order = {0};
  int64_t phaseCount = 1, spatial = axes.size();
  for (auto [axis, set] : llvm::zip(axes, chosen)) {
    dilations.push_back(set.taps > 1 ? axis.inputStep() : 1);
    begins.push_back(axis.beginOf(set) - axis.first());
    ends.push_back(axis.padEnd() - set.shift);
    out.push_back(axis.steps());
    split.push_back(axis.steps());
    phaseCount *= set.count;
  }
  split.push_back(constant(builder, groups));
  for (auto [i, set] : llvm::enumerate(chosen)) {
    order.append({1 + static_cast<int64_t>(i), spatial + 2 + static_cast<int64_t>(i)});
    split.push_back(constant(builder, set.count));
  }
  order.append({spatial + 1, 2 * spatial + 2});
  split.push_back(constant(builder, filter[1]));
  out.push_back(constant(builder, groups * phaseCount * filter[1]));
  begins.append(ends);
  Type element = op.getType().getElementType();
  Value y = tn::ConvOp::create(builder, location, tn::makeTensor(out, element), x, weightOf(chosen),
                               biasOf(phaseCount), ones, begins, dilations, groups,
                               /*channelsLast=*/true);
  y = reshape(builder, location, y, split);
  return reshape(builder, location, transpose(builder, location, y, order), resultOf(chosen));
}

/// Positions that no tap reaches.
Value TransposedConv::withoutTaps(ArrayRef<Phases> chosen) {
  Type element = op.getType().getElementType();
  Value value = op.getBias();
  if (!value) {
    RankedTensorType scalar = RankedTensorType::get({}, element);
    value =
        tn::ConstantOp::create(builder, location, scalar,
                               DenseElementsAttr::get(scalar, builder.getFloatAttr(element, 0.0)));
  }
  return tn::BroadcastOp::create(builder, location, tn::makeTensor(resultOf(chosen), element),
                                 value);
}

Value TransposedConv::allPhases(size_t axis, SmallVector<Phases> &chosen) {
  if (axis == axes.size()) {
    bool isReached = llvm::all_of(chosen, [](const Phases &set) { return set.taps > 0; });
    return isReached ? convolve(chosen) : withoutTaps(chosen);
  }
  SmallVector<Value> parts;
  for (const Phases &set : axes[axis].sets) {
    chosen.push_back(set);
    parts.push_back(allPhases(axis + 1, chosen));
    chosen.pop_back();
  }
  if (parts.size() == 1) {
    return parts.front();
  }
  size_t dim = 2 + 2 * axis;
  tn::Dims whole = tn::getDims(parts.front().getType());
  whole[dim] = constant(builder, axes[axis].stride);
  return tn::ConcatOp::create(builder, location,
                              tn::makeTensor(whole, tensorType(parts.front()).getElementType()),
                              parts, dim);
}

Value TransposedConv::build() {
  SmallVector<int64_t> toLast = {0};
  tn::Dims whole = {dims[0]}, result = {dims[0]};
  SmallVector<AffineExpr> starts = {constant(builder, 0)};
  for (auto [i, axis] : llvm::enumerate(axes)) {
    toLast.push_back(2 + static_cast<int64_t>(i));
    // Written as the result's where it is the same size: types compare expressions.
    AffineExpr all = axis.steps() * axis.stride;
    whole.push_back(tn::sameDim(all, axis.out) ? axis.out : all);
    result.push_back(axis.out);
    starts.push_back(constant(builder, axis.padBegin - axis.first() * axis.stride));
  }
  toLast.push_back(1);
  for (tn::Dims *each : {&whole, &result}) {
    each->push_back(constant(builder, groups * filter[1]));
  }
  starts.push_back(constant(builder, 0));
  x = transpose(builder, location, op.getX(), toLast);
  SmallVector<Phases> chosen;
  Value y = reshape(builder, location, allPhases(0, chosen), whole);
  y = slice(builder, location, y, result, starts, SmallVector<int64_t>(result.size(), 1));
  return transpose(builder, location, y, inverse(toLast));
}

struct ToConvs : OpRewritePattern<tn::ConvTransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ConvTransposeOp op, PatternRewriter &rewriter) const override {
    TransposedConv conv(op, rewriter);
    if (!conv.isSupported()) {
      return failure();
    }
    rewriter.replaceOp(op, conv.build());
    return success();
  }
};

} // namespace

LogicalResult transposedConvs(ModuleOp module, tn::WeightStore &) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<ToConvs>(module.getContext());
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
