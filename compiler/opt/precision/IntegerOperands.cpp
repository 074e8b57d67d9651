// Relies on weights behind tn.dequantize being left so by constant folding.
#include "compiler/opt/precision/IntegerOperands.h"

#include "compiler/graph/WideReason.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstring>

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr llvm::StringLiteral kIntegerPass = "integer-products";

/// Movement looked through between a product and what quantizes its operand.
constexpr int kOperandSteps = 16;
/// Of two 8-bit numbers, and of an i32: sums of products of floats must not wrap.
constexpr double kMaxDifference = 255, kMaxSum = 2147483647;

Type elementOf(Value value) { return getElementTypeOrSelf(value); }

template <typename T> std::vector<int16_t> narrowed(ArrayRef<char> bytes) {
  std::vector<int16_t> numbers;
  numbers.reserve(bytes.size() / sizeof(T));
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T number;
    std::memcpy(&number, bytes.data() + i, sizeof(T));
    if (number < -kMaxDifference || number > kMaxDifference) {
      return {};
    }
    numbers.push_back(static_cast<int16_t>(number));
  }
  return numbers;
}

/// A constant of 8-bit numbers, or of differences of such in i32; empty for others.
std::vector<int16_t> numbersOf(const Constants &constants, Value constant) {
  std::vector<char> bytes = constants.bytes(constant);
  Type element = elementOf(constant);
  return element.isUnsignedInteger(8) ? narrowed<uint8_t>(bytes)
         : element.isInteger(8)       ? narrowed<int8_t>(bytes)
                                      : narrowed<int32_t>(bytes);
}

void findShifts(Levels &levels) {
  std::vector<int16_t> least(levels.columns(), 0), most(levels.columns(), 0);
  for (auto [i, value] : llvm::enumerate(levels.values)) {
    int64_t column = levels.columnOf(i);
    least[column] = std::min(least[column], value);
    most[column] = std::max(most[column], value);
  }
  for (auto [low, high] : llvm::zip_equal(least, most)) {
    bool isSigned = low >= -kUnsignedShift && high < kUnsignedShift;
    levels.shifts.push_back(isSigned ? 0 : low + kUnsignedShift);
  }
}

} // namespace

bool isByte(Type element) { return element.isInteger(8); }

tn::DequantizeOp dequantizeOf(Value value) {
  tn::DequantizeOp op = value.getDefiningOp<tn::DequantizeOp>();
  return op && isByte(elementOf(op.getX())) ? op : tn::DequantizeOp();
}

bool isPerTensor(Operation *quantization) {
  return llvm::all_of(quantization->getOperands().drop_front(),
                      [](Value parameter) { return tensorType(parameter).getRank() == 0; });
}

bool isUsualScale(const Constants &constants, Value scale) {
  constexpr double kMin = 1e-30, kMax = 1e30;
  std::optional<double> value = constants.scalar(scale);
  return value && *value > kMin && *value < kMax;
}

int64_t Levels::columnOf(size_t i) const {
  int64_t inner = 1;
  for (int64_t size : type.getShape().drop_front(columnDim + 1)) {
    inner *= size;
  }
  return int64_t(i) / inner % columns();
}

bool Levels::isShifted() const {
  return llvm::any_of(shifts, [](int64_t shift) { return shift != 0; });
}

bool Levels::fits() const {
  return llvm::all_of(llvm::enumerate(values), [&](auto each) {
    int64_t value = each.value() - shifts[columnOf(each.index())];
    return value >= -kUnsignedShift && value < kUnsignedShift;
  });
}

bool Levels::sumsFit() const {
  int64_t most = 0;
  for (int64_t value : values) {
    most = std::max(most, value < 0 ? -value : value);
  }
  return kMaxDifference * double(most) * double(depth()) <= kMaxSum;
}

std::vector<int64_t> Levels::columnSums() const {
  std::vector<int64_t> sums(columns(), 0);
  for (auto [i, level] : llvm::enumerate(values)) {
    sums[columnOf(i)] += level;
  }
  return sums;
}

