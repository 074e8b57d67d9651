// Gathers that read every element in order become reshapes, as patterns of `simplify`.
// Relies on indices counted by tn.iota: torch's exporters look a padding mask up by its own
// positions.
#include "compiler/opt/Match.h"
#include "compiler/opt/Patterns.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// Exporters write no longer chains between tn.iota and a gather.
constexpr unsigned kMaxIndexSteps = 16;

/// How a value grows by one step along each of its dims, as expressions over the symbols; 0 for
/// dims of one. At the first position it is 0.
using Steps = tn::Dims;

/// The steps under another shape that differs by dims of one only.
std::optional<Steps> reshapeSteps(const Steps &steps, ArrayRef<AffineExpr> from,
                                  ArrayRef<AffineExpr> to, MLIRContext *context) {
  Steps result;
  size_t i = 0;
  auto skipOnes = [&] {
    while (i < from.size() && isOne(from[i])) {
      ++i;
    }
  };
  for (AffineExpr dim : to) {
    skipOnes();
    if (isOne(dim)) {
      result.push_back(getAffineConstantExpr(0, context));
    } else if (i < from.size() && tn::sameDim(from[i], dim)) {
      result.push_back(steps[i++]);
    } else {
      return std::nullopt;
    }
  }
  skipOnes();
  return i == from.size() ? std::optional<Steps>(result) : std::nullopt;
}

/// The steps of a value in a shape that it is broadcast to.
Steps broadcastSteps(const Steps &steps, size_t rank, MLIRContext *context) {
  Steps result(rank - steps.size(), getAffineConstantExpr(0, context));
  llvm::append_range(result, steps);
  return result;
}

/// The one number of a value that is a size or a constant.
AffineExpr numberOf(Value value, const Constants &constants) {
  if (tn::SizesOp sizes = value.getDefiningOp<tn::SizesOp>()) {
    return sizes.getValues().getNumResults() == 1 ? sizes.getValues().getResult(0) : AffineExpr();
  }
  std::optional<double> scalar = constants.scalar(value);
  return scalar ? getAffineConstantExpr(static_cast<int64_t>(*scalar), value.getContext())
                : AffineExpr();
}

std::optional<Steps> stepsOf(Value value, const Constants &constants, unsigned depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == kMaxIndexSteps || !isa<IntegerType>(getElementTypeOrSelf(value))) {
    return std::nullopt;
  }
  MLIRContext *context = op->getContext();
  tn::Dims dims = tn::getDims(value.getType());
  auto stepsOfOperand = [&](unsigned i) {
    return stepsOf(op->getOperand(i), constants, depth + 1);
  };
  if (tn::IotaOp iota = dyn_cast<tn::IotaOp>(op)) {
    AffineExpr step = numberOf(iota.getStep(), constants);
    bool isFromZero = step && constants.scalar(iota.getStart()) == 0.0;
    return isFromZero ? std::optional<Steps>(Steps{step}) : std::nullopt;
  }
  if (isa<tn::CastOp>(op) && getElementTypeOrSelf(value).getIntOrFloatBitWidth() == 64) {
    return stepsOfOperand(0);
  }
  if (isa<tn::ReshapeOp>(op)) {
    std::optional<Steps> steps = stepsOfOperand(0);
    return steps ? reshapeSteps(*steps, tn::getDims(op->getOperand(0).getType()), dims, context)
                 : std::nullopt;
  }
  if (tn::BroadcastOp broadcast = dyn_cast<tn::BroadcastOp>(op)) {
    std::optional<Steps> steps = isDecided(broadcast) ? stepsOfOperand(0) : std::nullopt;
    return steps ? std::optional<Steps>(broadcastSteps(*steps, dims.size(), context))
                 : std::nullopt;
  }
  if (isa<tn::AddOp>(op)) {
    std::optional<Steps> a = stepsOfOperand(0);
    std::optional<Steps> b = stepsOfOperand(1);
    if (!a || !b) {
      return std::nullopt;
    }
    Steps sum = broadcastSteps(*a, dims.size(), context);
    for (auto [left, right] : llvm::zip_equal(sum, broadcastSteps(*b, dims.size(), context))) {
      left = left + right;
    }
    return sum;
  }
  if (isa<tn::MulOp>(op)) {
    for (unsigned i : {0u, 1u}) {
      AffineExpr factor = numberOf(op->getOperand(1 - i), constants);
      std::optional<Steps> steps = factor ? stepsOfOperand(i) : std::nullopt;
      if (steps) {
        Steps scaled = broadcastSteps(*steps, dims.size(), context);
        for (AffineExpr &step : scaled) {
          step = step * factor;
        }
        return scaled;
      }
    }
  }
  return std::nullopt;
}

