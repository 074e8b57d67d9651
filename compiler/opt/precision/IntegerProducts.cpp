// Products of quantized numbers with constant weights become products of u8 by s8 that are summed
// in i32, as quantized models mean them: what the scales and zero points do stands behind the sums.
// With
//   x = (p - zp) sx,  w = (q + c) sw:  x w = (p q + c sum(p) - zp sum(q + c)) sx sw
// where q + c are the weights less their zero points, and c is 0 for columns that fit s8 without.
// Relies on weights behind tn.dequantize being left so by constant folding.
// One file: what is read of a product and what is made of it are two sides of that equation.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/products/GpuProducts.h"
#include "compiler/opt/Patterns.h"
#include "mlir/IR/TypeUtilities.h"

#include <cstring>

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr llvm::StringLiteral kPass = "integer-products";

/// Movement looked through between a product and what quantizes its operand.
constexpr int kMostSteps = 16;
/// What a u8 is more than the s8 of the same bits but the first.
constexpr int64_t kUnsignedShift = 128;
/// Of two 8-bit numbers, and of an i32: sums of products of floats must not wrap.
constexpr double kMostDifference = 255, kMostSum = 2147483647;

bool isByte(Type element) { return element.isInteger(8) || element.isUnsignedInteger(8); }

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

/// Weights less their zero points, which are s8 once `shifts` are taken off.
struct Levels {
  RankedTensorType type;
  int64_t columnDim = 1;
  std::vector<int16_t> values; ///< row-major
  std::vector<int64_t> shifts; ///< of each column; 0 where its values are s8 as they are
  Value scale;                 ///< f32: one, or one for each column; null for none

  int64_t columns() const { return type.getDimSize(columnDim); }
  int64_t depth() const { return type.getDimSize(1 - columnDim); }
  int64_t columnOf(size_t i) const {
    return columnDim == 1 ? int64_t(i) % columns() : int64_t(i) / depth();
  }

  void findShifts() {
    std::vector<int16_t> least(columns(), 0), most(columns(), 0);
    for (auto [i, value] : llvm::enumerate(values)) {
      least[columnOf(i)] = std::min(least[columnOf(i)], value);
      most[columnOf(i)] = std::max(most[columnOf(i)], value);
    }
    for (auto [low, high] : llvm::zip_equal(least, most)) {
      bool isSigned = low >= -kUnsignedShift && high < kUnsignedShift;
      shifts.push_back(isSigned ? 0 : low + kUnsignedShift);
    }
  }

  /// Weights from elsewhere than 8 bits may have a wider range.
  bool fits() const {
    return llvm::all_of(llvm::enumerate(values), [&](auto each) {
      int64_t value = each.value() - shifts[columnOf(each.index())];
      return value >= -kUnsignedShift && value < kUnsignedShift;
    });
  }

  int64_t most() const {
    int64_t most = 0;
    for (int64_t value : values) {
      most = std::max(most, value < 0 ? -value : value);
    }
    return most;
  }
};

/// What GPUs multiply by tensor cores: copies of 16 bytes along the depth of both operands, and so
/// many rows that arithmetic takes the time.
bool fitsGpu(tn::MatmulOp op, const Levels &levels) {
  constexpr int64_t kBorder = 16, kLeastRows = 16;
  AffineExpr rows =
      tn::elementCount(op.getContext(), ArrayRef(tn::getDims(op.getType())).drop_back());
  tn::SymbolList symbols(op->getParentOfType<ModuleOp>());
  return levels.depth() % kBorder == 0 && rows && symbols.bounds(rows).min >= kLeastRows;
}

class ProductPattern : public Pattern<tn::MatmulOp> {
public:
  ProductPattern(MLIRContext *context, tn::WeightStore &weights, bool isGpu = false)
      : Pattern(context, weights), isGpu(isGpu) {}

  LogicalResult matchAndRewrite(tn::MatmulOp op, PatternRewriter &rewriter) const override {
    Type element = op.getType().getElementType();
    bool isFloat = element.isF32();
    if ((!isFloat && !element.isInteger(32)) || op.getTransposeA() ||
        isByte(elementOf(op.getA()))) {
      return failure();
    }
    std::optional<Quantized> x = isFloat ? dequantized(op.getA()) : centered(op.getA());
    std::optional<Levels> w = x ? levelsOf(op, isFloat) : std::nullopt;
    if (!w || !w->fits() || (isGpu && !fitsGpu(op, *w))) {
      return failure();
    }
    if (isFloat && kMostDifference * double(w->most()) * double(w->depth()) > kMostSum) {
      return failure();
    }
    rewriter.replaceOp(op, product(op, *x, *w, rewriter));
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

  template <typename T> static std::vector<int16_t> narrowed(ArrayRef<char> bytes) {
    std::vector<int16_t> numbers;
    numbers.reserve(bytes.size() / sizeof(T));
    for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
      T number;
      std::memcpy(&number, bytes.data() + i, sizeof(T));
      if (number < -kMostDifference || number > kMostDifference) {
        return {};
      }
      numbers.push_back(static_cast<int16_t>(number));
    }
    return numbers;
  }