std::optional<Quantized> IntegerOperands::dequantized(Value operand) {
  tn::DequantizeOp source = dequantizeOf(operand);
  if (!source || Constants::isConstant(source.getX())) {
    return std::nullopt;
  }
  return Quantized{source.getX(), source.getZeroPoint(), source.getScale(),
                   static_cast<int64_t>(source.getAxis())};
}

std::optional<Quantized> IntegerOperands::centered(Value operand) {
  Quantized result;
  if (tn::SubOp difference = operand.getDefiningOp<tn::SubOp>()) {
    if (!sameShape(difference.getA(), operand)) {
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

std::optional<Levels> IntegerOperands::levelsOf(Value weight, int64_t columnDim,
                                                bool isFloat) const {
  tn::DequantizeOp source = isFloat ? dequantizeOf(weight) : tn::DequantizeOp();
  if (isFloat && !source) {
    return std::nullopt;
  }
  Value numbers = source ? source.getX() : weight;
  RankedTensorType type = tensorType(numbers);
  if (!Constants::isConstant(numbers) || type.getRank() < 2 || type.getNumElements() == 0) {
    return std::nullopt;
  }
  std::vector<int16_t> values = numbersOf(constants, numbers);
  std::optional<std::vector<double>> zeros =
      source ? constants.elements(source.getZeroPoint()) : std::vector<double>{0};
  if (values.empty() || !zeros || zeros->empty()) {
    return std::nullopt;
  }
  bool isPerColumn = source && (tensorType(source.getScale()).getRank() == 1 || zeros->size() > 1);
  if (isPerColumn && static_cast<int64_t>(source.getAxis()) != columnDim) {
    return std::nullopt;
  }
  Levels levels{.type = type,
                .columnDim = columnDim,
                .values = std::move(values),
                .shifts = {},
                .scale = source ? source.getScale() : Value()};
  for (auto [i, value] : llvm::enumerate(levels.values)) {
    value -= static_cast<int16_t>((*zeros)[zeros->size() == 1 ? 0 : levels.columnOf(i)]);
  }
  findShifts(levels);
  return levels;
}

Value IntegerOperands::asUnsigned(PatternRewriter &rewriter, Value numbers) const {
  return retyped(rewriter, numbers, rewriter.getIntegerType(8, /*isSigned=*/false), kUnsignedShift,
                 kOperandSteps);
}

Value IntegerOperands::asSigned(PatternRewriter &rewriter, Value numbers) const {
  return retyped(rewriter, numbers, rewriter.getI8Type(), -kUnsignedShift, kOperandSteps);
}

Value IntegerOperands::retyped(PatternRewriter &rewriter, Value numbers, Type byte, int64_t by,
                               int steps) const {
  if (elementOf(numbers) == byte) {
    return numbers;
  }
  Type type = tn::withElement(numbers.getType(), byte);
  Operation *op = numbers.getDefiningOp();
  if (steps > 0 && isMoved(op)) {
    SmallVector<Value> operands(op->getOperands());
    operands[0] = retyped(rewriter, operands[0], byte, by, steps - 1);
    return rebuild(rewriter, op, operands, type)->getResult(0);
  }
  if (tn::QuantizeOp quantize = numbers.getDefiningOp<tn::QuantizeOp>()) {
    Value zero = shifted(rewriter, quantize.getZeroPoint(), byte, by);
    return tn::QuantizeOp::create(rewriter, numbers.getLoc(), type, quantize.getX(),
                                  quantize.getScale(), zero, quantize.getAxis());
  }
  return shifted(rewriter, numbers, byte, by);
}

Value IntegerOperands::shifted(PatternRewriter &rewriter, Value numbers, Type element,
                               int64_t by) const {
  Location location = numbers.getLoc();
  std::optional<double> known =
      tensorType(numbers).getRank() == 0 ? constants.scalar(numbers) : std::nullopt;
  if (known) {
    int64_t value = static_cast<int64_t>(*known) + by;
    RankedTensorType type = RankedTensorType::get({}, element);
    return tn::ConstantOp::create(
        rewriter, location, type,
        DenseElementsAttr::get(type, rewriter.getIntegerAttr(element, value)));
  }
  Value wide = castTo(rewriter, location, numbers, rewriter.getI32Type());
  Value more = tn::AddOp::create(rewriter, location, wide.getType(), wide,
                                 integerNumber(rewriter, location, by));
  return castTo(rewriter, location, more, element);
}

Value IntegerOperands::wideZero(PatternRewriter &rewriter, const Quantized &x, Value zero) const {
  Location location = x.numbers.getLoc();
  if (!zero) {
    return integerNumber(rewriter, location, 0);
  }
  std::optional<double> known =
      tensorType(zero).getRank() == 0 ? constants.scalar(zero) : std::nullopt;
  return known ? integerNumber(rewriter, location, static_cast<int64_t>(*known))
               : castTo(rewriter, location, zero, rewriter.getI32Type());
}

Value IntegerOperands::unsignedZero(PatternRewriter &rewriter, const Quantized &x,
                                    Value zero) const {
  if (!isSignedByte(elementOf(x.numbers))) {
    return wideZero(rewriter, x, zero);
  }
  zero = zero ? zero : integerNumber(rewriter, x.numbers.getLoc(), 0);
  return shifted(rewriter, zero, rewriter.getI32Type());
}

Value IntegerOperands::make(PatternRewriter &rewriter, Value weight, RankedTensorType type,
                            std::vector<char> bytes, StringRef what) const {
  tn::DequantizeOp source = dequantizeOf(weight);
  tn::WeightOp stored = (source ? source.getX() : weight).getDefiningOp<tn::WeightOp>();
  return constants.make(rewriter, weight.getLoc(), type, std::move(bytes),
                        (stored ? stored.getId() + "." + what : llvm::Twine(what)).str(),
                        kIntegerPass);
}

Value IntegerOperands::ofColumns(PatternRewriter &rewriter, Value weight,
                                 const std::vector<int64_t> &values, StringRef what) const {
  int64_t count = static_cast<int64_t>(values.size());
  return integers<int32_t>(rewriter, weight, RankedTensorType::get({count}, rewriter.getI32Type()),
                           values, what);
}

Value IntegerOperands::scaled(PatternRewriter &rewriter, Value sums, Value scale,
                              Value weightScale) const {
  Location location = sums.getLoc();
  Value result = castTo(rewriter, location, sums, rewriter.getF32Type());
  bool areConstant = Constants::isConstant(scale) && Constants::isConstant(weightScale);
  if (areConstant && tensorType(scale).getRank() == 0) {
    return tn::MulOp::create(rewriter, location, result.getType(), result,
                             multiplyParameters(rewriter, location, scale, weightScale));
  }
  for (Value factor : {scale, weightScale}) {
    result = tn::MulOp::create(rewriter, location, result.getType(), result, factor);
  }
  return result;
}

PricedProduct::PricedProduct(const PriceProduct &price, Operation *op, int64_t channels)
    : times(price ? price(op, channels) : ProductTimes()) {}

void PricedProduct::keep(PatternRewriter &rewriter, Operation *op) const {
  rewriter.modifyOpInPlace(op, [&] {
    op->setAttr(tn::kWideReason, rewriter.getStringAttr("it is predicted to be faster in fp32, "
                                                        "with what widening its operand takes"));
    op->setAttr(tn::kPriced, rewriter.getI64IntegerAttr(times.number));
  });
}

void PricedProduct::note(Operation *product) const {
  if (times.wide > 0) {
    product->setAttr(tn::kPriced, Builder(product->getContext()).getI64IntegerAttr(times.number));
  }
}

bool isKeptWide(Operation *op) { return op->hasAttr(tn::kWideReason); }

Value integerNumber(PatternRewriter &rewriter, Location location, int64_t value) {
  RankedTensorType type = RankedTensorType::get({}, rewriter.getI32Type());
  return tn::ConstantOp::create(
      rewriter, location, type,
      DenseElementsAttr::get(type, rewriter.getI32IntegerAttr(static_cast<int32_t>(value))));
}

Value multiplyParameters(PatternRewriter &rewriter, Location location, Value a, Value b) {
  tn::Dims dims = *tn::broadcastDims(tn::getDims(a.getType()), tn::getDims(b.getType()));
  return tn::MulOp::create(rewriter, location, tn::makeTensor(dims, elementOf(a)), a, b);
}

} // namespace tenon::opt
