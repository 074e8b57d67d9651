// QuantizeLinear and DequantizeLinear in all their forms, ONNX's and ONNX Runtime's: integers of 8
// bits and more by one `tn` op where a scale belongs to the tensor or to an index of an axis,
// everything else by arithmetic. Relies on casts for how a number becomes one of a low-bit type.
#include "compiler/frontend/onnx/OpTable.h"
#include "compiler/frontend/onnx/ops/Quantizing.h"
#include "compiler/graph/TnRare.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;

namespace tenon::onnx {
namespace {

/// How scales and zero points lie over the tensor.
struct Granularity {
  int64_t axis = 0;
  int64_t block = 0; ///< 0 where a scale does not belong to a block
};

/// None after an error or gap.
std::optional<Granularity> readGranularity(NodeContext &c) {
  int64_t rank = c.rank(0), scaleRank = c.rank(1);
  int64_t block = c.integer("block_size", 0);
  bool isBlocked = block > 0 && scaleRank == rank && rank > 0;
  if (block < 0 || (scaleRank > 1 && !isBlocked)) {
    c.error(ErrorId::OnnxBadNode, "its scales are neither one number, nor one per index of an "
                                  "axis, nor blocks of a given size");
    return std::nullopt;
  }
  Granularity granularity;
  bool isPerAxis = scaleRank == 1 && c.type(1).getDimSize(0) != 1;
  c.ignore("axis"); // of a tensor with one scale
  bool hasAxis = c.opset >= 13 || c.node.domain == kMicrosoft;
  if (rank > 0 && hasAxis && (isBlocked || isPerAxis)) {
    granularity.axis = rank == 1 ? 0 : c.axis("axis", 1, rank);
  }
  if (isBlocked && !c.failed()) {
    granularity.block = block;
    tn::Dims blocks = c.dims(0);
    blocks[granularity.axis] = blocks[granularity.axis].ceilDiv(block);
    if (!tn::sameDims(c.dims(1), blocks)) {
      c.gap("it does not have one scale per block of the axis", "correct block_size");
    }
  }
  bool hasZeros = c.has(2) && c.type(1).hasStaticShape() && c.type(2).hasStaticShape();
  if (hasZeros && c.type(1).getNumElements() != c.type(2).getNumElements()) {
    c.error(ErrorId::OnnxBadNode, "it has " + Twine(c.type(1).getNumElements()) + " scales, but " +
                                      Twine(c.type(2).getNumElements()) + " zero points");
  }
  return c.failed() ? std::nullopt : std::optional(granularity);
}

/// A scale or zero point so that it broadcasts against the tensor.
Value spread(NodeContext &c, Value parameter, const Granularity &granularity) {
  RankedTensorType type = parameter ? cast<RankedTensorType>(parameter.getType()) : nullptr;
  if (!type || type.getRank() == 0 || (granularity.block == 0 && type.getDimSize(0) == 1)) {
    return type ? c.reshape(parameter, {}) : parameter;
  }
  int64_t axis = granularity.axis;
  if (granularity.block == 0) {
    return c.alongAxis(parameter, axis, c.rank(0));
  }
  tn::Dims blocks = tn::getDims(type), each = blocks;
  each.insert(each.begin() + axis + 1, c.constantSize(1));
  Value repeated = c.reshape(parameter, each);
  each[axis + 1] = c.constantSize(granularity.block);
  repeated = c.broadcast(repeated, each);
  blocks[axis] = multiplySizes(blocks[axis], c.constantSize(granularity.block));
  AffineExpr size = c.dims(0)[axis];
  repeated = c.reshape(repeated, blocks);
  return tn::sameDim(blocks[axis], size) ? repeated
                                         : c.sliceAxis(repeated, axis, c.constantSize(0), size);
}

/// Whether the tensor is weights of 4 or 8 bits.
bool isLowBitWeight(NodeContext &c) {
  IntegerType element = dyn_cast<IntegerType>(c.element(0));
  Value x = c.value(0);
  return element && (element.getWidth() == 4 || element.getWidth() == 8) && x &&
         isa_and_nonnull<tn::ConstantOp, tn::WeightOp, tn::UnpackBitsOp>(x.getDefiningOp());
}

/// An integer of 4 bits as one of 8.
Value asByte(NodeContext &c, Value x) {
  bool isUnsigned = x && getElementTypeOrSelf(x).isUnsignedInteger();
  return c.cast(x, isUnsigned ? c.builder().getIntegerType(8, false) : c.builder().getI8Type());
}

/// Blocks along an axis as rows [others, block] with a scale for each, and back. Null where the
/// axis is no whole number of blocks.
Value dequantizeBlocks(NodeContext &c, const Granularity &granularity, Value scale) {
  ArrayRef<int64_t> shape = c.type(0).getShape();
  int64_t axis = granularity.axis, rank = c.rank(0), block = granularity.block;
  if (!c.type(0).hasStaticShape() || shape[axis] % block != 0) {
    return Value();
  }
  tn::Dims apart = c.dims(0);
  apart[axis] = c.constantSize(shape[axis] / block);
  apart.insert(apart.begin() + axis + 1, c.constantSize(block));
  SmallVector<int64_t> last = llvm::to_vector(llvm::seq<int64_t>(0, rank + 1)), back(rank + 1);
  last.erase(last.begin() + axis + 1);
  last.push_back(axis + 1);
  for (auto [to, from] : llvm::enumerate(last)) {
    back[from] = static_cast<int64_t>(to);
  }
  Value x = c.transpose(c.reshape(asByte(c, c.value(0)), apart), last);
  if (!x) {
    return x;
  }
  tn::Dims moved = tn::getDims(x.getType());
  AffineExpr rows = c.constantSize(c.type(0).getNumElements() / block);
  auto flat = [&](Value parameter) { return c.reshape(parameter, {rows}); };
  Value zero = c.has(2) ? asByte(c, flat(c.value(2)))
                        : c.broadcast(c.scalar(0, getElementTypeOrSelf(x)), {rows});
  Value y =
      emitDequantize(c, c.reshape(x, {rows, c.constantSize(block)}), flat(scale), zero, /*axis=*/0);
  return c.reshape(c.transpose(c.reshape(y, moved), back), c.dims(0));
}

bool isComputedFloat(Type element) {
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() >= 16;
}

bool isComputedInteger(Type element) {
  return isa<IntegerType>(element) && element.getIntOrFloatBitWidth() >= 8;
}

/// round(x / scale) + zero, held in the range of an integer type; NaN becomes the lowest.
Value roundToLevels(NodeContext &c, Value quotient, Value zero, Type element) {
  Type real = c.builder().getF32Type();
  if (quotient && getElementTypeOrSelf(quotient).isF64()) {
    real = c.builder().getF64Type();
  }
  Value level = c.cast(c.unary<tn::RoundOp>(quotient), real);
  if (zero) {
    level = c.add(level, c.cast(zero, real));
  }
  unsigned bits = element.getIntOrFloatBitWidth();
  bool isUnsigned = element.isUnsignedInteger();
  double low = isUnsigned ? 0 : -std::ldexp(1, bits - 1);
  double high = std::ldexp(1, isUnsigned ? bits : bits - 1) - 1;
  Value held = c.unary<tn::ClampOp>(level, llvm::APFloat(low), llvm::APFloat(high));
  Value least = c.scalar(low, real);
  return c.cast(c.select(c.compare(level, tn::Predicate::ge, least), held, least), element);
}

/// The type in which x is divided by its scale.
Type quotientType(NodeContext &c) {
  if (Type given = c.elementNamed("precision", Type())) {
    return given;
  }
  if (isComputedFloat(c.element(1))) {
    return c.element(1);
  }
  if (isa<IntegerType>(c.element(1))) {
    return c.builder().getF64Type();
  }
  return isComputedFloat(c.element(0)) ? c.element(0) : Type(c.builder().getF32Type());
}

void quantizeLinear(NodeContext &c) {
  c.ignore("saturate"); // of 8-bit floats
  Type stated = c.elementNamed("output_dtype", Type());
  Type element = c.has(2) ? c.element(2) : stated;
  if (!element) {
    element = c.builder().getIntegerType(8, false);
  }
  Type real = quotientType(c);
  std::optional<Granularity> granularity = readGranularity(c);
  checkScales(c, 1, /*divides=*/true);
  if (!granularity || c.failed()) {
    return;
  }
  if ((stated && stated != element) || !isComputedFloat(real)) {
    return c.error(ErrorId::OnnxBadAttribute,
                   "output_dtype is not the zero point's type, or precision is not a float type");
  }
  if (element.isInteger(1) || element.getIntOrFloatBitWidth() > 16 || isComputedFloat(element)) {
    return c.gap("its quantized type is not supported", "use integers of at most 16 bits");
  }
  Value x = c.cast(c.value(0), real);
  Value scale = c.cast(c.value(1), real);
  if (isComputedInteger(element) && granularity->block == 0) {
    Value zero = zeroPoint(c, 2, scale, element);
    return c.setOutput(0, emitQuantize(c, x, scale, zero, granularity->axis, element));
  }
  Value quotient = c.div(x, spread(c, scale, *granularity));
  Value zero = c.has(2) ? spread(c, c.value(2), *granularity) : Value();
  if (isa<IntegerType>(element)) {
    return c.setOutput(0, roundToLevels(c, quotient, zero, element));
  }
  Value level = zero ? c.add(quotient, c.cast(zero, real)) : quotient;
  c.setOutput(0, c.cast(level, element, c.integer("saturate", 1) != 0));
}

void dequantizeLinear(NodeContext &c) {
  Type element = c.elementNamed("output_dtype", Type());
  if (!element) {
    element = c.element(1);
  }
  std::optional<Granularity> granularity = readGranularity(c);
  checkScales(c, 1, /*divides=*/false);
  if (!granularity || c.failed()) {
    return;
  }
  if (!isComputedFloat(element)) {
    return c.error(ErrorId::OnnxBadNode, "it does not say which float type its result has");
  }
  Type scaleType = isComputedFloat(c.element(1)) ? c.element(1) : Type(c.builder().getF32Type());
  bool isWide = element.getIntOrFloatBitWidth() > scaleType.getIntOrFloatBitWidth();
  Type real = isWide ? element : scaleType;
  Value scale = c.cast(c.value(1), real);
  if ((isComputedInteger(c.element(0)) || isLowBitWeight(c)) && granularity->block == 0) {
    bool isWide = isComputedInteger(c.element(0));
    Value x = isWide ? c.value(0) : asByte(c, c.value(0));
    Value zero = zeroPoint(c, 2, scale, c.element(0));
    zero = isWide ? zero : asByte(c, zero);
    return c.setOutput(0, c.cast(emitDequantize(c, x, scale, zero, granularity->axis), element));
  }
  if (isLowBitWeight(c)) {
    if (Value y = dequantizeBlocks(c, *granularity, scale)) {
      return c.setOutput(0, c.cast(y, element));
    }
  }
  // Differences and products of such numbers are rounded once, at the end.
  bool isExact = c.element(0).getIntOrFloatBitWidth() <= 16 && !real.isF64();
  real = isExact ? Type(c.builder().getF32Type()) : Type(c.builder().getF64Type());
  Value x = c.cast(c.value(0), real);
  if (c.has(2)) {
    x = c.sub(x, c.cast(spread(c, c.value(2), *granularity), real));
  }
  Value y = c.mul(x, c.cast(spread(c, c.value(1), *granularity), real));
  c.setOutput(0, c.cast(y, element));
}

constexpr Attributes kDequantize = {
    {"axis", kInt, 13}, {"block_size", kInt, 21}, {"output_dtype", kInt, 23}};
constexpr Attributes kQuantize = {{"axis", kInt, 13},
                                  {"block_size", kInt, 21},
                                  {"output_dtype", kInt, 21},
                                  {"precision", kInt, 23},
                                  {"saturate", kInt, 19}};

constexpr OpRow kLinearQuantizationOpRows[] = {
    {"DequantizeLinear", 10, 2, 3, 1, dequantizeLinear, kDequantize},
    {"QuantizeLinear", 10, 2, 3, 1, quantizeLinear, kQuantize},
    {"DequantizeLinear", 1, 2, 3, 1, dequantizeLinear, {{"axis", kInt}}, kMicrosoft},
    {"QuantizeLinear", 1, 2, 3, 1, quantizeLinear, {{"axis", kInt}}, kMicrosoft},
};

} // namespace

ArrayRef<OpRow> linearQuantizationRows() { return kLinearQuantizationOpRows; }

} // namespace tenon::onnx
