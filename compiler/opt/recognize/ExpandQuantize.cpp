// Quantization becomes the elementwise operations that it is made of, which fuse with what is
// around it: kernels of products end with it, and transposes move through. Relies on integers of 16
// bits and fewer being exact in FP32, and products of 8-bit ones with 16-bit scales too.
#include "compiler/opt/GpuProducts.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Patterns.h"
#include "mlir/IR/TypeUtilities.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace tenon::opt {
namespace {

/// Elementwise operations on values of one shape, and parameters that broadcast to it.
class Steps {
public:
  Steps(PatternRewriter &rewriter, Operation *op, Type like)
      : rewriter(rewriter), location(op->getLoc()), like(like) {}

  Type typeOf(Type element) const { return tn::withElement(like, element); }
  Value cast(Value x, Type element) const { return castTo(rewriter, location, x, element); }
  template <typename Op> Value make(Value a, Value b) const {
    return Op::create(rewriter, location, typeOf(getElementTypeOrSelf(a)), a, b);
  }
  Value number(double value) const {
    RankedTensorType type = RankedTensorType::get({}, rewriter.getF32Type());
    return tn::ConstantOp::create(
        rewriter, location, type,
        DenseElementsAttr::get(type, rewriter.getF32FloatAttr(static_cast<float>(value))));
  }
  /// `a` where it stands in that relation to `b`, else `b`; NaN stands in none.
  Value chosen(Value a, Value b, tn::Predicate predicate) const {
    Value holds =
        tn::CompareOp::create(rewriter, location, typeOf(rewriter.getI1Type()), a, b, predicate);
    return tn::SelectOp::create(rewriter, location, a.getType(), holds, a, b);
  }
  /// A scale or zero point, with its entries along `axis` if it has several.
  Value parameter(Value value, int64_t axis) const {
    RankedTensorType type = tensorType(value);
    if (type.getRank() == 0) {
      return value;
    }
    tn::Dims dims(mlir::cast<RankedTensorType>(like).getRank(), rewriter.getAffineConstantExpr(1));
    dims[axis] = tn::getDims(type).front();
    Value same = Constants::isConstant(value)
                     ? withShape(rewriter, value, tn::makeTensor(dims, type.getElementType()))
                     : Value();
    return same ? same : reshape(rewriter, location, value, dims);
  }

private:
  PatternRewriter &rewriter;
  Location location;
  Type like;
};

/// An integer type of at most 16 bits.
std::optional<std::pair<double, double>> boundsOf(Type element) {
  IntegerType type = dyn_cast<IntegerType>(element);
  if (!type || type.getWidth() > 16 || type.getWidth() == 1) {
    return std::nullopt;
  }
  double count = double(int64_t(1) << type.getWidth());
  return type.isUnsigned() ? std::pair(0.0, count - 1) : std::pair(-count / 2, count / 2 - 1);
}

/// What is expanded beyond what a GPU gains by: there a kernel of a value from outside alone is as
/// fast, and casts of 16-bit results are not free.
enum class Extent { Computed, All };

bool isExpanded(Value x, Extent extent) {
  return (extent == Extent::All || x.getDefiningOp()) && !Constants::isConstant(x);
}

bool isOfOne(Value parameter) { return tensorType(parameter).getRank() == 0; }

/// The constant 1, which divides nothing.
bool isUnit(Value scale) {
  tn::ConstantOp constant = scale.getDefiningOp<tn::ConstantOp>();
  DenseElementsAttr elements =
      constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return elements && elements.isSplat() && isa<FloatType>(elements.getElementType()) &&
         elements.getSplatValue<APFloat>().isExactlyValue(1.0);
}

/// The type of 16 bits that holds a value of f32; null if there is none.
Type halfTypeOf(Value x) {
  while (tn::ReluOp relu = x.getDefiningOp<tn::ReluOp>()) {
    x = relu.getX();
  }
  tn::CastOp cast = x.getDefiningOp<tn::CastOp>();
  Type from = cast ? getElementTypeOrSelf(cast.getX()) : Type();
  return from && (from.isF16() || from.isBF16()) ? from : Type();
}

/// The factor by which every number of a type of 16 bits becomes the level of 8 bits that its
/// quotient by `scale` becomes: the products are rounded to the same integers, whether they are
/// rounded to f32 before or not, up to where any zero point leaves them beyond 8 bits. None if
/// there is none.
std::optional<float> factorOf(float scale, Type half) {
  constexpr uint32_t kCount = 1 << 16;
  constexpr float kSaturated = 512;
  float factor = 1 / scale;
  const llvm::fltSemantics &semantics = cast<FloatType>(half).getFloatSemantics();
  for (uint32_t bits = 0; bits < kCount; ++bits) {
    APFloat number(semantics, APInt(16, bits));
    if (!number.isFinite()) {
      continue;
    }
    float x = number.convertToFloat(), level = std::nearbyint(x / scale);
    bool isSaturated = std::min(std::abs(x / scale), std::abs(x * factor)) > kSaturated;
    if (!isSaturated &&
        (std::nearbyint(x * factor) != level || std::nearbyint(double(x) * factor) != level)) {
      return std::nullopt;
    }
  }
  return factor;
}

/// quantize(x) -> cast(max(min(round(x / scale) + zero, most), least))
struct ExpandQuantize : Pattern<tn::QuantizeOp> {
  ExpandQuantize(MLIRContext *context, tn::WeightStore &weights, Extent extent)
      : Pattern(context, weights), extent(extent) {}

