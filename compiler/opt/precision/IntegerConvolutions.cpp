// Convolutions of quantized numbers with constant weights, channels last, as those of u8 by s8 (see
// IntegerProducts.cpp). At the borders the padding is the zero point: tn.pad puts it there, and
// only a zero point of zero is left to the convolution. Relies on the zero point being one number.
#include "compiler/opt/precision/IntegerOperands.h"

#include <algorithm>

using namespace mlir;

namespace tenon::opt {
namespace {

/// Input channels of one group are filled up to a multiple of this, which kernels multiply as one.
constexpr int64_t kWord = 4;
/// Of convolutions with several groups, output channels of one that vectors hold whole.
constexpr int64_t kMaxInVector = 16;

/// Input channels of a group once they are filled up: all of them or those of a group fill words,
/// or vectors hold whole groups, as of depthwise ones.
int64_t filledChannels(tn::ConvOp op, const Levels &w) {
  int64_t groups = static_cast<int64_t>(op.getGroups());
  int64_t inputs = w.type.getDimSize(1), outputs = w.columns() / groups;
  bool isInVectors =
      groups > 1 && inputs <= outputs && outputs <= kMaxInVector && llvm::isPowerOf2_64(outputs);
  return isInVectors ? inputs : llvm::alignTo(inputs, kWord);
}

/// The most that two s8 sum to, and the least.
constexpr int64_t kMaxOfTwo = 254, kMinOfTwo = -256;

/// Whether a GPU has a kernel for bytes: channels of a group fill copies of a word for tensor
/// cores, or it is depthwise with sums that f32 holds. Others are faster as products of floats.
bool hasKernelOnGpu(tn::ConvOp op, const Levels &w) {
  constexpr int64_t kMaxTaps = 128;
  int64_t inputs = w.type.getDimSize(1);
  if (op.getGroups() == 1) {
    return 2 * inputs >= kWord;
  }
  bool isDepthwise = inputs == 1 && w.depth() <= kMaxTaps;
  return !w.isShifted() && (inputs % kWord == 0 || isDepthwise);
}

class ConvPattern : public OpRewritePattern<tn::ConvOp> {
public:
  ConvPattern(MLIRContext *context, tn::WeightStore &weights, const PriceProduct &price, bool isGpu)
      : OpRewritePattern(context), operands(weights), price(price), isGpu(isGpu) {}

  LogicalResult matchAndRewrite(tn::ConvOp op, PatternRewriter &rewriter) const override {
    Type element = op.getType().getElementType();
    bool isFloat = element.isF32();
    if ((!isFloat && !element.isInteger(32)) || !op.getChannelsLast() ||
        isByte(getElementTypeOrSelf(op.getX())) || isKeptWide(op)) {
      return failure();
    }
    std::optional<Quantized> x =
        isFloat ? IntegerOperands::dequantized(op.getX()) : IntegerOperands::centered(op.getX());
    if (!x || (x->scale && tensorType(x->scale).getRank() != 0) ||
        (x->zero && !llvm::all_of(tn::getDims(x->zero.getType()), isOne))) {
      return failure();
    }
    std::optional<Levels> w = operands.levelsOf(op.getWeight(), /*columnDim=*/0, isFloat);
    if (!w || !w->fits() || (isFloat && !w->sumsFit()) || !hasKernel(op, *w)) {
      return failure();
    }
    PricedProduct priced(isFloat ? price : nullptr, op, filled(op, *w));
    if (priced.isWide()) {
      priced.keep(rewriter, op);
    } else {
      rewriter.replaceOp(op, convolution(op, *x, *w, priced, rewriter));
    }
    return success();
  }

private:
  bool hasKernel(tn::ConvOp op, const Levels &w) const {
    return isGpu ? hasKernelOnGpu(op, w) : op.getGroups() == 1 || isOfTwo(w);
  }
  int64_t filled(tn::ConvOp op, const Levels &w) const {
    return isGpu && op.getGroups() != 1 ? w.type.getDimSize(1) : filledChannels(op, w);
  }
  static bool isOfTwo(const Levels &w) {
    return llvm::all_of(w.values,
                        [](int64_t value) { return value >= kMinOfTwo && value <= kMaxOfTwo; });
  }

