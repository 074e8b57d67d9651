// A quantized product is put into its one form with scales as numbers; one of 16-bit floats gets
// scales that are powers of two, so that nothing but the rounding to 8 bits changes numbers: of
// weights by their largest magnitude, of activations by a bound that holds for any input
// (Float8Bounds.h). Relies on E4M3 having the same precision over 2^14 for that.
#include "compiler/opt/Float8Products.h"

#include "compiler/graph/Float8.h"
#include "compiler/graph/Shape.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/precision/Float8Bounds.h"
#include "compiler/opt/precision/Float8Codes.h"
#include "compiler/target/Float8.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr llvm::StringLiteral kFloat8Pass = "float8-products";

constexpr PrecisionRule kNoUnit = {
    "float8-architecture", "the target has no products of 8-bit floats; GPUs from sm_89 on have"};
constexpr PrecisionRule kNoWeights = {
    "float8-operands",
    "it has no constant weights of two dims, or reads the transpose of its rows"};
constexpr PrecisionRule kBorders = {"float8-borders",
                                    "columns or depth are not known multiples of 16"};
constexpr PrecisionRule kUnbounded = {
    "float8-range", "nothing bounds what it reads closely enough for a scale that needs no data"};
constexpr PrecisionRule kNoGain = {
    "float8-time", "it is predicted to take as long in fp16, quantization included"};

/// A factor below this would leave usual activations (0.1 and more) too few codes.
constexpr double kMinFactor = 0.25;
/// Above, none is needed.
constexpr double kMaxFactor = 64;
/// What stands for a size that varies.
constexpr int64_t kRepresentative = 128;

/// The largest power of two by which `magnitude` stays in the finite range.
double factorFor(double magnitude) {
  return magnitude > 0 ? std::exp2(std::floor(std::log2(tn::kLargestFloat8 / magnitude))) : 1;
}

bool isFloat8(Value value) { return isa<Float8E4M3FNType>(getElementTypeOrSelf(value)); }
bool isHalf(Value value) {
  Type element = getElementTypeOrSelf(value);
  return element.isF16() || element.isBF16();
}

/// What stands behind a quantized operand: casts between floats and factors around tn.decode.
struct CodedOperand {
  Value codes;
  double factor = 1;
  std::vector<float> ofColumns; ///< a factor for each; empty for none
};

class Float8Conversion {
public:
  Float8Conversion(func::FuncOp model, tn::WeightStore &weights, const target::Target &target,
                   const Float8Options &given, PrecisionRecord &conversionRecord)
      : function(model), constants(weights), bounds(constants), device(target), options(given),
        record(conversionRecord), builder(model.getContext()) {
    for (const tn::Symbol &symbol : tn::SymbolList(model->getParentOfType<ModuleOp>()).symbols()) {
      symbols.push_back(std::clamp(kRepresentative, symbol.min, symbol.max));
    }
  }

  void run();

private:
  std::optional<CodedOperand> quantizedOf(Value operand, std::optional<int64_t> columnDim) const;
  bool convertQuantized(tn::MatmulOp product);
  const PrecisionRule *refusalOf(tn::MatmulOp product);
  void quantize(tn::MatmulOp product, double factorA);
  Value codesOf(Value activation, double factor);
  Value weightCodes(Value weight, bool isTransposed, double &factor);
  Value transposedCodes(Value codes);
  Value operandOf(Location location, Value codes, double factor, Type element);
  Value makeProduct(tn::MatmulOp product, Value a, double factorA, Value b, double factorB,
                    Type element);
  bool isFaster(tn::MatmulOp product, int64_t columns, int64_t depth);
  void eraseDead();

  func::FuncOp function;
  Constants constants;
  Float8Bounds bounds;
  const target::Target &device;
  const Float8Options &options;
  PrecisionRecord &record;
  OpBuilder builder;
  SmallVector<int64_t> symbols;
  llvm::DenseMap<Value, Value> quantized;                      ///< codes of activations
  llvm::DenseMap<std::pair<Value, unsigned>, Value> ofWeights; ///< codes of weights
  llvm::DenseMap<Value, double> factors;                       ///< of weights
};

