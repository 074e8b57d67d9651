// Products of quantized numbers with constant weights become products of u8 by s8 that are summed
// in i32, as quantized models mean them: what the scales and zero points do stands behind the sums.
// With
//   x = (p - zp) sx,  w = (q - zq) sw:  x w = (p q - zp sum(q) + c (sum(p) - K zp)) sx sw
// where q holds the weights less their zero points and less c, which is 0 where that fits 8 bits.
// Relies on weights behind tn.dequantize being left so by constant folding.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr llvm::StringLiteral kPass = "integer-products";

/// Movement looked through between a product and what quantizes its operand.
constexpr int kMostSteps = 16;
/// What a u8 is more than the s8 of the same bits but the first.
constexpr int64_t kUnsignedShift = 128;
/// Most of the sums of floats, whose products are exact in integers up to here.
constexpr double kMostSum = 2147483647.0;

bool isByte(Type element) { return element.isInteger(8) || element.isUnsignedInteger(8); }

bool isMoved(Operation *op) {
  return isa_and_nonnull<tn::TransposeOp, tn::ReshapeOp, tn::BroadcastOp, tn::SliceOp>(op);
}

/// tn.dequantize of 8-bit numbers by one scale, or null.
tn::DequantizeOp dequantizeOf(Value value) {
  tn::DequantizeOp op = value.getDefiningOp<tn::DequantizeOp>();
  return op && isByte(getElementTypeOrSelf(op.getX())) ? op : tn::DequantizeOp();
}

bool isPerTensor(tn::DequantizeOp op) {
  return tensorType(op.getScale()).getRank() == 0 && tensorType(op.getZeroPoint()).getRank() == 0;
}

/// movement(dequantize(x)) -> dequantize(movement(x)): less is moved, and products see numbers that
/// are quantized.
struct HoistMovement : RewritePattern {
  explicit HoistMovement(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    tn::DequantizeOp producer = isMoved(op) ? dequantizeOf(op->getOperand(0)) : tn::DequantizeOp();
    if (!producer || !isPerTensor(producer)) {
      return failure();
    }
    SmallVector<Value> operands(op->getOperands());
    operands[0] = producer.getX();
    Type type = tn::withElement(op->getResult(0).getType(), getElementTypeOrSelf(producer.getX()));
    Value moved = rebuild(rewriter, op, operands, type)->getResult(0);
    rewriter.replaceOp(op, rebuild(rewriter, producer,
                                   {moved, producer.getScale(), producer.getZeroPoint()},
                                   op->getResult(0).getType()));
    return success();
  }
};

/// 8-bit numbers with their zero point, and their scale if the product is one of floats. A
/// parameter of one dim belongs to indices of `axis`.
struct Quantized {
  Value numbers;
  Value zero;  ///< null for none
  Value scale; ///< null for none
  int64_t axis = 0;
};

/// Weights less their zero points.
struct Levels {
  RankedTensorType type;
  std::vector<int64_t> values; ///< row-major
  Value scale;                 ///< f32: one, or one for each column; null for none

  int64_t most() const {
    int64_t most = 0;
    for (int64_t value : values) {
      most = std::max(most, std::abs(value));
    }
    return most;
  }
};

class ProductPattern : public Pattern<tn::MatmulOp> {
public:
  using Pattern::Pattern;

  LogicalResult matchAndRewrite(tn::MatmulOp op, PatternRewriter &rewriter) const override {
    Type element = op.getType().getElementType();
    bool isFloat = element.isF32();
    if ((!isFloat && !element.isInteger(32)) || op.getTransposeA() ||
        isByte(elementOf(op.getA()))) {
      return failure();
    }
    std::optional<Quantized> x = isFloat ? dequantized(op.getA()) : centered(op.getA());
    std::optional<Levels> w = x ? levelsOf(op, isFloat) : std::nullopt;
    std::optional<int64_t> shift = w ? shiftOf(*w) : std::nullopt;
    if (!shift) {
      return failure();
    }
    int64_t depth = w->type.getDimSize(op.getTransposeB() ? 1 : 0);
    if (isFloat && 255.0 * double(w->most()) * double(depth) > kMostSum) {
      return failure();
    }
    rewriter.replaceOp(op, product(op, *x, *w, *shift, rewriter));
    return success();
  }

private:
  static Type elementOf(Value value) { return getElementTypeOrSelf(value); }

  /// None where a parameter differs along the depth.
  static std::optional<Quantized> dequantized(Value operand) {
    tn::DequantizeOp source = dequantizeOf(operand);
    if (!source || Constants::isConstant(source.getX())) {
      return std::nullopt;
    }
    int64_t axis = static_cast<int64_t>(source.getAxis());
    if (!isPerTensor(source) && axis == tensorType(operand).getRank() - 1) {
      return std::nullopt;
    }
    return Quantized{source.getX(), source.getZeroPoint(), source.getScale(), axis};
  }