  /// A constant of 8-bit numbers, or of differences of such in i32; empty for others.
  std::vector<int16_t> numbersOf(Value constant) const {
    std::vector<char> bytes = constants.bytes(constant);
    Type element = elementOf(constant);
    return element.isUnsignedInteger(8) ? narrowed<uint8_t>(bytes)
           : element.isInteger(8)       ? narrowed<int8_t>(bytes)
                                        : narrowed<int32_t>(bytes);
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
    std::vector<int16_t> values = numbersOf(numbers);
    std::optional<std::vector<double>> zeros =
        source ? constants.elements(source.getZeroPoint()) : std::vector<double>{0};
    if (values.empty() || !zeros || zeros->empty()) {
      return std::nullopt;
    }
    bool isPerColumn =
        source && (tensorType(source.getScale()).getRank() == 1 || zeros->size() > 1);
    if (isPerColumn && static_cast<int64_t>(source.getAxis()) != columns) {
      return std::nullopt;
    }
    Levels levels{.type = type,
                  .columnDim = columns,
                  .values = std::move(values),
                  .shifts = {},
                  .scale = source ? source.getScale() : Value()};
    for (auto [i, value] : llvm::enumerate(levels.values)) {
      value -= static_cast<int16_t>((*zeros)[zeros->size() == 1 ? 0 : levels.columnOf(i)]);
    }
    levels.findShifts();
    return levels;
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

  template <typename T, typename From>
  Value integers(PatternRewriter &rewriter, tn::MatmulOp op, RankedTensorType type,
                 const std::vector<From> &values, StringRef what) const {
    std::vector<T> narrow(values.begin(), values.end());
    const char *bytes = reinterpret_cast<const char *>(narrow.data());
    tn::DequantizeOp source = dequantizeOf(op.getB());
    tn::WeightOp weight = (source ? source.getX() : op.getB()).getDefiningOp<tn::WeightOp>();
    return constants.make(rewriter, op.getLoc(), type,
                          std::vector<char>(bytes, bytes + narrow.size() * sizeof(T)),
                          (weight ? weight.getId() + "." + what : llvm::Twine(what)).str(), kPass);
  }

  Value product(tn::MatmulOp op, const Quantized &x, const Levels &w,
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
    std::vector<int16_t> levels(w.values);
    std::vector<int64_t> columnSums(w.columns(), 0);
    for (auto [i, level] : llvm::enumerate(levels)) {
      columnSums[w.columnOf(i)] += level;
      level -= static_cast<int16_t>(w.shifts[w.columnOf(i)]);
    }
    bool isTransposed = op.getTransposeB();
    SmallVector<int64_t> shape(w.type.getShape());
    if (isGpu && !isTransposed) {
      levels = columnsFirst(levels, w);
      std::swap(shape[0], shape[1]);
      isTransposed = true;
    }
    Value weight = integers<int8_t>(
        rewriter, op, RankedTensorType::get(shape, rewriter.getI8Type()), levels, "s8");
    Type sumType = tn::withElement(op.getType(), rewriter.getI32Type());
    Value sums = tn::MatmulOp::create(rewriter, location, sumType, numbers, weight,
                                      /*transposeA=*/false, isTransposed);
    RankedTensorType ofColumns = RankedTensorType::get({w.columns()}, rewriter.getI32Type());
    Value columnSum = integers<int32_t>(rewriter, op, ofColumns, columnSums, "column_sums");
    Value offset = multiply(rewriter, location, zero, columnSum);
    sums = tn::SubOp::create(rewriter, location, sumType, sums, offset);
    if (llvm::any_of(w.shifts, [](int64_t shift) { return shift != 0; })) {
      Value shift = integers<int32_t>(rewriter, op, ofColumns, w.shifts, "shifts");
      Value more = multiply(rewriter, location, sumOfRows(rewriter, location, numbers), shift);
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

  bool isGpu;
};

LogicalResult makeProducts(ModuleOp module, tn::WeightStore &weights, bool isGpu) {
  RewritePatternSet patterns(module.getContext());
  if (!isGpu) {
    // A GPU's transposes around convolutions meet where no quantization stands between.
    patterns.add<HoistMovement>(module.getContext());
  }
  patterns.add<ProductPattern>(module.getContext(), weights, isGpu);
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
  if (!hasProducts) {
    return success();
  }
  RewritePatternSet constants(module.getContext());
  addConstantPatterns(constants, weights, QuantizedWeights::Keep);
  return runPatterns(module, std::move(constants));
}

} // namespace

LogicalResult integerProducts(ModuleOp module, tn::WeightStore &weights) {
  return makeProducts(module, weights, /*isGpu=*/false);
}

LogicalResult integerProductsOfGpu(ModuleOp module, tn::WeightStore &weights) {
  return makeProducts(module, weights, /*isGpu=*/true);
}

} // namespace tenon::opt