/// The columns and the depth of a product by a matrix; none where they vary.
std::optional<std::pair<int64_t, int64_t>> sizesOf(tn::MatmulOp product) {
  RankedTensorType type = tensorType(product.getB());
  if (type.getRank() != 2 || !type.hasStaticShape()) {
    return std::nullopt;
  }
  bool isTransposed = product.getTransposeB();
  return std::pair(type.getDimSize(isTransposed ? 0 : 1), type.getDimSize(isTransposed ? 1 : 0));
}

bool isOnBorders(std::pair<int64_t, int64_t> sizes) {
  return sizes.first > 0 && sizes.second > 0 && sizes.first % tn::kFloat8Border == 0 &&
         sizes.second % tn::kFloat8Border == 0;
}

std::optional<CodedOperand> Float8Conversion::quantizedOf(Value operand,
                                                          std::optional<int64_t> columnDim) const {
  CodedOperand result;
  while (Operation *op = operand.getDefiningOp()) {
    if (tn::DecodeOp decode = dyn_cast<tn::DecodeOp>(op)) {
      result.codes = decode.getX();
      return isFloat8(result.codes) ? std::optional(result) : std::nullopt;
    }
    if (tn::CastOp cast = dyn_cast<tn::CastOp>(op);
        cast && isa<FloatType>(getElementTypeOrSelf(cast.getX()))) {
      operand = cast.getX();
      continue;
    }
    tn::MulOp scaled = dyn_cast<tn::MulOp>(op);
    if (!scaled) {
      return std::nullopt;
    }
    bool isFirst = Constants::isConstant(scaled.getA()) && !Constants::isConstant(scaled.getB());
    Value factor = isFirst ? scaled.getA() : scaled.getB();
    operand = isFirst ? scaled.getB() : scaled.getA();
    if (std::optional<double> number = constants.scalar(factor)) {
      result.factor *= *number;
      continue;
    }
    // One for each column: all other dims are 1.
    RankedTensorType type = tensorType(factor), whole = tensorType(operand);
    std::vector<float> elements = floatsOf(constants, factor);
    bool isOfColumns =
        columnDim && result.ofColumns.empty() && type.hasStaticShape() && type.getRank() <= 2 &&
        static_cast<int64_t>(elements.size()) == whole.getDimSize(*columnDim) &&
        type.getRank() > 1 - *columnDim &&
        type.getDimSize(*columnDim - 2 + type.getRank()) == whole.getDimSize(*columnDim);
    if (!isOfColumns) {
      return std::nullopt;
    }
    result.ofColumns = elements;
  }
  return std::nullopt;
}

/// decode(codes) * factor, as graph/Float8.h has it.
Value Float8Conversion::operandOf(Location location, Value codes, double factor, Type element) {
  RankedTensorType type = tn::withElement(codes.getType(), element);
  Value decoded = tn::DecodeOp::create(builder, location, type, codes);
  if (factor == 1) {
    return decoded;
  }
  RankedTensorType scalar = RankedTensorType::get({}, element);
  Value number =
      tn::ConstantOp::create(builder, location, scalar,
                             DenseElementsAttr::get(scalar, builder.getFloatAttr(element, factor)));
  return tn::MulOp::create(builder, location, type, decoded, number);
}

Value Float8Conversion::makeProduct(tn::MatmulOp product, Value a, double factorA, Value b,
                                    double factorB, Type element) {
  Location location = product.getLoc();
  builder.setInsertionPoint(product);
  Value left = operandOf(location, a, factorA, element);
  Value right = operandOf(location, b, factorB, element);
  tn::MatmulOp made = tn::MatmulOp::create(builder, location,
                                           tn::withElement(product.getType(), element), left, right,
                                           /*transposeA=*/false, /*transposeB=*/true);
  made->setAttr(tn::kFloat8, builder.getUnitAttr());
  ++record.float8;
  return made;
}

