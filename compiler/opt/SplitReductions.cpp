// Reductions as two, whose first step runs better. Of long rows to a few numbers: parts of the
// rows, which threads share and which take the elementwise operations before them. Of few columns:
// rows side by side, which fill vectors. Relies on the order of sums being free.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// Results that already are enough for threads, and elements of one that are worth a second pass.
constexpr int64_t kEnoughResults = 8, kLeastElements = int64_t(1) << 16;
/// Elements of a part, some of which fit a second-level cache, and parts that threads can share.
constexpr int64_t kMostOfPart = int64_t(1) << 15, kLeastOfPart = int64_t(1) << 11;
constexpr int64_t kLeastParts = 16, kMostParts = int64_t(1) << 13;

/// How many equal parts so many elements are cut into; none if no number divides them.
std::optional<int64_t> partsOf(int64_t elements) {
  int64_t most = std::min(kMostParts, elements / kLeastOfPart);
  for (int64_t parts = std::max(kLeastParts, elements / kMostOfPart); parts <= most; ++parts) {
    if (elements % parts == 0) {
      return parts;
    }
  }
  return std::nullopt;
}

/// Sums of 16 bits would be rounded between the two steps.
bool keepsNumbers(tn::ReduceOp op) {
  bool isOrder = op.getKind() == tn::ReduceKind::max || op.getKind() == tn::ReduceKind::min;
  Type element = getElementTypeOrSelf(op.getX());
  return isOrder || element.isF32() || element.isF64();
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
Value reshapeChain(PatternRewriter &rewriter, Value value, ArrayRef<AffineExpr> dims) {
  Operation *op = value.getDefiningOp();
  if (!isChain(op)) {
    return reshape(rewriter, value.getLoc(), value, dims);
  }
  llvm::SmallDenseMap<Value, Value> reshaped;
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    Value &own = reshaped[operand];
    if (!own) {
      own = isScalar(operand) ? reshape(rewriter, op->getLoc(), operand, {})
                              : reshapeChain(rewriter, operand, dims);
    }
    operands.push_back(own);
  }
  Type type = tn::makeTensor(dims, getElementTypeOrSelf(value));
  return rebuild(rewriter, op, operands, type)->getResult(0);
}

struct SplitReduction : OpRewritePattern<tn::ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ReduceOp op, PatternRewriter &rewriter) const override {
    std::optional<SmallVector<int64_t>> shape = staticShape(op.getX());
    ArrayRef<int64_t> axes = op.getAxes();
    if (!shape || axes.empty() || !keepsNumbers(op) ||
        axes.front() + axes.size() != shape->size()) {
      return failure();
    }
    int64_t results = 1, elements = 1;
    for (auto [i, size] : llvm::enumerate(*shape)) {
      (static_cast<int64_t>(i) < axes.front() ? results : elements) *= size;
    }
    std::optional<int64_t> parts =
        elements < kLeastElements || results >= kEnoughResults ? std::nullopt : partsOf(elements);
    if (!parts) {
      return failure();
    }
    tn::Dims dims;
    for (int64_t size : {results, *parts, elements / *parts}) {
      dims.push_back(rewriter.getAffineConstantExpr(size));
    }
    Value value = reshapeChain(rewriter, op.getX(), dims);
    for (int64_t axis : {2, 1}) {
      dims.pop_back();
      value = tn::ReduceOp::create(rewriter, op.getLoc(),
                                   tn::makeTensor(dims, getElementTypeOrSelf(value)), value,
                                   op.getKind(), ArrayRef<int64_t>{axis}, /*keepdims=*/false);
    }
    rewriter.replaceOp(op, reshape(rewriter, op.getLoc(), value, tn::getDims(op.getType())));
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
    size_t axis = axes.back();
    int64_t columns = 1;
    for (int64_t size : ArrayRef(*shape).drop_front(axis + 1)) {
      columns *= size;
    }
    int64_t rows = (*shape)[axis],
            joined = llvm::divideCeil(kSideBySide, std::max<int64_t>(columns, 1));
    while (joined > 1 && rows % joined != 0) {
      --joined;
    }
    if (columns < 2 || columns >= kEnoughColumns || joined < 2 ||
        rows * columns < kSideBySide * kSideBySide) {
      return failure();
    }
    auto dimsOf = [&](ArrayRef<int64_t> behind) {
      tn::Dims dims;
      for (int64_t size : ArrayRef(*shape).take_front(axis)) {
        dims.push_back(rewriter.getAffineConstantExpr(size));
      }
      for (int64_t size : behind) {
        dims.push_back(rewriter.getAffineConstantExpr(size));
      }
      return dims;
    };
    tn::Dims wide = dimsOf({rows / joined, joined * columns});
    Value value = reshapeChain(rewriter, op.getX(), wide);
    auto reduce = [&](ArrayRef<int64_t> over) {
      tn::Dims dims = tn::getDims(value.getType());
      for (int64_t each : over) {
        dims[each] = rewriter.getAffineConstantExpr(1);
      }
      value = tn::ReduceOp::create(rewriter, op.getLoc(),
                                   tn::makeTensor(dims, getElementTypeOrSelf(value)), value,
                                   op.getKind(), over, /*keepdims=*/true);
    };
    reduce(axes);
    tn::Dims apart = tn::getDims(value.getType());
    apart[axis] = rewriter.getAffineConstantExpr(joined);
    apart[axis + 1] = rewriter.getAffineConstantExpr(columns);
    value = reshape(rewriter, op.getLoc(), value, apart);
    reduce({static_cast<int64_t>(axis)});
    rewriter.replaceOp(op, reshape(rewriter, op.getLoc(), value, tn::getDims(op.getType())));
    return success();
  }
};

} // namespace

LogicalResult splitReductions(ModuleOp module, tn::WeightStore &) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<SplitReduction, JoinRows>(module.getContext());
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
