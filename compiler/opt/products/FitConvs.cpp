// Convolutions in the form that the library takes: two spatial dims, the same padding at both ends,
// narrow channels that the matrix units can load, and few outputs that they can store. What follows
// a widened one is as wide. Over three dims, which are our own kernel's, channels that lie on
// borders of words. Casts of pictures move behind the transposes and reshapes that follow them, so
// that all of this is one kernel. Relies on zeros adding nothing.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/simplify/DerivedWeights.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// Channels that lie in 16 bytes, and of pictures of which two pixels do.
constexpr int64_t kNarrowChannels = 8, kPictureChannels = 4;

/// Terms of an output from which on it is worth a kernel for what is cut off behind: 2,880 of 4
/// outputs at 2 x 64 x 64 places take 34 us on an H200, of 8 outputs 12.
constexpr int64_t kManyTerms = 1024;

/// f(cast(input)) -> cast(f(input)) for a movement that alone reads the cast
template <typename Op> struct SinkCast : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    tn::CastOp cast = op.getX().template getDefiningOp<tn::CastOp>();
    if (!cast || !cast->hasOneUse() || !isa<BlockArgument>(cast.getX())) {
      return failure();
    }
    Type element = tensorType(cast.getX()).getElementType();
    Operation *moved = rebuild(rewriter, op, cast.getX(), tn::withElement(op.getType(), element));
    rewriter.replaceOpWithNewOp<tn::CastOp>(op, op.getType(), moved->getResult(0));
    return success();
  }
};

bool isLibraryType(tn::ConvOp op) {
  Type element = op.getType().getElementType();
  return op.getChannelsLast() && (element.isF16() || element.isBF16() || element.isF32()) &&
         Constants::isConstant(op.getWeight());
}

/// A depthwise convolution has generated code, which takes it as it is.
bool isDepthwise(tn::ConvOp op) {
  return op.getGroups() > 1 && tensorType(op.getWeight()).getDimSize(1) == 1;
}

/// conv over one dim -> conv over two, of which the first is one
struct WidenConv : OpRewritePattern<tn::ConvOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ConvOp op, PatternRewriter &rewriter) const override {
    if (!isLibraryType(op) || op.getType().getRank() != 3 || isDepthwise(op)) {
      return failure();
    }
    AffineExpr one = rewriter.getAffineConstantExpr(1);
    auto widened = [&](Value value, size_t position) {
      tn::Dims dims = tn::getDims(value.getType());
      dims.insert(dims.begin() + position, one);
      return dims;
    };
    Value x = reshape(rewriter, op.getLoc(), op.getX(), widened(op.getX(), 1));
    // A reshape of a weight would be computed at run time; the same bytes are not.
    RankedTensorType filter =
        tn::makeTensor(widened(op.getWeight(), 2), tensorType(op.getWeight()).getElementType());
    Value weight = withShape(rewriter, op.getWeight(), filter);
    if (!weight) {
      return failure();
    }
    SmallVector<Value> operands(op->getOperands());
    operands[0] = x;
    operands[1] = weight;
    tn::ConvOp wide = cast<tn::ConvOp>(
        rebuild(rewriter, op, operands,
                tn::makeTensor(widened(op.getResult(), 1), op.getType().getElementType())));
    wide.setStrides({1, op.getStrides()[0]});
    wide.setDilations({1, op.getDilations()[0]});
    wide.setPads({0, op.getPads()[0], 0, op.getPads()[1]});
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, op.getType(), wide);
    return success();
  }
};

/// With a dim of one behind the first.
tn::Dims widenedDims(Value value) {
  tn::Dims dims = tn::getDims(value.getType());
  dims.insert(dims.begin() + 1, getAffineConstantExpr(1, value.getContext()));
  return dims;
}

/// A convolution, or what is computed element by element of one, for one reader.
bool isOfConv(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !op->hasOneUse()) {
    return false;
  }
  tn::Dims dims = tn::getDims(value.getType());
  return isa<tn::ConvOp>(op) ||
         (op->hasTrait<tn::TnElementwise>() && llvm::any_of(op->getOperands(), [&](Value operand) {
            return tn::sameDims(tn::getDims(operand.getType()), dims) && isOfConv(operand);
          }));
}

/// Whether operations on whole rows read what comes of `op` element by element: these run with it.
bool isReadByRows(Operation *op) {
  auto isOnRows = [](Operation *user) { return user->hasTrait<tn::TnRowWise>(); };
  while (!llvm::any_of(op->getUsers(), isOnRows)) {
    if (!op->hasOneUse() || !(*op->user_begin())->hasTrait<tn::TnElementwise>()) {
      return false;
    }
    op = *op->user_begin();
  }
  return true;
}