/// A constant [depth, columns] of codes as [columns, depth].
Value Float8Conversion::transposedCodes(Value codes) {
  Value &made = ofWeights[{codes, false}];
  if (!made) {
    RankedTensorType type = tensorType(codes);
    int64_t depth = type.getDimSize(0), columns = type.getDimSize(1);
    std::vector<char> from = constants.bytes(codes), to(from.size());
    for (int64_t i = 0; i < depth; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        to[j * depth + i] = from[i * columns + j];
      }
    }
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(codes);
    made = constants.make(builder, codes.getLoc(),
                          RankedTensorType::get({columns, depth}, type.getElementType()), to,
                          "float8", kFloat8Pass);
  }
  return made;
}

/// Two quantized operands, as models have them that a quantizer wrote.
bool Float8Conversion::convertQuantized(tn::MatmulOp product) {
  Type element = product.getType().getElementType();
  std::optional<std::pair<int64_t, int64_t>> sizes = sizesOf(product);
  if (!sizes || !isOnBorders(*sizes) || product.getTransposeA() ||
      !(element.isF32() || element.isF16() || element.isBF16())) {
    return false;
  }
  std::optional<CodedOperand> a = quantizedOf(product.getA(), std::nullopt);
  std::optional<CodedOperand> b =
      a ? quantizedOf(product.getB(), product.getTransposeB() ? 0 : 1) : std::nullopt;
  if (!b || !Constants::isConstant(b->codes) || constants.bytes(b->codes).empty()) {
    return false;
  }
  Value weight = product.getTransposeB() ? b->codes : transposedCodes(b->codes);
  if (b->ofColumns.empty()) {
    Value made = makeProduct(product, a->codes, a->factor, weight, b->factor, element);
    product.replaceAllUsesWith(made);
    product.erase();
    return true;
  }
  // Sums of unequal columns need the range of f32 until each has its factor.
  Value sums = makeProduct(product, a->codes, a->factor, weight, b->factor, builder.getF32Type());
  std::vector<double> ofColumns(b->ofColumns.begin(), b->ofColumns.end());
  Value columns = constants.make(builder, product.getLoc(),
                                 RankedTensorType::get({sizes->first}, builder.getF32Type()),
                                 ofColumns, "float8.scales", kFloat8Pass);
  Value scaled = tn::MulOp::create(builder, product.getLoc(), sums.getType(), sums, columns);
  product.replaceAllUsesWith(castTo(builder, product.getLoc(), scaled, element));
  product.erase();
  return true;
}

/// By the times of both, which are noted where it is not.
bool Float8Conversion::isFaster(tn::MatmulOp product, int64_t columns, int64_t depth) {
  double rows = 1;
  for (AffineExpr dim : ArrayRef(tn::getDims(product.getType())).drop_back()) {
    rows *= double(tn::evaluate(dim, symbols).value_or(1));
  }
  double half = 2 * rows * double(columns) * double(depth) / device.halfPeak;
  double quantizing = rows * double(depth) / device.memoryBandwidth;
  double float8 = half / target::kFloat8Speed + target::kFloat8Seconds + quantizing;
  if (half > float8) {
    return true;
  }
  ++record.fasterInHalf;
  record.halfSeconds += half;
  record.float8Seconds += float8;
  return false;
}

/// Why a product of 16-bit floats stays one; null if it becomes one of 8-bit floats.
const PrecisionRule *Float8Conversion::refusalOf(tn::MatmulOp product) {
  if (!target::hasFloat8(device)) {
    return &kNoUnit;
  }
  std::optional<std::pair<int64_t, int64_t>> sizes = sizesOf(product);
  if (!sizes || !Constants::isConstant(product.getB()) || product.getTransposeA()) {
    return &kNoWeights;
  }
  if (!isOnBorders(*sizes)) {
    return &kBorders;
  }
  if (!options.isAlways && !isFaster(product, sizes->first, sizes->second)) {
    return &kNoGain;
  }
  std::optional<double> bound = bounds.of(product.getA());
  return bound && factorFor(*bound) >= kMinFactor ? nullptr : &kUnbounded;
}

