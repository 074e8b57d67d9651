// Quantized forms of PT2E: a number is stored as round(x / scale) + zero point, held in [quant_min,
// quant_max].
#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

#include <algorithm>

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// Scale or zero point of a call: a number, or a tensor of one element or of one for each slice of
/// an axis.
mlir::Value parameter(Call &c, StringRef one, StringRef many, Type element, int64_t axis,
                      int64_t rank) {
  mlir::Value x = c.has(one) ? c.operand(one, element) : c.operand(many, element);
  if (!x || cast<RankedTensorType>(x.getType()).getRank() == 0) {
    return x;
  }
  return axis < 0 ? c.reshape(x, {}) : c.alongAxis(x, axis, rank);
}

struct Parameters {
  mlir::Value scale;
  mlir::Value zeroPoint;
};

Parameters parametersOf(Call &c, mlir::Value x) {
  int64_t rank = cast<RankedTensorType>(x.getType()).getRank();
  int64_t axis = c.has("axis") ? c.axis("axis", 0, rank) : -1;
  Type real = c.builder().getF32Type();
  return {parameter(c, "scale", "scales", real, axis, rank),
          parameter(c, "zero_point", "zero_points", real, axis, rank)};
}

/// Scale and zero point as tn.quantize and tn.dequantize have them: one, or a list along an axis.
struct Grid {
  mlir::Value scale;
  mlir::Value zeroPoint;
  int64_t axis = 0;
};

/// A number that is no value of the type.
bool isOutside(mlir::Value zero, IntegerType element) {
  tn::ConstantOp constant = zero.getDefiningOp<tn::ConstantOp>();
  DenseElementsAttr values =
      constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!values || !values.isSplat()) {
    return false;
  }
  int64_t least = element.isUnsigned() ? 0 : -128, most = element.isUnsigned() ? 255 : 127;
  if (isa<FloatType>(values.getElementType())) {
    double value = values.getSplatValue<APFloat>().convertToDouble();
    return value < static_cast<double>(least) || value > static_cast<double>(most);
  }
  int64_t value = values.getSplatValue<APInt>().getSExtValue();
  return value < least || value > most;
}

/// None where the numbers are not of 8 bits, or a zero point is none of them.
std::optional<Grid> gridOf(Call &c, mlir::Value x, Type numbers) {
  IntegerType element = dyn_cast_or_null<IntegerType>(numbers);
  if (!element || element.getWidth() != 8) {
    return std::nullopt;
  }
  Type real = c.builder().getF32Type();
  bool isPerAxis = c.has("axis");
  auto list = [&](StringRef one, StringRef many, Type type) {
    mlir::Value parameter = c.has(one) ? c.operand(one, type) : c.operand(many, type);
    bool isScalar = !parameter || cast<RankedTensorType>(parameter.getType()).getRank() == 0;
    return isScalar || isPerAxis ? parameter : c.reshape(parameter, {});
  };
  Grid grid{list("scale", "scales", real), list("zero_point", "zero_points", real),
            isPerAxis ? c.axis("axis", 0, cast<RankedTensorType>(x.getType()).getRank()) : 0};
  grid.scale = c.cast(grid.scale, real);
  if (!grid.scale || (grid.zeroPoint && isOutside(grid.zeroPoint, element))) {
    return std::nullopt;
  }
  tn::Dims dims = tn::getDims(grid.scale.getType());
  grid.zeroPoint = c.cast(grid.zeroPoint ? grid.zeroPoint : c.scalar(0, element), element);
  grid.zeroPoint = c.broadcast(grid.zeroPoint, dims);
  return grid;
}

/// PyTorch multiplies by the inverse of the scale, rounds half to even, and then adds the zero
/// point: as to a scale of one.
mlir::Value quantizeBytes(Call &c, mlir::Value x, const Grid &grid, Type element) {
  Type real = c.builder().getF32Type();
  mlir::Value inverse = c.unary<tn::ReciprocalOp>(grid.scale);
  tn::Dims dims = tn::getDims(grid.scale.getType());
  if (!dims.empty()) {
    inverse = c.alongAxis(inverse, grid.axis, cast<RankedTensorType>(x.getType()).getRank());
  }
  mlir::Value scaled = c.mul(c.cast(x, real), inverse);
  mlir::Value one = c.broadcast(c.scalar(1, real), dims);
  mlir::Value y = scaled ? c.makeTyped<tn::QuantizeOp>(tn::withElement(scaled.getType(), element),
                                                       scaled, one, grid.zeroPoint, grid.axis)
                         : scaled;
  int64_t least = element.isUnsignedInteger() ? 0 : -128, most = least + 255;
  int64_t low = std::max(least, c.integer("quant_min", least));
  int64_t high = std::min(most, c.integer("quant_max", most));
  y = low > least ? c.max(y, c.scalar(static_cast<double>(low), element)) : y;
  return high < most ? c.min(y, c.scalar(static_cast<double>(high), element)) : y;
}