  /// cast(x) or cast(x) - zero, of i32.
  static std::optional<Quantized> centered(Value operand) {
    Quantized result;
    if (tn::SubOp difference = operand.getDefiningOp<tn::SubOp>()) {
      RankedTensorType zero = tensorType(difference.getB());
      bool isOfRows = zero.getRank() == 0 || (zero.getRank() <= tensorType(operand).getRank() &&
                                              isOne(tn::getDims(zero).back()));
      if (!isOfRows || !sameShape(difference.getA(), operand)) {
        return std::nullopt;
      }
      result.zero = difference.getB();
      operand = difference.getA();
    }
    tn::CastOp cast = operand.getDefiningOp<tn::CastOp>();
    if (!cast || !isByte(elementOf(cast.getX())) || Constants::isConstant(cast.getX())) {
      return std::nullopt;
    }
    result.numbers = cast.getX();
    return result;
  }

  std::optional<Levels> levelsOf(tn::MatmulOp op, bool isFloat) const {
    Value numbers = op.getB();
    tn::DequantizeOp source = isFloat ? dequantizeOf(numbers) : tn::DequantizeOp();
    if (isFloat && !source) {
      return std::nullopt;
    }
    numbers = source ? source.getX() : numbers;
    RankedTensorType type = tensorType(numbers);
    if (!Constants::isConstant(numbers) || type.getRank() != 2 || type.getNumElements() == 0) {
      return std::nullopt;
    }
    int64_t columns = op.getTransposeB() ? 0 : 1;
    std::optional<std::vector<double>> values = constants.elements(numbers);
    std::optional<std::vector<double>> zeros =
        source ? constants.elements(source.getZeroPoint()) : std::vector<double>{0};
    if (!values || !zeros || zeros->empty()) {
      return std::nullopt;
    }
    bool isPerColumn =
        source && (tensorType(source.getScale()).getRank() == 1 || zeros->size() > 1);
    if (isPerColumn && static_cast<int64_t>(source.getAxis()) != columns) {
      return std::nullopt;
    }
    Levels levels{type, {}, source ? source.getScale() : Value()};
    int64_t row = type.getDimSize(1);
    for (auto [i, value] : llvm::enumerate(*values)) {
      int64_t column = columns == 1 ? int64_t(i) % row : int64_t(i) / row;
      double zero = (*zeros)[zeros->size() == 1 ? 0 : column];
      levels.values.push_back(static_cast<int64_t>(value - zero));
    }
    return levels;
  }

  /// What the levels are moved down by, so that they are s8; none if they have too wide a range.
  static std::optional<int64_t> shiftOf(const Levels &levels) {
    auto [least, most] = std::minmax_element(levels.values.begin(), levels.values.end());
    if (*least >= -kUnsignedShift && *most < kUnsignedShift) {
      return 0;
    }
    return *most - *least < 2 * kUnsignedShift ? std::optional(*least + kUnsignedShift)
                                               : std::nullopt;
  }

  /// Numbers as u8: those of s8 with 128 more. What quantizes them does so at once.
  Value asUnsigned(PatternRewriter &rewriter, Value numbers, int steps = kMostSteps) const {
    Type byte = rewriter.getIntegerType(8, /*isSigned=*/false);
    if (elementOf(numbers) == byte) {
      return numbers;
    }
    Location location = numbers.getLoc();
    Type type = tn::withElement(numbers.getType(), byte);
    Operation *op = numbers.getDefiningOp();
    if (steps > 0 && isMoved(op)) {
      SmallVector<Value> operands(op->getOperands());
      operands[0] = asUnsigned(rewriter, operands[0], steps - 1);
      return rebuild(rewriter, op, operands, type)->getResult(0);
    }
    if (tn::QuantizeOp quantize = numbers.getDefiningOp<tn::QuantizeOp>()) {
      Value zero = shifted(rewriter, quantize.getZeroPoint(), byte);
      return tn::QuantizeOp::create(rewriter, location, type, quantize.getX(), quantize.getScale(),
                                    zero, quantize.getAxis());
    }
    return shifted(rewriter, numbers, byte);
  }

  Value shifted(PatternRewriter &rewriter, Value numbers, Type element) const {
    Location location = numbers.getLoc();
    Value wide = castTo(rewriter, location, numbers, rewriter.getI32Type());
    Value more = tn::AddOp::create(rewriter, location, wide.getType(), wide,
                                   number(rewriter, location, kUnsignedShift));
    return castTo(rewriter, location, more, element);
  }

  static Value number(PatternRewriter &rewriter, Location location, int64_t value) {
    RankedTensorType type = RankedTensorType::get({}, rewriter.getI32Type());
    return tn::ConstantOp::create(
        rewriter, location, type,
        DenseElementsAttr::get(type, rewriter.getI32IntegerAttr(static_cast<int32_t>(value))));
  }