/// Of what a reshape reads, so that what makes that can store them.
Value Float8Conversion::codesOf(Value activation, double factor) {
  if (Value known = quantized.lookup(activation)) {
    return known;
  }
  Value codes;
  if (tn::ReshapeOp reshaped = activation.getDefiningOp<tn::ReshapeOp>()) {
    Value inner = codesOf(reshaped.getX(), factor);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(activation);
    codes = rebuild(builder, reshaped, inner,
                    tn::withElement(activation.getType(), getElementTypeOrSelf(inner)))
                ->getResult(0);
  } else {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(activation);
    Location location = activation.getLoc();
    Value scaled = activation;
    if (factor != 1) {
      Type element = getElementTypeOrSelf(activation);
      RankedTensorType scalar = RankedTensorType::get({}, element);
      Value number = tn::ConstantOp::create(
          builder, location, scalar,
          DenseElementsAttr::get(scalar, builder.getFloatAttr(element, factor)));
      scaled = tn::MulOp::create(builder, location, activation.getType(), activation, number);
    }
    Type type = tn::withElement(activation.getType(), builder.getType<Float8E4M3FNType>());
    codes = tn::EncodeOp::create(builder, location, type, scaled);
  }
  quantized[activation] = codes;
  return codes;
}

/// Codes [columns, depth] of a constant, and by what they are multiplied.
Value Float8Conversion::weightCodes(Value weight, bool isTransposed, double &factor) {
  Value &codes = ofWeights[{weight, isTransposed}];
  if (!codes) {
    std::vector<float> numbers = floatsOf(constants, weight);
    float most = 0;
    for (float number : numbers) {
      most = std::max(most, std::fabs(number));
    }
    double scale = factorFor(most);
    RankedTensorType type = tensorType(weight);
    int64_t outer = type.getDimSize(0), inner = type.getDimSize(1);
    std::vector<char> bytes =
        codesOfWeight(numbers, outer, inner, isTransposed, static_cast<float>(scale));
    SmallVector<int64_t> dims = {isTransposed ? outer : inner, isTransposed ? inner : outer};
    tn::WeightOp stored = weight.getDefiningOp<tn::WeightOp>();
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(weight);
    codes = constants.make(
        builder, weight.getLoc(), RankedTensorType::get(dims, builder.getType<Float8E4M3FNType>()),
        bytes, (stored ? stored.getId() + ".f8" : llvm::Twine("f8")).str(), kFloat8Pass);
    factors[codes] = 1 / scale;
  }
  factor = factors[codes];
  return codes;
}

void Float8Conversion::quantize(tn::MatmulOp product, double factorA) {
  double factorB = 1;
  Value a = codesOf(product.getA(), factorA);
  Value b = weightCodes(product.getB(), product.getTransposeB(), factorB);
  Value made = makeProduct(product, a, 1 / factorA, b, factorB, product.getType().getElementType());
  product.replaceAllUsesWith(made);
  product.erase();
}

/// What nothing reads any more, from the last operation on.
void Float8Conversion::eraseDead() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front()))) {
    bool isMade = isa<tn::WeightOp, tn::ConstantOp, tn::DecodeOp, tn::MulOp, tn::CastOp>(op);
    if (isMade && op.use_empty()) {
      op.erase();
    }
  }
}

void Float8Conversion::run() {
  SmallVector<tn::MatmulOp> products(function.getBody().front().getOps<tn::MatmulOp>());
  SmallVector<std::pair<tn::MatmulOp, double>> quantizing;
  for (tn::MatmulOp product : products) {
    if (target::hasFloat8(device) && convertQuantized(product)) {
      continue;
    }
    if (!options.quantizes || !isHalf(product.getResult())) {
      continue;
    }
    if (const PrecisionRule *rule = refusalOf(product)) {
      record.notFloat8.push_back(
          {product.getLoc(), product->getName().getStringRef().str(), *rule});
      continue;
    }
    double factor = factorFor(*bounds.of(product.getA()));
    quantizing.push_back({product, std::min(factor, kMaxFactor)});
  }
  // Bounds are of the products as they were.
  for (auto [product, factor] : quantizing) {
    quantize(product, factor);
  }
  eraseDead();
}

} // namespace

LogicalResult float8Products(ModuleOp module, tn::WeightStore &weights,
                             const target::Target &device, const Float8Options &options,
                             PrecisionRecord &record) {
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    Float8Conversion(function, weights, device, options, record).run();
  }
  return success();
}

} // namespace tenon::opt
