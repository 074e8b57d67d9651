// Reductions as two, whose first step runs better. Of long rows to a few numbers: parts of the
// rows, which threads share and which take the elementwise operations before them. Of few columns:
// rows side by side, which fill vectors. Histograms in parts for threads. Relies on the order of
// sums being free.
#include "compiler/graph/TnRare.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// Results that already are enough for threads, and elements of one that are worth a second pass.
constexpr int64_t kEnoughResults = 8, kMinElements = int64_t(1) << 16;
/// Elements of a part, some of which fit a second-level cache, and parts that threads can share.
constexpr int64_t kMaxOfPart = int64_t(1) << 15, kMinOfPart = int64_t(1) << 11;
constexpr int64_t kMinParts = 16, kMaxParts = int64_t(1) << 13;

/// How many equal parts so many elements are cut into; none if no number divides them.
std::optional<int64_t> partsOf(int64_t elements) {
  int64_t most = std::min(kMaxParts, elements / kMinOfPart);
  for (int64_t parts = std::max(kMinParts, elements / kMaxOfPart); parts <= most; ++parts) {
    if (elements % parts == 0) {
      return parts;
    }
  }
  return std::nullopt;
}

/// Sums of 16-bit floats would be rounded between the two steps, means of integers too; their sums
/// and products wrap, in any order.
bool keepsNumbers(tn::ReduceOp op) {
  bool isOrder = op.getKind() == tn::ReduceKind::max || op.getKind() == tn::ReduceKind::min;
  Type element = getElementTypeOrSelf(op.getX());
  bool wraps = isa<IntegerType>(element) && op.getKind() != tn::ReduceKind::mean;
  return isOrder || wraps || element.isF32() || element.isF64();
}

bool isScalar(Value value) { return llvm::all_of(tn::getDims(value.getType()), isOne); }

/// An elementwise operation that only one other reads, of values as large as its own and scalars.
bool isChain(Operation *op) {
  if (!op || !op->hasTrait<tn::TnElementwise>() || op->getNumResults() != 1 || op->use_empty() ||
      !llvm::all_equal(op->getUsers())) {
    return false;
  }
  tn::Dims dims = tn::getDims(op->getResult(0).getType());
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return isScalar(operand) || tn::sameDims(tn::getDims(operand.getType()), dims);
  });
}

/// The value with other dims, and so all elementwise operations before it that nothing else reads:
/// a reshape between them and the reduction would keep them apart.
Value reshapeChain(PatternRewriter &rewriter, Value value, ArrayRef<int64_t> sizes) {
  Operation *op = value.getDefiningOp();
  RankedTensorType type = RankedTensorType::get(sizes, getElementTypeOrSelf(value));
  if (!isChain(op)) {
    return reshape(rewriter, value.getLoc(), value, tn::getDims(type));
  }
  llvm::SmallDenseMap<Value, Value> reshaped;
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    Value &own = reshaped[operand];
    if (!own) {
      own = isScalar(operand) ? reshape(rewriter, op->getLoc(), operand, {})
                              : reshapeChain(rewriter, operand, sizes);
    }
    operands.push_back(own);
  }
  return rebuild(rewriter, op, operands, type)->getResult(0);
}

/// A step of a reduction, which keeps the dims.
Value reduceStep(PatternRewriter &rewriter, tn::ReduceOp op, Value x, ArrayRef<int64_t> axes) {
  tn::Dims dims = tn::getDims(x.getType());
  for (int64_t axis : axes) {
    dims[axis] = rewriter.getAffineConstantExpr(1);
  }
  return tn::ReduceOp::create(rewriter, op.getLoc(), tn::makeTensor(dims, getElementTypeOrSelf(x)),
                              x, op.getKind(), axes,
                              /*keepdims=*/true);
}

/// A reduction over the last dims gives few results: each from parts of its elements.
struct SplitRows : OpRewritePattern<tn::ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ReduceOp op, PatternRewriter &rewriter) const override {
    std::optional<SmallVector<int64_t>> shape = staticShape(op.getX());
    ArrayRef<int64_t> axes = op.getAxes();
    if (!shape || axes.empty() || !keepsNumbers(op) ||
        axes.front() + axes.size() != shape->size()) {
      return failure();
    }
    int64_t results = llvm::product_of(ArrayRef(*shape).take_front(axes.front()));
    int64_t elements = llvm::product_of(ArrayRef(*shape).drop_front(axes.front()));
    if (elements < kMinElements || results >= kEnoughResults) {
      return failure();
    }
    std::optional<int64_t> parts = partsOf(elements);
    if (!parts) {
      return failure();
    }
    Value value = reshapeChain(rewriter, op.getX(), {results, *parts, elements / *parts});
    value = reduceStep(rewriter, op, reduceStep(rewriter, op, value, {2}), {1});
    rewriter.replaceOp(op, reshape(rewriter, op.getLoc(), value, tn::getDims(op.getType())));
    return success();
  }
};

