// Products and convolutions of quantized numbers with constant weights become those of u8 by s8
// that are summed in i32, as quantized models mean them: what the scales and zero points do stands
// behind the sums. With
//   x = (p - zp) sx,  w = (q + c) sw:  x w = (p q + c sum(p) - zp sum(q + c)) sx sw
// where q + c are the weights less their zero points, and c is 0 for columns that fit s8 without.
// Relies on weights behind tn.dequantize being left so by constant folding.
// Of two computed operands, x = (p - zp) sx and w = (q - zq) sw with q in s8, the sums of rows and
// columns are computed too:  x w = (p q - zq sum(p) - zp sum(q) + K zp zq) sx sw.
#include "compiler/opt/GpuProducts.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/Patterns.h"
#include "compiler/opt/precision/IntegerOperands.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// Of numbers as i32, along a dim, which stays as 1.
Value sumAlong(PatternRewriter &rewriter, Location location, Value numbers, int64_t dim) {
  Value wide = castTo(rewriter, location, numbers, rewriter.getI32Type());
  tn::Dims dims = tn::getDims(wide.getType());
  dims[dim] = rewriter.getAffineConstantExpr(1);
  return tn::ReduceOp::create(rewriter, location, tn::makeTensor(dims, rewriter.getI32Type()), wide,
                              tn::ReduceKind::sum, ArrayRef<int64_t>{dim}, /*keepdims=*/true);
}

/// What GPUs multiply by tensor cores: copies of 16 bytes along the depth of both operands, and so
/// many rows that arithmetic takes the time.
bool fitsGpu(tn::MatmulOp op, const Levels &levels) {
  constexpr int64_t kBorder = 16, kMinRows = 16;
  AffineExpr rows =
      tn::elementCount(op.getContext(), ArrayRef(tn::getDims(op.getType())).drop_back());
  tn::SymbolList symbols(op->getParentOfType<ModuleOp>());
  return levels.depth() % kBorder == 0 && rows && symbols.bounds(rows).min >= kMinRows;
}

class ProductPattern : public OpRewritePattern<tn::MatmulOp> {
public:
  ProductPattern(MLIRContext *context, tn::WeightStore &weights, const PriceProduct &price,
                 bool isGpu)
      : OpRewritePattern(context), operands(weights), price(price), isGpu(isGpu) {}

  LogicalResult matchAndRewrite(tn::MatmulOp op, PatternRewriter &rewriter) const override {
    Type element = op.getType().getElementType();
    bool isFloat = element.isF32();
    if ((!isFloat && !element.isInteger(32)) || op.getTransposeA() ||
        isByte(getElementTypeOrSelf(op.getA())) || tensorType(op.getB()).getRank() != 2 ||
        isKeptWide(op)) {
      return failure();
    }
    std::optional<Quantized> x =
        isFloat ? IntegerOperands::dequantized(op.getA()) : IntegerOperands::centered(op.getA());
    if (!x || !isOfRows(op, *x)) {
      return failure();
    }
    std::optional<Levels> w = operands.levelsOf(op.getB(), op.getTransposeB() ? 0 : 1, isFloat);
    if (!w || !w->fits() || (isFloat && !w->sumsFit()) || (isGpu && !fitsGpu(op, *w))) {
      return failure();
    }
    PricedProduct priced(isFloat ? price : nullptr, op, w->depth());
    if (priced.isWide()) {
      priced.keep(rewriter, op);
    } else {
      rewriter.replaceOp(op, product(op, *x, *w, priced, rewriter));
    }
    return success();
  }

private:
  /// Whether no parameter differs along the depth.
  static bool isOfRows(tn::MatmulOp op, const Quantized &x) {
    int64_t rank = tensorType(op.getA()).getRank();
    if (x.scale) {
      return isPerTensor(op.getA().getDefiningOp()) || x.axis != rank - 1;
    }
    RankedTensorType zero = x.zero ? tensorType(x.zero) : RankedTensorType();
    return !zero || zero.getRank() == 0 ||
           (zero.getRank() <= rank && isOne(tn::getDims(zero).back()));
  }