  LogicalResult matchAndRewrite(tn::QuantizeOp op, PatternRewriter &rewriter) const override {
    Type element = getElementTypeOrSelf(op.getY()), from = getElementTypeOrSelf(op.getX());
    std::optional<std::pair<double, double>> bounds = boundsOf(element);
    if (!bounds || from.isF64() || getElementTypeOrSelf(op.getScale()) != from ||
        !isExpanded(op.getX(), extent)) {
      return failure();
    }
    int64_t axis = static_cast<int64_t>(op.getAxis());
    Steps steps(rewriter, op, op.getX().getType());
    Value level = steps.cast(scaled(op, steps, axis), rewriter.getF32Type());
    level = tn::RoundOp::create(rewriter, op.getLoc(), level.getType(), level);
    Value zero = steps.cast(steps.parameter(op.getZeroPoint(), axis), rewriter.getF32Type());
    level = steps.make<tn::AddOp>(level, zero);
    level = steps.chosen(level, steps.number(bounds->first), tn::Predicate::gt);
    level = steps.chosen(level, steps.number(bounds->second), tn::Predicate::lt);
    rewriter.replaceOp(op, steps.cast(level, element));
    return success();
  }

private:
  /// What is quantized over its scale.
  Value scaled(tn::QuantizeOp op, const Steps &steps, int64_t axis) const {
    if (isUnit(op.getScale())) {
      return op.getX();
    }
    Type half = getElementTypeOrSelf(op.getY()).isInteger(8) ? halfTypeOf(op.getX()) : Type();
    std::optional<double> scale = half ? constants.scalar(op.getScale()) : std::nullopt;
    std::optional<float> factor =
        scale && *scale > 0 ? factorOf(static_cast<float>(*scale), half) : std::nullopt;
    return factor ? steps.make<tn::MulOp>(op.getX(), steps.number(*factor))
                  : steps.make<tn::DivOp>(op.getX(), steps.parameter(op.getScale(), axis));
  }

  Extent extent;
};

/// Whether no product is computed from the operation to its only user: both run in one kernel, and
/// nothing in between is stored.
bool isReadAtOnce(Operation *op, Operation *user) {
  if (op->getBlock() != user->getBlock()) {
    return false;
  }
  while (op != user && !isa<tn::MatmulOp, tn::ConvOp>(op)) {
    op = op->getNextNode();
  }
  return op == user;
}

/// A level that is not stored needs no zero point:
/// dequantize(quantize(x)) -> max(min(round(x / scale), most - zero), least - zero) * scale
struct ExpandBoth : OpRewritePattern<tn::DequantizeOp> {
  ExpandBoth(MLIRContext *context, Extent extent)
      : OpRewritePattern(context, /*benefit=*/2), extent(extent) {}