/// Rows of a histogram that threads share.
constexpr int64_t kHistogramRows = 8;

/// The value before operations that only give its elements another order or shape.
Value unordered(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tn::ReshapeOp, tn::TransposeOp>(op)) {
      break;
    }
    value = op->getOperand(0);
  }
  return value;
}

/// A histogram of all elements, in whatever order they lie, is the sum of those of its parts.
struct SplitHistogram : OpRewritePattern<tn::HistogramOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::HistogramOp op, PatternRewriter &rewriter) const override {
    Value x = unordered(op.getX());
    std::optional<SmallVector<int64_t>> shape = staticShape(x);
    if (!shape || tn::constantDim(tn::getDims(op.getX().getType())[0]) != 1) {
      return failure();
    }
    int64_t elements = llvm::product_of(*shape);
    int64_t rows = std::clamp<int64_t>(elements / kMinOfPart, 1, kHistogramRows);
    while (elements % rows != 0) {
      --rows;
    }
    if (rows == 1) {
      return failure();
    }
    RankedTensorType sum = cast<RankedTensorType>(op.getType());
    RankedTensorType each = RankedTensorType::get({rows, sum.getDimSize(1)}, sum.getElementType());
    RankedTensorType parts = RankedTensorType::get({rows, elements / rows}, rewriter.getF32Type());
    Value part = reshape(rewriter, op.getLoc(), x, tn::getDims(parts));
    Value counts = tn::HistogramOp::create(rewriter, op.getLoc(), each, part, op.getBits());
    rewriter.replaceOpWithNewOp<tn::ReduceOp>(op, sum, counts, tn::ReduceKind::sum,
                                              ArrayRef<int64_t>{0}, /*keepdims=*/true);
    return success();
  }
};

/// Elements of neighbouring rows that are added up side by side, and the columns that fill a vector
/// by themselves.
constexpr int64_t kSideBySide = 64, kEnoughColumns = 16;

/// reduce([.., n, k]) over n for few columns k: rows next to each other are longer rows, whose
/// columns belong to one another in turn.
struct JoinRows : OpRewritePattern<tn::ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ReduceOp op, PatternRewriter &rewriter) const override {
    std::optional<SmallVector<int64_t>> shape = staticShape(op.getX());
    ArrayRef<int64_t> axes = op.getAxes();
    if (!shape || axes.empty() || !keepsNumbers(op)) {
      return failure();
    }
    int64_t axis = axes.back(), rows = (*shape)[axis];
    int64_t columns = llvm::product_of(ArrayRef(*shape).drop_front(axis + 1));
    if (columns < 2 || columns >= kEnoughColumns || rows * columns < kSideBySide * kSideBySide) {
      return failure();
    }
    int64_t joined = llvm::divideCeil(kSideBySide, columns);
    while (rows % joined != 0) {
      --joined;
    }
    if (joined == 1) {
      return failure();
    }
    SmallVector<int64_t> wide(ArrayRef(*shape).take_front(axis));
    wide.append({rows / joined, joined * columns});
    Value value = reshapeChain(rewriter, op.getX(), wide);
    value = reduceStep(rewriter, op, value, axes);
    tn::Dims apart = tn::getDims(value.getType());
    apart[axis] = rewriter.getAffineConstantExpr(joined);
    apart[axis + 1] = rewriter.getAffineConstantExpr(columns);
    value = reduceStep(rewriter, op, reshape(rewriter, op.getLoc(), value, apart), {axis});
    rewriter.replaceOp(op, reshape(rewriter, op.getLoc(), value, tn::getDims(op.getType())));
    return success();
  }
};

} // namespace

LogicalResult splitReductions(ModuleOp module, tn::WeightStore &) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<SplitRows, SplitHistogram, JoinRows>(module.getContext());
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
