// Sizes that a model computes by way of floats, as exports write what Resize asks for:
// floor(size * 1.5). Relies on small constants being tn.constant.
#include "compiler/frontend/common/Resizing.h"
#include "compiler/frontend/onnx/ops/ShapeFold.h"

using namespace mlir;

namespace tenon::onnx {

namespace {

/// The expressions of a tensor of sizes that was cast to floats; none if it is no such tensor.
std::optional<SmallVector<AffineExpr>> castSizes(Value x) {
  tn::CastOp cast = x.getDefiningOp<tn::CastOp>();
  tn::SizesOp sizes = cast ? cast.getX().getDefiningOp<tn::SizesOp>() : tn::SizesOp();
  return sizes ? std::optional(llvm::to_vector(sizes.getValues().getResults())) : std::nullopt;
}

/// The numbers of a constant, one for each of `count` elements.
std::optional<SmallVector<double>> factors(Value x, size_t count) {
  tn::ConstantOp constant = x.getDefiningOp<tn::ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!elements || !isa<FloatType>(elements.getElementType())) {
    return std::nullopt;
  }
  SmallVector<double> numbers;
  for (const APFloat &number : elements.getValues<APFloat>()) {
    numbers.push_back(number.convertToDouble());
  }
  if (numbers.size() == 1) {
    numbers.resize(count, numbers[0]);
  }
  return numbers.size() == count ? std::optional(numbers) : std::nullopt;
}

} // namespace

std::optional<Sizes> foldScaled(NodeContext &c) {
  Value x = c.input(0).value;
  if (tn::FloorOp floor = x ? x.getDefiningOp<tn::FloorOp>() : tn::FloorOp()) {
    x = floor.getX();
  }
  tn::MulOp product = x ? x.getDefiningOp<tn::MulOp>() : tn::MulOp();
  if (!product || !getElementTypeOrSelf(x).isF32()) {
    return std::nullopt;
  }
  for (bool isSwapped : {false, true}) {
    std::optional<SmallVector<AffineExpr>> sizes = castSizes(product->getOperand(isSwapped));
    std::optional<SmallVector<double>> scales =
        sizes ? factors(product->getOperand(!isSwapped), sizes->size()) : std::nullopt;
    ArrayRef<int64_t> shape = cast<RankedTensorType>(x.getType()).getShape();
    if (!scales || llvm::product_of(shape) != static_cast<int64_t>(sizes->size())) {
      continue;
    }
    Sizes result{SmallVector<int64_t>(shape), {}};
    for (auto [size, scale] : llvm::zip_equal(*sizes, *scales)) {
      bool isSize = scale > 0 && scale < 1e6 && c.symbols().bounds(size).min >= 0;
      AffineExpr scaled = isSize ? scaledSize(c.symbols(), c.symbols().canonical(size), scale,
                                              /*inDoubles=*/false)
                                 : AffineExpr();
      if (!scaled) {
        return std::nullopt;
      }
      result.values.push_back(scaled);
    }
    return result;
  }
  return std::nullopt;
}

} // namespace tenon::onnx
