// Operands of products of 16-bit floats get rows on borders of 16 bytes, from which tensor cores
// are fed: a depth that is no multiple of 8 is padded, an operand whose rows are other columns than
// the depth is transposed. Relies on zeros adding nothing, and on codegen laying out constants.
#include "compiler/graph/NarrowIntegers.h"
#include "compiler/opt/GpuProducts.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/simplify/DerivedWeights.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace tenon::opt {
namespace {

/// Elements in 16 bytes.
constexpr int64_t kAligned = 8;
/// Results by one element of an operand from which on it is worth another pass over that.
constexpr int64_t kMinUses = 64;
/// Operations and bytes of operands of which odd borders cost more than the 4 us of two passes:
/// derived from the 7.5 and 2.8 times that a library takes with them on an H200.
constexpr int64_t kMinFlops = int64_t(500) << 20, kMinBytes = int64_t(7) << 20;
/// What stands for a size that varies.
constexpr int64_t kGuess = 64;
/// A depth below which what is padded would be most of it.
constexpr int64_t kMinDepth = 16;

bool isMisaligned(AffineExpr dim) {
  std::optional<int64_t> size = tn::constantDim(dim);
  return size && *size % kAligned != 0;
}

/// One operand: what it is stored as, and what becomes of that.
struct FittedOperand {
  Value value;
  bool depthIsInner = false, isConstant = false;
  bool isTransposed = false; ///< on its way to the product

  tn::Dims dims() const { return tn::getDims(value.getType()); }
  AffineExpr inner() const { return dims().back(); }
  AffineExpr outer() const { return dims()[dims().size() - 2]; }
  AffineExpr depth() const { return depthIsInner ? inner() : outer(); }
};

struct FitProduct : OpRewritePattern<tn::MatmulOp> {
  FitProduct(MLIRContext *context, DerivedWeights &weights)
      : OpRewritePattern(context), weights(weights) {}

  LogicalResult matchAndRewrite(tn::MatmulOp op, PatternRewriter &rewriter) const override {
    FittedOperand a = operandOf(op, 0), b = operandOf(op, 1);
    Type element = getElementTypeOrSelf(a.value);
    std::optional<int64_t> depth = tn::constantDim(a.depth());
    if (!(element.isF16() || element.isBF16()) || getElementTypeOrSelf(b.value) != element ||
        !depth || *depth < kMinDepth || tn::constantDim(b.depth()) != depth) {
      return failure();
    }
    for (FittedOperand *operand : {&a, &b}) {
      // Constants are laid out for the kernel that is chosen.
      operand->isTransposed =
          !operand->depthIsInner && !operand->isConstant && isMisaligned(operand->inner());
    }
    bool readsRows = a.depthIsInner || a.isTransposed || b.depthIsInner || b.isTransposed ||
                     isMisaligned(b.inner());
    bool isPadded = *depth % kAligned != 0 && readsRows;
    if ((!isPadded && !a.isTransposed && !b.isTransposed) || !isWorth(op, a, b, isPadded)) {
      return failure();
    }
    rewriter.setInsertionPoint(op);
    replace(op, rewriter, {a, b}, isPadded ? llvm::alignTo(*depth, kAligned) : *depth);
    return success();
  }

private:
  static FittedOperand operandOf(tn::MatmulOp op, unsigned number) {
    FittedOperand operand;
    operand.value = tn::narrowOperand(op, op->getOperand(number));
    operand.depthIsInner = number == 0 ? !op.getTransposeA() : op.getTransposeB();
    operand.isConstant = Constants::isConstant(operand.value);
    return operand;
  }

  static int64_t countOf(ArrayRef<AffineExpr> dims) {
    int64_t count = 1;
    for (AffineExpr dim : dims) {
      count = llvm::MulOverflow(count, tn::constantDim(dim).value_or(kGuess), count)
                  ? std::numeric_limits<int32_t>::max()
                  : count;
    }
    return count;
  }

  /// Whether the product is so large, and each element that is moved at run time is used so often,
  /// that this is worth the passes.
  static bool isWorth(tn::MatmulOp op, const FittedOperand &a, const FittedOperand &b,
                      bool isPadded) {
    tn::Dims result = tn::getDims(op.getType());
    int64_t columns = countOf(result.back()), count = countOf(result);
    int64_t rows = b.dims().size() == 2 ? count / std::max<int64_t>(columns, 1)
                                        : countOf(result[result.size() - 2]);
    bool isLarge = count >= kMinFlops / (2 * countOf(a.depth())) ||
                   countOf(a.dims()) + countOf(b.dims()) >= kMinBytes / 2;
    bool movesA = !a.isConstant && (isPadded || a.isTransposed),
         movesB = !b.isConstant && (isPadded || b.isTransposed);
    return isLarge && (!movesA || columns >= kMinUses) && (!movesB || rows >= kMinUses);
  }

  void replace(tn::MatmulOp op, PatternRewriter &rewriter, std::array<FittedOperand, 2> operands,
               int64_t depth) const {
    rewriter.modifyOpInPlace(op, [&] {
      for (auto [number, operand] : llvm::enumerate(operands)) {
        Value fitted = fit(op, rewriter, operand, depth);
        if (tn::isNarrowProduct(op)) {
          fitted = castTo(rewriter, op.getLoc(), fitted, op.getType().getElementType());
        }
        op->setOperand(static_cast<unsigned>(number), fitted);
      }
      op.setTransposeA(op.getTransposeA() && !operands[0].isTransposed);
      op.setTransposeB(op.getTransposeB() || operands[1].isTransposed);
    });
  }

  Value fit(tn::MatmulOp op, PatternRewriter &rewriter, const FittedOperand &operand,
            int64_t depth) const {
    Value value = operand.value;
    int64_t rank = tensorType(value).getRank();
    if (operand.isTransposed) {
      value = transpose(rewriter, op.getLoc(), value, swapLast(rank));
    }
    bool isInner = operand.depthIsInner || operand.isTransposed;
    int64_t dim = isInner ? rank - 1 : rank - 2;
    int64_t missing = depth - *tn::constantDim(tn::getDims(value.getType())[dim]);
    if (missing == 0) {
      return value;
    }
    if (operand.isConstant) {
      return weights.pad(rewriter, op.getLoc(), value, static_cast<unsigned>(dim), depth);
    }
    SmallVector<int64_t> begins(rank, 0), ends(rank, 0);
    ends[dim] = missing;
    return pad(rewriter, op.getLoc(), value, begins, ends);
  }

  DerivedWeights &weights;
};

} // namespace

LogicalResult fitProducts(ModuleOp module, tn::WeightStore &store) {
  DerivedWeights weights(store);
  RewritePatternSet patterns(module.getContext());
  patterns.add<FitProduct>(module.getContext(), weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