  Value convolution(tn::ConvOp op, const Quantized &x, const Levels &w, const PricedProduct &priced,
                    PatternRewriter &rewriter) const {
    Location location = op.getLoc();
    Value zero = x.zero ? reshape(rewriter, location, x.zero, {}) : Value();
    // Signed numbers of a symmetric scale need no padding of their own.
    bool isSigned = isGpu && isSignedByte(getElementTypeOrSelf(x.numbers));
    zero =
        isSigned ? operands.wideZero(rewriter, x, zero) : operands.unsignedZero(rewriter, x, zero);
    int64_t channels = w.type.getDimSize(1), filled = this->filled(op, w);
    bool isZero = operands.constants.scalar(zero) == 0.0;
    bool isPadded = llvm::any_of(op.getPads(), [](int64_t pad) { return pad != 0; }) && !isZero;
    Value numbers = isSigned ? x.numbers : operands.asUnsigned(rewriter, x.numbers);
    if (isPadded || filled != channels) {
      numbers = padded(op, numbers, zero, isPadded, filled - channels, rewriter);
    }
    bool isInTwo = w.isShifted() && op.getGroups() != 1;
    Levels first = isInTwo ? firstOfTwo(w) : w;
    Value sums = sumsOf(op, numbers, isPadded, weightOf(op, first, filled, rewriter), rewriter);
    priced.note(sums.getDefiningOp());
    if (isInTwo) {
      Value rest = weightOf(op, secondOfTwo(w, first), filled, rewriter);
      Value more = sumsOf(op, numbers, isPadded, rest, rewriter);
      sums = tn::AddOp::create(rewriter, location, sums.getType(), sums, more);
    }
    if (!isZero) {
      Value columnSums =
          operands.ofColumns(rewriter, op.getWeight(), w.columnSums(), "column_sums");
      Value offset = multiplyParameters(rewriter, location, zero, columnSums);
      sums = tn::SubOp::create(rewriter, location, sums.getType(), sums, offset);
    }
    if (w.isShifted() && !isInTwo) {
      Value shift = operands.ofColumns(rewriter, op.getWeight(), w.shifts, "shifts");
      Value windows = sumsOf(op, numbers, isPadded, ones(op, w, filled, rewriter), rewriter);
      Value more = multiplyParameters(rewriter, location, windows, shift);
      sums = tn::AddOp::create(rewriter, location, sums.getType(), sums, more);
    }
    Value result = x.scale ? operands.scaled(rewriter, sums, x.scale, w.scale) : sums;
    return op.getBias() ? tn::AddOp::create(rewriter, location, op.getType(), result, op.getBias())
                        : result;
  }

  /// Of weights beyond s8, what of each is s8, and the rest.
  static Levels firstOfTwo(const Levels &w) {
    Levels first = w;
    first.shifts.assign(w.columns(), 0);
    for (int16_t &value : first.values) {
      value = std::clamp<int16_t>(value, -kUnsignedShift, kUnsignedShift - 1);
    }
    return first;
  }
  static Levels secondOfTwo(const Levels &w, const Levels &first) {
    Levels second = first;
    for (auto [rest, value] : llvm::zip_equal(second.values, w.values)) {
      rest = static_cast<int16_t>(value - rest);
    }
    return second;
  }

