// Puts inference batch normalization into the weights before it, or makes it a multiplication and
// an addition. Relies on its four parameters being constants; computes in double.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

#include <cmath>

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr llvm::StringLiteral kFoldNormPass = "fold-batch-norm";

/// y = x * scale + shift, one pair a channel.
struct Affine {
  std::vector<double> scale;
  std::vector<double> shift;
};

std::optional<Affine> affineOf(tn::BatchNormOp op, const Constants &constants) {
  std::optional<std::vector<double>> gamma = constants.elements(op.getScale());
  std::optional<std::vector<double>> beta = constants.elements(op.getBias());
  std::optional<std::vector<double>> mean = constants.elements(op.getMean());
  std::optional<std::vector<double>> variance = constants.elements(op.getVar());
  if (!gamma || !beta || !mean || !variance || gamma->empty()) {
    return std::nullopt;
  }
  Affine result;
  for (size_t c = 0; c < gamma->size(); ++c) {
    double scale = (*gamma)[c] / std::sqrt((*variance)[c] + op.getEpsilon().convertToDouble());
    result.scale.push_back(scale);
    result.shift.push_back((*beta)[c] - (*mean)[c] * scale);
  }
  return result;
}

/// The name that a folded constant goes by in dumps.
std::string foldedName(Value weight, StringRef otherwise) {
  tn::WeightOp op = weight.getDefiningOp<tn::WeightOp>();
  return (op ? op.getId() : otherwise).str() + ".folded";
}

/// The elements of the bias before; none if there is no bias, nothing if they are not known.
std::optional<std::vector<double>> biasElements(Value bias, const Constants &constants) {
  return bias ? constants.elements(bias) : std::vector<double>();
}

/// A new bias: the old one (one number, one a channel, or none) scaled and shifted.
Value foldBias(PatternRewriter &rewriter, const Constants &constants, ArrayRef<double> bias,
               const Affine &affine, tn::BatchNormOp op, StringRef name) {
  std::vector<double> result = affine.shift;
  for (size_t c = 0; c < result.size() && !bias.empty(); ++c) {
    result[c] += bias[bias.size() == 1 ? 0 : c] * affine.scale[c];
  }
  RankedTensorType type =
      RankedTensorType::get({static_cast<int64_t>(result.size())}, op.getType().getElementType());
  return constants.make(rewriter, op.getLoc(), type, result, name, kFoldNormPass);
}

/// batch_norm(conv(x, w, b)) -> conv(x, w * scale, b * scale + shift)
struct FoldIntoConv : Pattern<tn::BatchNormOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::BatchNormOp op, PatternRewriter &rewriter) const override {
    tn::ConvOp conv = op.getX().getDefiningOp<tn::ConvOp>();
    if (!conv || !conv->hasOneUse() || conv.getChannelsLast() != op.getChannelsLast() ||
        !Constants::isConstant(conv.getWeight()) ||
        (conv.getBias() && !Constants::isConstant(conv.getBias()))) {
      return failure();
    }
    std::optional<Affine> affine = affineOf(op, constants);
    std::optional<std::vector<double>> weight =
        affine ? constants.elements(conv.getWeight()) : std::nullopt;
    std::optional<std::vector<double>> oldBias = biasElements(conv.getBias(), constants);
    if (!weight || !oldBias) {
      return failure();
    }
    // The weight is [O, ...]: a row for each output channel.
    size_t row = weight->size() / affine->scale.size();
    for (size_t i = 0; i < weight->size(); ++i) {
      (*weight)[i] *= affine->scale[i / row];
    }
    std::string name = foldedName(conv.getWeight(), "conv");
    Value folded = constants.make(rewriter, conv.getLoc(), tensorType(conv.getWeight()), *weight,
                                  name, kFoldNormPass);
    Value bias = foldBias(rewriter, constants, *oldBias, *affine, op, name + ".bias");
    Operation *fused = rebuild(rewriter, conv, {conv.getX(), folded, bias}, op.getType());
    rewriter.replaceOp(op, fused);
    return success();
  }
};