  template <typename T>
  Value integers(PatternRewriter &rewriter, tn::MatmulOp op, RankedTensorType type,
                 ArrayRef<int64_t> values, StringRef what) const {
    std::vector<T> narrow(values.begin(), values.end());
    const char *bytes = reinterpret_cast<const char *>(narrow.data());
    tn::DequantizeOp source = dequantizeOf(op.getB());
    tn::WeightOp weight = (source ? source.getX() : op.getB()).getDefiningOp<tn::WeightOp>();
    return constants.make(rewriter, op.getLoc(), type,
                          std::vector<char>(bytes, bytes + narrow.size() * sizeof(T)),
                          (weight ? weight.getId() + "." + what : llvm::Twine(what)).str(), kPass);
  }

  Value product(tn::MatmulOp op, const Quantized &x, const Levels &w, int64_t shift,
                PatternRewriter &rewriter) const {
    Location location = op.getLoc();
    bool isSigned = elementOf(x.numbers).isInteger(8) && !elementOf(x.numbers).isUnsignedInteger();
    Value numbers = asUnsigned(rewriter, x.numbers);
    Value scale = x.scale ? along(rewriter, op, x.scale, x.axis) : Value();
    Value zero = x.scale  ? along(rewriter, op, x.zero, x.axis)
                 : x.zero ? x.zero
                          : number(rewriter, location, 0);
    zero = castTo(rewriter, location, zero, rewriter.getI32Type());
    if (isSigned) {
      zero = tn::AddOp::create(rewriter, location, zero.getType(), zero,
                               number(rewriter, location, kUnsignedShift));
    }
    std::vector<int64_t> levels(w.values);
    int64_t columnDim = op.getTransposeB() ? 0 : 1;
    int64_t columns = w.type.getDimSize(columnDim), depth = w.type.getDimSize(1 - columnDim);
    std::vector<int64_t> columnSums(columns, depth * shift);
    for (auto [i, level] : llvm::enumerate(levels)) {
      level -= shift;
      columnSums[columnDim == 1 ? i % columns : i / depth] += level;
    }
    Value weight = integers<int8_t>(
        rewriter, op, RankedTensorType::get(w.type.getShape(), rewriter.getI8Type()), levels, "s8");
    Type sumType = tn::withElement(op.getType(), rewriter.getI32Type());
    Value sums = tn::MatmulOp::create(rewriter, location, sumType, numbers, weight,
                                      /*transposeA=*/false, op.getTransposeB());
    Value columnSum =
        integers<int32_t>(rewriter, op, RankedTensorType::get({columns}, rewriter.getI32Type()),
                          columnSums, "column_sums");
    Value offset = multiply(rewriter, location, zero, columnSum);
    sums = tn::SubOp::create(rewriter, location, sumType, sums, offset);
    if (shift != 0) {
      Value rowSum = sumOfRows(rewriter, location, numbers);
      Value more = tn::MulOp::create(rewriter, location, rowSum.getType(), rowSum,
                                     number(rewriter, location, shift));
      sums = tn::AddOp::create(rewriter, location, sumType, sums, more);
    }
    if (!scale) {
      return sums;
    }
    Value result = castTo(rewriter, location, sums, rewriter.getF32Type());
    bool areConstant = Constants::isConstant(scale) && Constants::isConstant(w.scale);
    if (areConstant && tensorType(scale).getRank() == 0) {
      return tn::MulOp::create(rewriter, location, op.getType(), result,
                               multiply(rewriter, location, scale, w.scale));
    }
    for (Value factor : {scale, w.scale}) {
      result = tn::MulOp::create(rewriter, location, op.getType(), result, factor);
    }
    return result;
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

  /// Of two parameters, one for each row or one, and one for each column or one.
  static Value multiply(PatternRewriter &rewriter, Location location, Value a, Value b) {
    tn::Dims dims = *tn::broadcastDims(tn::getDims(a.getType()), tn::getDims(b.getType()));
    return tn::MulOp::create(rewriter, location, tn::makeTensor(dims, elementOf(a)), a, b);
  }

  static Value sumOfRows(PatternRewriter &rewriter, Location location, Value numbers) {
    Value wide = castTo(rewriter, location, numbers, rewriter.getI32Type());
    tn::Dims dims = tn::getDims(wide.getType());
    int64_t last = static_cast<int64_t>(dims.size()) - 1;
    dims.back() = rewriter.getAffineConstantExpr(1);
    return tn::ReduceOp::create(rewriter, location, tn::makeTensor(dims, rewriter.getI32Type()),
                                wide, tn::ReduceKind::sum, ArrayRef<int64_t>{last},
                                /*keepdims=*/true);
  }
};

} // namespace

LogicalResult integerProducts(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<HoistMovement>(module.getContext());
  patterns.add<ProductPattern>(module.getContext(), weights);
  if (failed(runPatterns(module, std::move(patterns)))) {
    return failure();
  }
  // What zero points and scales have become is constant for the most part.
  bool hasProducts = module
                         .walk([](tn::MatmulOp op) {
                           return isByte(getElementTypeOrSelf(op.getB())) ? WalkResult::interrupt()
                                                                          : WalkResult::advance();
                         })
                         .wasInterrupted();
  return hasProducts ? foldConstants(module, weights) : success();
}

} // namespace tenon::opt