  Value product(tn::MatmulOp op, const Quantized &x, const Levels &w, const PricedProduct &priced,
                PatternRewriter &rewriter) const {
    Location location = op.getLoc();
    Value numbers = operands.asUnsigned(rewriter, x.numbers);
    Value scale = x.scale ? along(rewriter, op, x.scale, x.axis) : Value();
    Value zero =
        operands.unsignedZero(rewriter, x, x.scale ? along(rewriter, op, x.zero, x.axis) : x.zero);
    std::vector<int16_t> levels(w.values);
    for (auto [i, level] : llvm::enumerate(levels)) {
      level -= static_cast<int16_t>(w.shifts[w.columnOf(i)]);
    }
    bool isTransposed = op.getTransposeB();
    SmallVector<int64_t> shape(w.type.getShape());
    if (isGpu && !isTransposed) {
      levels = columnsFirst(levels, w);
      std::swap(shape[0], shape[1]);
      isTransposed = true;
    }
    Value weight = operands.integers<int8_t>(
        rewriter, op.getB(), RankedTensorType::get(shape, rewriter.getI8Type()), levels, "s8");
    Type sumType = tn::withElement(op.getType(), rewriter.getI32Type());
    Value sums = tn::MatmulOp::create(rewriter, location, sumType, numbers, weight,
                                      /*transposeA=*/false, isTransposed);
    priced.note(sums.getDefiningOp());
    Value columnSums = operands.ofColumns(rewriter, op.getB(), w.columnSums(), "column_sums");
    Value offset = multiplyParameters(rewriter, location, zero, columnSums);
    sums = tn::SubOp::create(rewriter, location, sumType, sums, offset);
    if (w.isShifted()) {
      Value shift = operands.ofColumns(rewriter, op.getB(), w.shifts, "shifts");
      Value more = multiplyParameters(
          rewriter, location,
          sumAlong(rewriter, location, numbers, tensorType(numbers).getRank() - 1), shift);
      sums = tn::AddOp::create(rewriter, location, sumType, sums, more);
    }
    return scale ? operands.scaled(rewriter, sums, scale, w.scale) : sums;
  }

  /// [depth, columns] as [columns, depth].
  static std::vector<int16_t> columnsFirst(const std::vector<int16_t> &levels, const Levels &w) {
    std::vector<int16_t> moved(levels.size());
    for (size_t i = 0; i < levels.size(); ++i) {
      int64_t column = int64_t(i) % w.columns(), place = int64_t(i) / w.columns();
      moved[column * w.depth() + place] = levels[i];
    }
    return moved;
  }

  /// A parameter that belongs to indices of an axis of the product's operand, shaped so.
  static Value along(PatternRewriter &rewriter, tn::MatmulOp op, Value parameter, int64_t axis) {
    RankedTensorType type = tensorType(parameter);
    if (type.getRank() == 0) {
      return parameter;
    }
    tn::Dims dims(tensorType(op.getA()).getRank(), rewriter.getAffineConstantExpr(1));
    dims[axis] = tn::getDims(type).front();
    return reshape(rewriter, op.getLoc(), parameter, dims);
  }

  IntegerOperands operands;
  const PriceProduct &price;
  bool isGpu;
};

/// Of two operands of one scale, or none, and one zero point each, both computed.
class ComputedPattern : public OpRewritePattern<tn::MatmulOp> {
public:
  ComputedPattern(MLIRContext *context, tn::WeightStore &weights)
      : OpRewritePattern(context), operands(weights) {}

  LogicalResult matchAndRewrite(tn::MatmulOp op, PatternRewriter &rewriter) const override {
    Type element = op.getType().getElementType();
    if ((!element.isF32() && !element.isInteger(32)) || op.getTransposeA()) {
      return failure();
    }
    std::optional<Quantized> x = operandOf(op.getA(), element.isF32());
    std::optional<Quantized> w = operandOf(op.getB(), element.isF32());
    if (!x || !w) {
      return failure();
    }
    std::optional<double> zeroOfX = zeroOf(*x), zeroOfW = zeroOf(*w);
    tn::Dims dims = tn::getDims(op.getA().getType());
    std::optional<int64_t> depth = tn::constantDim(dims.back());
    if (!zeroOfX || !zeroOfW || !depth || *depth > kMaxDepth) {
      return failure();
    }
    rewriter.replaceOp(op, product(op, *x, *w, *zeroOfX, *zeroOfW, *depth, rewriter));
    return success();
  }

private:
  static std::optional<Quantized> operandOf(Value value, bool isFloat) {
    if (!isFloat) {
      return IntegerOperands::centered(value);
    }
    std::optional<Quantized> operand = IntegerOperands::dequantized(value);
    return operand && isPerTensor(value.getDefiningOp()) ? operand : std::nullopt;
  }
  std::optional<double> zeroOf(const Quantized &operand) const {
    return operand.zero ? operands.constants.scalar(operand.zero) : 0.0;
  }

  /// Whose sums of products and zero points i32 holds.
  static constexpr int64_t kMaxDepth = (int64_t(1) << 31) / (4 * 256 * 256);