/// The value counts the positions of these dims in row-major order.
bool countsRowMajor(const Steps &steps, ArrayRef<AffineExpr> dims) {
  AffineExpr stride = getAffineConstantExpr(1, dims.front().getContext());
  for (size_t i = dims.size(); i-- > 0;) {
    if (!isOne(dims[i]) && !tn::sameDim(steps[i], stride)) {
      return false;
    }
    stride = stride * dims[i];
  }
  return true;
}

/// The first `indexed` dims of x are read as the positions of `dims` are counted: nothing moves.
bool readsInOrder(const Steps &steps, ArrayRef<AffineExpr> dims, Value x, unsigned indexed) {
  tn::Dims xDims = tn::getDims(x.getType());
  MLIRContext *context = x.getContext();
  return !dims.empty() && !llvm::is_contained(dims, AffineExpr()) &&
         !llvm::is_contained(xDims, AffineExpr()) && countsRowMajor(steps, dims) &&
         tn::sameDim(tn::elementCount(context, dims),
                     tn::elementCount(context, ArrayRef(xDims).take_front(indexed)));
}

/// gather(x, 0...n-1) -> reshape(x)
struct GatherInOrder : Pattern<tn::GatherOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::GatherOp op, PatternRewriter &rewriter) const override {
    std::optional<Steps> steps =
        op.getAxis() == 0 ? stepsOf(op.getIndices(), constants) : std::nullopt;
    if (!steps || !readsInOrder(*steps, tn::getDims(op.getIndices().getType()), op.getX(), 1)) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, op.getType(), op.getX());
    return success();
  }
};

/// gather_nd(x, concat(i, j)) -> reshape(x), where i and j are the positions of x themselves
struct GatherNdInOrder : Pattern<tn::GatherNdOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::GatherNdOp op, PatternRewriter &rewriter) const override {
    tn::ConcatOp parts = op.getIndices().getDefiningOp<tn::ConcatOp>();
    tn::Dims dims = tn::getDims(op.getIndices().getType());
    tn::Dims xDims = tn::getDims(op.getX().getType());
    size_t indexed = parts ? parts.getXs().size() : 0;
    if (op.getBatchDims() != 0 || indexed == 0 || indexed > xDims.size() ||
        parts.getAxis() != static_cast<uint64_t>(dims.size() - 1)) {
      return failure();
    }
    dims.pop_back();
    // The position in x, counted over its indexed dims.
    Steps sum(dims.size(), rewriter.getAffineConstantExpr(0));
    for (auto [i, part] : llvm::enumerate(parts.getXs())) {
      std::optional<Steps> steps = stepsOf(part, constants);
      if (!steps || !isOne(tn::getDims(part.getType()).back())) {
        return failure();
      }
      AffineExpr stride =
          tn::elementCount(rewriter.getContext(), ArrayRef(xDims).slice(i + 1, indexed - i - 1));
      for (auto [total, step] : llvm::zip(sum, *steps)) {
        total = total + step * stride;
      }
    }
    if (!readsInOrder(sum, dims, op.getX(), indexed)) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, op.getType(), op.getX());
    return success();
  }
};

} // namespace

void addIndexingPatterns(RewritePatternSet &patterns, tn::WeightStore &weights) {
  patterns.add<GatherInOrder, GatherNdInOrder>(patterns.getContext(), weights);
}

} // namespace tenon::opt
