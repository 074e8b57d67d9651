// A transposed convolution as convolutions, one for each set of output positions that the same taps
// reach: position q * stride + r, shifted by the padding, receives input q - t through tap
// t * stride + r. Where the stride divides the filter, all remainders r have equally many taps and
// are output channels of one convolution; else each is one of its own, so that no tap is added: a
// tap of zeros would turn infinite neighbours into NaN. Relies on channels-last layouts, in which
// the results are put together without moving single elements.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// More convolutions than this cost more than they gain.
constexpr int64_t kMostConvs = 16;

/// One spatial dim.
struct Axis {
  AffineExpr in, out;
  int64_t filter, stride, dilation;
  int64_t padBegin, rest; ///< padBegin + out is in * stride + rest

  bool isWhole() const { return filter % stride == 0; }
  int64_t taps(int64_t phase) const { return llvm::divideCeil(filter - phase, stride); }
  /// The first multiple of the stride that is computed, and how many.
  int64_t first() const { return std::min(padBegin / stride, (taps(stride - 1) - 1) * dilation); }
  int64_t padEnd() const { return std::max<int64_t>(0, llvm::divideCeilSigned(rest, stride)); }
  AffineExpr steps() const { return in + (padEnd() - first()); }
};

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
        dims(tn::getDims(op.getX().getType())), filter(tensorType(op.getWeight()).getShape()) {
    tn::Dims out = tn::getDims(op.getType());
    size_t spatial = dims.size() - 2;
    for (size_t i = 0; i < spatial; ++i) {
      Axis axis{dims[2 + i],          out[2 + i],        filter[2 + i],
                op.getStrides()[i],   op.getDilations()[i], op.getPads()[i], 0};
      int64_t reach = (axis.filter - 1) * axis.dilation + 1;
      axis.rest = op.getOutputPadding()[i] + reach - axis.stride - op.getPads()[spatial + i];
      axes.push_back(axis);
    }
  }

  bool isSupported();
  /// The result in the layout N, spatial..., C.
  Value build();

private:
  /// Of an axis: the remainders that one convolution computes.
  struct Phases {
    int64_t first, count;
  };
  Value allPhases(size_t axis, SmallVector<Phases> &chosen);
  Value convolve(ArrayRef<Phases> chosen);
  Value weightOf(ArrayRef<Phases> chosen);
  Value biasOf(int64_t phases);

  tn::ConvTransposeOp op;
  OpBuilder &builder;
  Location location;
  int64_t groups;
  tn::Dims dims;
  ArrayRef<int64_t> filter;
  SmallVector<Axis> axes;
  Value x; ///< channels last
};

bool TransposedConv::isSupported() {
  int64_t convs = 1;
  for (const Axis &axis : axes) {
    bool isDilated = axis.dilation > 1 && axis.filter > 1;
    if (!axis.in || !axis.out || axis.filter < axis.stride || (isDilated && axis.stride > 1)) {
      return false;
    }
    convs *= axis.isWhole() ? 1 : axis.stride;
  }
  return convs <= kMostConvs && isa<FloatType>(op.getType().getElementType()) &&
         llvm::all_of(filter, [](int64_t size) { return size > 0; });
}

/// The taps of the chosen phases in reverse order, as [O, C / groups, taps...], where O counts
/// groups, phases and a group's channels.
Value TransposedConv::weightOf(ArrayRef<Phases> chosen) {
  Value weight = op.getWeight();
  tn::Dims own = tn::getDims(weight.getType());
  SmallVector<AffineExpr> starts(own.size(), constant(builder, 0));
  SmallVector<int64_t> steps(own.size(), 1);
  for (auto [i, axis, phases] : llvm::enumerate(axes, chosen)) {
    if (!axis.isWhole()) {
      own[2 + i] = constant(builder, axis.taps(phases.first));
      starts[2 + i] = constant(builder, phases.first);
      steps[2 + i] = axis.stride;
    }
  }
  weight = slice(builder, location, weight, own, starts, steps);
  // [groups, C / groups, O / groups, taps and phases of each axis]
  int64_t in = filter[0] / groups, out = filter[1];
  tn::Dims split = {constant(builder, groups), constant(builder, in), constant(builder, out)};
  SmallVector<int64_t> order = {0};
  tn::Dims joined = {constant(builder, in)};
  SmallVector<int64_t> tapDims;
  int64_t channels = groups * out;
  for (auto [axis, phases] : llvm::zip(axes, chosen)) {
    int64_t taps = axis.taps(phases.first);
    tapDims.push_back(split.size());
    order.push_back(split.size() + 1);
    split.append({constant(builder, taps), constant(builder, phases.count)});
    joined.push_back(constant(builder, taps));
    channels *= phases.count;
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
  return reshape(builder, location, transpose(builder, location, weight, order), joined);
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
Value TransposedConv::convolve(ArrayRef<Phases> chosen) {
  SmallVector<int64_t> ones(axes.size(), 1), dilations, begins, ends;
  tn::Dims out = {dims[0]}, split = {dims[0]}, joined = {dims[0]};
  SmallVector<int64_t> order = {0};
  int64_t phaseCount = 1, spatial = axes.size();
  for (auto [i, axis, phases] : llvm::enumerate(axes, chosen)) {
    dilations.push_back(axis.dilation);
    begins.push_back((axis.taps(phases.first) - 1) * axis.dilation - axis.first());
    ends.push_back(axis.padEnd());
    out.push_back(axis.steps());
    split.push_back(axis.steps());
    phaseCount *= phases.count;
  }
  split.push_back(constant(builder, groups));
  for (auto [i, axis, phases] : llvm::enumerate(axes, chosen)) {
    order.append({1 + static_cast<int64_t>(i), spatial + 2 + static_cast<int64_t>(i)});
    split.push_back(constant(builder, phases.count));
    joined.append({axis.steps(), constant(builder, phases.count)});
  }
  order.append({spatial + 1, 2 * spatial + 2});
  split.push_back(constant(builder, filter[1]));
  joined.push_back(constant(builder, groups * filter[1]));
  out.push_back(constant(builder, groups * phaseCount * filter[1]));
  begins.append(ends);
  Type element = op.getType().getElementType();
  Value y = tn::ConvOp::create(builder, location, tn::makeTensor(out, element), x, weightOf(chosen),
                               biasOf(phaseCount), ones, begins, dilations, groups,
                               /*channelsLast=*/true);
  y = reshape(builder, location, y, split);
  return reshape(builder, location, transpose(builder, location, y, order), joined);
}

Value TransposedConv::allPhases(size_t axis, SmallVector<Phases> &chosen) {
  if (axis == axes.size()) {
    return convolve(chosen);
  }
  int64_t count = axes[axis].stride;
  bool isWhole = axes[axis].isWhole();
  SmallVector<Value> parts;
  for (int64_t phase = 0; phase < (isWhole ? 1 : count); ++phase) {
    chosen.push_back({phase, isWhole ? count : 1});
    parts.push_back(allPhases(axis + 1, chosen));
    chosen.pop_back();
  }
  if (parts.size() == 1) {
    return parts.front();
  }
  size_t dim = 2 + 2 * axis;
  tn::Dims whole = tn::getDims(parts.front().getType());
  whole[dim] = constant(builder, count);
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