  Value product(tn::MatmulOp op, const Quantized &x, const Quantized &w, double zeroOfX,
                double zeroOfW, int64_t depth, PatternRewriter &rewriter) const {
    Location location = op.getLoc();
    Value p = operands.asUnsigned(rewriter, x.numbers), q = operands.asSigned(rewriter, w.numbers);
    int64_t zp = int64_t(zeroOfX) + (p == x.numbers ? 0 : kUnsignedShift);
    int64_t zq = int64_t(zeroOfW) - (q == w.numbers ? 0 : kUnsignedShift);
    RankedTensorType sumType = tn::withElement(op.getType(), rewriter.getI32Type());
    Value sums = tn::MatmulOp::create(rewriter, location, sumType, p, q, /*transposeA=*/false,
                                      op.getTransposeB());
    int64_t rank = tensorType(q).getRank();
    if (zq != 0) {
      Value rows = sumAlong(rewriter, location, p, tensorType(p).getRank() - 1);
      Value part = tn::MulOp::create(rewriter, location, rows.getType(), rows,
                                     integerNumber(rewriter, location, zq));
      sums = tn::SubOp::create(rewriter, location, sumType, sums, part);
    }
    if (zp != 0) {
      Value columns = sumAlong(rewriter, location, q, op.getTransposeB() ? rank - 1 : rank - 2);
      if (op.getTransposeB()) {
        Permutation swapped = swapLast(rank);
        columns = transpose(rewriter, location, columns, swapped);
      }
      Value part = tn::MulOp::create(rewriter, location, columns.getType(), columns,
                                     integerNumber(rewriter, location, zp));
      sums = tn::SubOp::create(rewriter, location, sumType, sums, part);
    }
    if (zp != 0 && zq != 0) {
      sums = tn::AddOp::create(rewriter, location, sumType, sums,
                               integerNumber(rewriter, location, depth * zp * zq));
    }
    return x.scale ? operands.scaled(rewriter, sums, x.scale, w.scale) : sums;
  }

  IntegerOperands operands;
};

LogicalResult makeProducts(ModuleOp module, tn::WeightStore &weights, const PriceProduct &price,
                           bool isGpu) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<ProductPattern>(module.getContext(), weights, price, isGpu);
  // A GPU's convolutions multiply signed numbers too.
  if (failed(keepActivationsQuantized(module, weights, /*areUnsigned=*/!isGpu))) {
    return failure();
  }
  addIntegerConvolutionPatterns(patterns, weights, price, isGpu);
  if (!isGpu) {
    patterns.add<ComputedPattern>(module.getContext(), weights);
  }
  if (failed(runPatterns(module, std::move(patterns)))) {
    return failure();
  }
  // What zero points and scales have become is constant for the most part.
  bool hasProducts = module
                         .walk([](Operation *op) {
                           bool isProduct = isa<tn::MatmulOp, tn::ConvOp>(op);
                           return isProduct && isByte(getElementTypeOrSelf(op->getOperand(1)))
                                      ? WalkResult::interrupt()
                                      : WalkResult::advance();
                         })
                         .wasInterrupted();
  if (!hasProducts) {
    return success();
  }
  RewritePatternSet constants(module.getContext());
  addConstantPatterns(constants, weights, QuantizedWeights::Keep);
  if (failed(runPatterns(module, std::move(constants)))) {
    return failure();
  }
  RewritePatternSet requantize(module.getContext());
  addRequantizePatterns(requantize, weights);
  return runPatterns(module, std::move(requantize));
}

} // namespace

bool isIntegerOnGpu(Operation *op, const IntegerOperands &operands) {
  if (tn::ConvOp conv = dyn_cast<tn::ConvOp>(op)) {
    return isIntegerConvOnGpu(conv, operands);
  }
  tn::MatmulOp product = dyn_cast<tn::MatmulOp>(op);
  if (!product || product.getTransposeA() || tensorType(product.getB()).getRank() != 2) {
    return false;
  }
  std::optional<Levels> w =
      operands.levelsOf(product.getB(), product.getTransposeB() ? 0 : 1, /*isFloat=*/true);
  return w && w->fits() && w->sumsFit() && fitsGpu(product, *w);
}

LogicalResult integerProducts(ModuleOp module, tn::WeightStore &weights) {
  return makeProducts(module, weights, nullptr, /*isGpu=*/false);
}

LogicalResult integerProducts(ModuleOp module, tn::WeightStore &weights,
                              const PriceProduct &price) {
  return makeProducts(module, weights, price, /*isGpu=*/false);
}

LogicalResult integerProductsOfGpu(ModuleOp module, tn::WeightStore &weights) {
  return makeProducts(module, weights, nullptr, /*isGpu=*/true);
}

} // namespace tenon::opt