void quantize(Call &c) {
  mlir::Value x = c.value("input");
  if (!x) {
    return;
  }
  c.elementNamed("dtype", c.resultElement());
  if (std::optional<Grid> grid = gridOf(c, x, c.resultElement())) {
    return c.setOutput(quantizeBytes(c, x, *grid, c.resultElement()));
  }
  auto [scale, zero] = parametersOf(c, x);
  Type real = c.builder().getF32Type();
  // PyTorch multiplies by the inverse of the scale, rounds half to even, and then adds the zero
  // point.
  mlir::Value code = c.unary<tn::RoundOp>(c.mul(c.cast(x, real), c.unary<tn::ReciprocalOp>(scale)));
  code = zero ? c.add(code, zero) : code;
  code = c.min(c.max(code, c.operand("quant_min", real)), c.operand("quant_max", real));
  c.setOutput(c.toResult(code));
}

void dequantize(Call &c) {
  mlir::Value x = c.value("input");
  if (!x) {
    return;
  }
  if (std::optional<Grid> grid = gridOf(c, x, getElementTypeOrSelf(x))) {
    c.ignore({"quant_min", "quant_max", "dtype", "out_dtype"});
    Type type = tn::withElement(x.getType(), c.builder().getF32Type());
    return c.setOutput(c.toResult(
        c.makeTyped<tn::DequantizeOp>(type, x, grid->scale, grid->zeroPoint, grid->axis)));
  }
  auto [scale, zero] = parametersOf(c, x);
  c.ignore({"quant_min", "quant_max", "dtype", "out_dtype"});
  mlir::Value real = c.cast(x, c.builder().getF32Type());
  c.setOutput(c.toResult(c.mul(zero ? c.sub(real, zero) : real, scale)));
}

/// Scale and zero point that the range of a tensor asks for, 0 included.
void chooseParameters(Call &c) {
  mlir::Value x = c.value("input");
  if (!x) {
    return;
  }
  c.ignore({"dtype"});
  Type real = c.builder().getF32Type();
  x = c.cast(x, real);
  int64_t rank = cast<RankedTensorType>(x.getType()).getRank();
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  mlir::Value nothing = c.scalar(0, real);
  mlir::Value low = c.min(c.reduce(tn::ReduceKind::min, x, axes, false), nothing);
  mlir::Value high = c.max(c.reduce(tn::ReduceKind::max, x, axes, false), nothing);
  double least = static_cast<double>(c.integer("quant_min", 0));
  double most = static_cast<double>(c.integer("quant_max", 255));
  mlir::Value scale = c.div(c.sub(high, low), c.scalar(most - least, real));
  scale = c.max(scale, c.scalar(c.real("eps", 0), real));
  mlir::Value zero = c.sub(c.scalar(least, real), c.unary<tn::RoundOp>(c.div(low, scale)));
  zero = c.min(c.max(zero, c.scalar(least, real)), c.scalar(most, real));
  // As programs state them: tensors of one element, of rank 1.
  for (auto [i, parameter] : llvm::enumerate(SmallVector<mlir::Value>{scale, zero})) {
    tn::Dims dims = c.statedDims(i).value_or(tn::Dims());
    c.setOutput(i, c.reshape(c.cast(parameter, c.resultElement(i)), dims));
  }
}

constexpr OpRow kQuantizationOpRows[] = {
    {"quantized_decomposed.choose_qparams", chooseParameters},
    {"quantized_decomposed.quantize_per_tensor", quantize},
    {"quantized_decomposed.quantize_per_channel", quantize},
    {"quantized_decomposed.dequantize_per_tensor", dequantize},
    {"quantized_decomposed.dequantize_per_channel", dequantize},
};

} // namespace

ArrayRef<OpRow> quantizationRows() { return kQuantizationOpRows; }

} // namespace tenon::pt2