/// batch_norm(matmul(x, w) [+ b]) -> matmul(x, w * scale) + (b * scale + shift), for matrices
struct FoldIntoMatmul : Pattern<tn::BatchNormOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::BatchNormOp op, PatternRewriter &rewriter) const override {
    Value x = op.getX();
    Value bias;
    tn::AddOp sum = x.getDefiningOp<tn::AddOp>();
    if (sum && sum->hasOneUse()) {
      bool constantFirst = Constants::isConstant(sum.getA());
      bias = constantFirst ? sum.getA() : sum.getB();
      x = constantFirst ? sum.getB() : sum.getA();
    }
    tn::MatmulOp product = x.getDefiningOp<tn::MatmulOp>();
    if (!product || !product->hasOneUse() || product.getType() != op.getType() ||
        op.getType().getRank() != 2 || !Constants::isConstant(product.getB()) ||
        tensorType(product.getB()).getRank() != 2 || (bias && !isPerColumn(bias, op))) {
      return failure();
    }
    std::optional<Affine> affine = affineOf(op, constants);
    std::optional<std::vector<double>> weight =
        affine ? constants.elements(product.getB()) : std::nullopt;
    std::optional<std::vector<double>> oldBias = biasElements(bias, constants);
    if (!weight || !oldBias) {
      return failure();
    }
    size_t columns = affine->scale.size();
    size_t rows = weight->size() / columns;
    for (size_t i = 0; i < weight->size(); ++i) {
      (*weight)[i] *= affine->scale[product.getTransposeB() ? i / rows : i % columns];
    }
    std::string name = foldedName(product.getB(), "matmul");
    Value folded = constants.make(rewriter, product.getLoc(), tensorType(product.getB()), *weight,
                                  name, kFoldNormPass);
    Value newBias = foldBias(rewriter, constants, *oldBias, *affine, op, name + ".bias");
    Operation *scaled = rebuild(rewriter, product, {product.getA(), folded}, op.getType());
    rewriter.replaceOpWithNewOp<tn::AddOp>(op, op.getType(), scaled->getResult(0), newBias);
    return success();
  }

private:
  /// A constant with one element, or one a column.
  static bool isPerColumn(Value bias, tn::BatchNormOp op) {
    if (!Constants::isConstant(bias)) {
      return false;
    }
    RankedTensorType type = tensorType(bias);
    int64_t count = type.getNumElements();
    int64_t columns = tensorType(op.getScale()).getNumElements();
    return count == 1 || (count == columns && type.getShape().back() == columns);
  }
};

/// What no weight takes up: batch_norm(x) -> x * scale + shift, with constants shaped [C, 1...]
struct BatchNormToMulAdd : Pattern<tn::BatchNormOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::BatchNormOp op, PatternRewriter &rewriter) const override {
    std::optional<Affine> affine = affineOf(op, constants);
    if (!affine) {
      return failure();
    }
    int64_t rank = op.getType().getRank();
    int64_t after = op.getChannelsLast() || rank < 2 ? 0 : rank - 2;
    SmallVector<int64_t> shape(after + 1, 1);
    shape.front() = affine->scale.size();
    RankedTensorType type = RankedTensorType::get(shape, op.getType().getElementType());
    std::string name = foldedName(op.getScale(), "batch_norm");
    Value scale = constants.make(rewriter, op.getLoc(), type, affine->scale, name, kFoldNormPass);
    Value shift =
        constants.make(rewriter, op.getLoc(), type, affine->shift, name + ".bias", kFoldNormPass);
    Value scaled = tn::MulOp::create(rewriter, op.getLoc(), op.getType(), op.getX(), scale);
    rewriter.replaceOpWithNewOp<tn::AddOp>(op, op.getType(), scaled, shift);
    return success();
  }
};

} // namespace

LogicalResult foldBatchNorm(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet folding(module.getContext());
  folding.add<FoldIntoConv, FoldIntoMatmul>(module.getContext(), weights);
  if (failed(runPatterns(module, std::move(folding)))) {
    return failure();
  }
  RewritePatternSet rest(module.getContext());
  rest.add<BatchNormToMulAdd>(module.getContext(), weights);
  return runPatterns(module, std::move(rest));
}

} // namespace tenon::opt