  /// Zero points around the numbers, and behind the channels of each group of each position, where
  /// weights are 0.
  static Value padded(tn::ConvOp op, Value numbers, Value zero, bool isPadded, int64_t channels,
                      PatternRewriter &rewriter) {
    Location location = op.getLoc();
    tn::Dims dims = tn::getDims(numbers.getType());
    size_t spatial = dims.size() - 2;
    int64_t groups = static_cast<int64_t>(op.getGroups());
    bool isSplit = channels > 0 && groups > 1;
    if (isSplit) {
      AffineExpr ofGroup = dims.back().floorDiv(groups);
      dims.back() = rewriter.getAffineConstantExpr(groups);
      dims.push_back(ofGroup);
      numbers = reshape(rewriter, location, numbers, dims);
    }
    SmallVector<int64_t> begins(dims.size(), 0), ends(dims.size(), 0);
    for (size_t i = 0; isPadded && i < spatial; ++i) {
      begins[1 + i] = op.getPads()[i];
      ends[1 + i] = op.getPads()[spatial + i];
    }
    ends.back() = channels;
    numbers = pad(rewriter, location, numbers, begins, ends,
                  castTo(rewriter, location, zero, getElementTypeOrSelf(numbers)));
    if (isSplit) {
      dims = tn::getDims(numbers.getType());
      AffineExpr ofGroup = dims.pop_back_val();
      dims.back() = ofGroup * groups;
      numbers = reshape(rewriter, location, numbers, dims);
    }
    return numbers;
  }

  /// The convolution itself; its padding is left where the zero point is none.
  static Value sumsOf(tn::ConvOp op, Value numbers, bool isPadded, Value weight,
                      PatternRewriter &rewriter) {
    tn::Dims dims = tn::getDims(op.getType());
    dims.back() = tn::getDims(weight.getType()).front();
    SmallVector<int64_t> pads(op.getPads());
    if (isPadded) {
      pads.assign(pads.size(), 0);
    }
    return tn::ConvOp::create(rewriter, op.getLoc(), tn::makeTensor(dims, rewriter.getI32Type()),
                              numbers, weight, Value(), op.getStrides(), pads, op.getDilations(),
                              op.getGroups(), /*channelsLast=*/true);
  }

  RankedTensorType filledType(const Levels &w, int64_t outputs, int64_t filled,
                              PatternRewriter &rewriter) const {
    SmallVector<int64_t> shape(w.type.getShape());
    shape[0] = outputs;
    shape[1] = filled;
    return RankedTensorType::get(shape, rewriter.getI8Type());
  }

  /// The weights as s8, with zeros for channels that are filled up.
  Value weightOf(tn::ConvOp op, const Levels &w, int64_t filled, PatternRewriter &rewriter) const {
    RankedTensorType type = filledType(w, w.columns(), filled, rewriter);
    std::vector<int8_t> bytes(type.getNumElements(), 0);
    int64_t depth = w.depth(), filledDepth = type.getNumElements() / w.columns();
    for (auto [i, level] : llvm::enumerate(w.values)) {
      int64_t column = w.columnOf(i);
      bytes[column * filledDepth + int64_t(i) % depth] =
          static_cast<int8_t>(level - w.shifts[column]);
    }
    return operands.integers<int8_t>(rewriter, op.getWeight(), type, bytes, "s8");
  }

  /// One output channel that sums what lies in a window, without the channels that are filled up.
  Value ones(tn::ConvOp op, const Levels &w, int64_t filled, PatternRewriter &rewriter) const {
    RankedTensorType type = filledType(w, 1, filled, rewriter);
    std::vector<int8_t> bytes(type.getNumElements(), 0);
    std::fill_n(bytes.begin(), w.depth(), 1);
    return operands.integers<int8_t>(rewriter, op.getWeight(), type, bytes, "ones");
  }

  IntegerOperands operands;
  const PriceProduct &price;
  bool isGpu;
};

} // namespace

bool isIntegerConvOnGpu(tn::ConvOp op, const IntegerOperands &operands) {
  std::optional<Levels> w = operands.levelsOf(op.getWeight(), /*columnDim=*/0, /*isFloat=*/true);
  return op.getChannelsLast() && w && w->fits() && w->sumsFit() && hasKernelOnGpu(op, *w);
}

void addIntegerConvolutionPatterns(RewritePatternSet &patterns, tn::WeightStore &weights,
                                   const PriceProduct &price, bool isGpu) {
  patterns.add<ConvPattern>(patterns.getContext(), weights, price, isGpu);
}

} // namespace tenon::opt