/// f(reshape(conv)) -> reshape(f(conv)) behind a widened convolution, so that they run together
struct SinkNarrowing : RewritePattern {
  explicit SinkNarrowing(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  static bool isNarrowing(Value operand, Operation *op) {
    tn::ReshapeOp narrow = operand.getDefiningOp<tn::ReshapeOp>();
    return narrow && narrow->hasOneUse() && isOfConv(narrow.getX()) &&
           narrow.getType().getRank() == 3 &&
           tn::sameDims(tn::getDims(narrow.getX().getType()), widenedDims(narrow)) &&
           tn::sameDims(tn::getDims(narrow.getType()), tn::getDims(op->getResult(0).getType()));
  }

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!op->hasTrait<tn::TnElementwise>() || op->getNumResults() != 1 || isReadByRows(op) ||
        !llvm::any_of(op->getOperands(), [&](Value operand) { return isNarrowing(operand, op); })) {
      return failure();
    }
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      // Fewer dims are the last ones, which stay.
      bool isWhole = tensorType(operand).getRank() == 3;
      Value wide = operand;
      if (isWhole && Constants::isConstant(operand)) {
        wide =
            withShape(rewriter, operand,
                      tn::makeTensor(widenedDims(operand), tensorType(operand).getElementType()));
      } else if (isWhole) {
        wide = isNarrowing(operand, op)
                   ? operand.getDefiningOp<tn::ReshapeOp>().getX()
                   : reshape(rewriter, op->getLoc(), operand, widenedDims(operand));
      }
      if (!wide) {
        return failure();
      }
      operands.push_back(wide);
    }
    RankedTensorType type = tensorType(op->getResult(0));
    Operation *moved =
        rebuild(rewriter, op, operands,
                tn::makeTensor(widenedDims(op->getResult(0)), type.getElementType()));
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, type, moved->getResult(0));
    return success();
  }
};

/// conv with different paddings at both ends -> conv(pad(x)) with the smaller of them
struct EvenPads : OpRewritePattern<tn::ConvOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ConvOp op, PatternRewriter &rewriter) const override {
    size_t spatial = op.getPads().size() / 2;
    ArrayRef<int64_t> before = op.getPads().take_front(spatial);
    ArrayRef<int64_t> after = op.getPads().take_back(spatial);
    if (!isLibraryType(op) || spatial != 2 || isDepthwise(op) || before == after) {
      return failure();
    }
    SmallVector<int64_t> pads, begins{0}, ends{0};
    for (auto [first, last] : llvm::zip_equal(before, after)) {
      int64_t both = std::max<int64_t>(std::min(first, last), 0);
      pads.push_back(both);
      begins.push_back(first - both);
      ends.push_back(last - both);
    }
    begins.push_back(0);
    ends.push_back(0);
    pads.append(pads.begin(), pads.begin() + spatial);
    Value x = pad(rewriter, op.getLoc(), op.getX(), begins, ends);
    rewriter.modifyOpInPlace(op, [&] {
      op.getXMutable().set(x);
      op.setPads(pads);
    });
    return success();
  }
};

int64_t channelsOf(tn::ConvOp op) { return tensorType(op.getWeight()).getDimSize(1); }

/// Channels that copies can take: over two dims the library's, or our own kernel's of pictures.
/// Over three a single one is left alone, since the filter is longer by what is added.
int64_t channelsForGpu(tn::ConvOp op) {
  int64_t channels = channelsOf(op), rank = op.getType().getRank();
  if (!isLibraryType(op) || rank < 4 || op.getType().getElementType().isF32()) {
    return channels;
  }
  if (rank == 4) {
    // Our own kernel multiplies two pixels at once where every second one begins a window.
    bool isPicture = channels <= kPictureChannels && op.getGroups() == 1 &&
                     op.getStrides()[1] == 2 && op.getDilations()[1] == 1 &&
                     tensorType(op.getWeight()).getDimSize(0) % kNarrowChannels == 0;
    return llvm::alignTo(channels, isPicture ? kPictureChannels : kNarrowChannels);
  }
  return channels == 1 ? 1 : llvm::alignTo(channels, channels % 4 == 3 ? 4 : 2);
}

/// Channels that fill the words of two that kernels of bf16 multiply.
int64_t channelsForCpu(tn::ConvOp op) {
  bool isTaken = isLibraryType(op) && op.getType().getElementType().isBF16();
  return isTaken ? llvm::alignTo(channelsOf(op), 2) : channelsOf(op);
}

/// Where channels are added if a transpose brings them to the end: ahead of it, where they are
/// planes that are copied whole, or behind it, where all of this is one kernel.
enum class Where { AheadOfTranspose, BehindTranspose };