  LogicalResult matchAndRewrite(tn::DequantizeOp op, PatternRewriter &rewriter) const override {
    tn::QuantizeOp quantize = op.getX().getDefiningOp<tn::QuantizeOp>();
    std::optional<std::pair<double, double>> bounds = boundsOf(getElementTypeOrSelf(op.getX()));
    if (extent != Extent::All || !quantize || !quantize->hasOneUse() || !op->hasOneUse() ||
        !isReadAtOnce(quantize, *op->user_begin()) || !bounds || !isOfOne(op.getZeroPoint()) ||
        op.getZeroPoint() != quantize.getZeroPoint() || !isOfOne(op.getScale()) ||
        !getElementTypeOrSelf(op.getY()).isF32() ||
        !getElementTypeOrSelf(quantize.getX()).isF32()) {
      return failure();
    }
    Steps steps(rewriter, op, op.getX().getType());
    Value level = isUnit(quantize.getScale())
                      ? quantize.getX()
                      : steps.make<tn::DivOp>(quantize.getX(), quantize.getScale());
    level = tn::RoundOp::create(rewriter, op.getLoc(), level.getType(), level);
    Value zero = steps.cast(op.getZeroPoint(), rewriter.getF32Type());
    auto moved = [&](double bound) {
      Value number = steps.number(bound);
      return tn::SubOp::create(rewriter, op.getLoc(), number.getType(), number, zero);
    };
    level = steps.chosen(level, moved(bounds->first), tn::Predicate::gt);
    level = steps.chosen(level, moved(bounds->second), tn::Predicate::lt);
    rewriter.replaceOp(op, steps.make<tn::MulOp>(level, op.getScale()));
    return success();
  }

private:
  Extent extent;
};

/// dequantize(x) -> cast((x - zero) * scale)
struct ExpandDequantize : OpRewritePattern<tn::DequantizeOp> {
  ExpandDequantize(MLIRContext *context, Extent extent)
      : OpRewritePattern(context), extent(extent) {}

  LogicalResult matchAndRewrite(tn::DequantizeOp op, PatternRewriter &rewriter) const override {
    Type from = getElementTypeOrSelf(op.getX()), to = getElementTypeOrSelf(op.getY());
    bool isHalf =
        extent == Extent::All && (to.isF16() || to.isBF16()) && from.getIntOrFloatBitWidth() <= 8;
    if (!boundsOf(from) || !(to.isF32() || isHalf) || getElementTypeOrSelf(op.getScale()) != to ||
        !isExpanded(op.getX(), extent)) {
      return failure();
    }
    int64_t axis = static_cast<int64_t>(op.getAxis());
    Steps steps(rewriter, op, op.getX().getType());
    auto wide = [&](Value x) { return steps.cast(x, rewriter.getF32Type()); };
    Value level =
        steps.make<tn::SubOp>(wide(op.getX()), wide(steps.parameter(op.getZeroPoint(), axis)));
    Value product = steps.make<tn::MulOp>(level, wide(steps.parameter(op.getScale(), axis)));
    rewriter.replaceOp(op, steps.cast(product, to));
    return success();
  }

private:
  Extent extent;
};

LogicalResult expand(ModuleOp module, tn::WeightStore &weights, Extent extent) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<ExpandQuantize>(module.getContext(), weights, extent);
  patterns.add<ExpandBoth, ExpandDequantize>(module.getContext(), extent);
  if (failed(runPatterns(module, std::move(patterns)))) {
    return failure();
  }
  // Zero points that are constants are cast once, and weights that no product of integers reads.
  RewritePatternSet after(module.getContext());
  addConstantPatterns(after, weights, QuantizedWeights::Fold);
  addSinkTransposePatterns(after, weights);
  return runPatterns(module, std::move(after));
}

} // namespace

LogicalResult expandQuantize(ModuleOp module, tn::WeightStore &weights) {
  return expand(module, weights, Extent::Computed);
}

LogicalResult expandAllQuantize(ModuleOp module, tn::WeightStore &weights) {
  bool isAny = module
                   .walk([](Operation *op) {
                     return isa<tn::QuantizeOp, tn::DequantizeOp>(op) ? WalkResult::interrupt()
                                                                      : WalkResult::advance();
                   })
                   .wasInterrupted();
  return isAny ? expand(module, weights, Extent::All) : success();
}

} // namespace tenon::opt