/// conv(x, w) -> conv(pad(x), pad(w)) with channels that are aligned
struct PadConv : OpRewritePattern<tn::ConvOp> {
  PadConv(MLIRContext *context, DerivedWeights &weights, int64_t (*alignedChannels)(tn::ConvOp),
          Where where)
      : OpRewritePattern(context), weights(weights), alignedChannels(alignedChannels),
        where(where) {}

  LogicalResult matchAndRewrite(tn::ConvOp op, PatternRewriter &rewriter) const override {
    int64_t aligned = alignedChannels(op);
    if (op.getGroups() != 1 || aligned == channelsOf(op)) {
      return failure();
    }
    Value x = withChannels(rewriter, op.getLoc(), op.getX(), aligned - channelsOf(op));
    Value filter = weights.pad(rewriter, op.getLoc(), op.getWeight(), 1, aligned);
    rewriter.modifyOpInPlace(op, [&] {
      op.getXMutable().set(x);
      op.getWeightMutable().set(filter);
    });
    return success();
  }

private:
  /// With `more` channels behind the last dim's.
  Value withChannels(PatternRewriter &rewriter, Location location, Value x, int64_t more) const {
    tn::TransposeOp moved = x.getDefiningOp<tn::TransposeOp>();
    bool isAhead = where == Where::AheadOfTranspose && moved && moved->hasOneUse();
    int64_t rank = tensorType(x).getRank(), channels = rank - 1;
    SmallVector<int64_t> begins(rank, 0), ends(rank, 0);
    ends[isAhead ? moved.getPermutation()[channels] : channels] = more;
    Value padded = pad(rewriter, location, isAhead ? moved.getX() : x, begins, ends);
    return isAhead ? transpose(rewriter, location, padded, moved.getPermutation()) : padded;
  }

  DerivedWeights &weights;
  int64_t (*alignedChannels)(tn::ConvOp);
  Where where;
};

/// conv(x, w) -> the first channels of conv(x, pad(w)), where few outputs that do not fill 16 bytes
/// are sums over many: the library's kernels for such borders go through them one by one.
struct PadOutputs : OpRewritePattern<tn::ConvOp> {
  PadOutputs(MLIRContext *context, DerivedWeights &weights)
      : OpRewritePattern(context), weights(weights) {}

  LogicalResult matchAndRewrite(tn::ConvOp op, PatternRewriter &rewriter) const override {
    RankedTensorType filter = tensorType(op.getWeight());
    int64_t outputs = filter.getDimSize(0), aligned = llvm::alignTo(outputs, kNarrowChannels);
    Type element = op.getType().getElementType();
    if (!isLibraryType(op) || element.isF32() || op.getType().getRank() != 4 ||
        op.getGroups() != 1 || outputs == aligned ||
        filter.getNumElements() / outputs < kManyTerms ||
        (op.getBias() && !Constants::isConstant(op.getBias()))) {
      return failure();
    }
    SmallVector<Value> operands(op->getOperands());
    for (Value &operand : MutableArrayRef(operands).drop_front()) {
      operand = weights.pad(rewriter, op.getLoc(), operand, 0, aligned);
    }
    tn::Dims dims = tn::getDims(op.getType());
    dims.back() = rewriter.getAffineConstantExpr(aligned);
    Value wide = rebuild(rewriter, op, operands, tn::makeTensor(dims, element))->getResult(0);
    SmallVector<AffineExpr> starts(dims.size(), rewriter.getAffineConstantExpr(0));
    size_t symbols = 0;
    rewriter.replaceOpWithNewOp<tn::SliceOp>(op, op.getType(), wide,
                                             AffineMap::get(0, symbols, starts, op.getContext()),
                                             SmallVector<int64_t>(dims.size(), 1));
    return success();
  }

private:
  DerivedWeights &weights;
};

} // namespace

LogicalResult padChannelsToVnni(ModuleOp module, tn::WeightStore &store) {
  DerivedWeights weights(store);
  RewritePatternSet patterns(module.getContext());
  patterns.add<PadConv>(module.getContext(), weights, channelsForCpu, Where::AheadOfTranspose);
  return runPatterns(module, std::move(patterns));
}

LogicalResult fitConvs(ModuleOp module, tn::WeightStore &store) {
  DerivedWeights weights(store);
  RewritePatternSet patterns(module.getContext());
  patterns
      .add<SinkCast<tn::TransposeOp>, SinkCast<tn::ReshapeOp>, WidenConv, SinkNarrowing, EvenPads>(
          module.getContext());
  patterns.add<PadConv>(module.getContext(), weights, channelsForGpu, Where::BehindTranspose);
  patterns.add<PadOutputs>(module.getContext(), weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
