// Reads and makes tensor types with symbolic dims, and computes with dims and their ranges.
// Relies on Simplify.cpp for the normal form in which equal dims are equal expressions.
#include "compiler/graph/Shape.h"

#include "compiler/graph/Constraints.h"
#include "compiler/graph/infer/Infer.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace tenon::tn {

Dims getDims(Type tensor) {
  RankedTensorType type = dyn_cast<RankedTensorType>(tensor);
  if (!type) {
    return {};
  }
  if (ShapeAttr shape = dyn_cast_or_null<ShapeAttr>(type.getEncoding())) {
    return Dims(shape.getMap().getResults());
  }
  Dims dims;
  for (int64_t size : type.getShape()) {
    dims.push_back(ShapedType::isDynamic(size) ? AffineExpr()
                                               : getAffineConstantExpr(size, type.getContext()));
  }
  return dims;
}

RankedTensorType makeTensor(ArrayRef<AffineExpr> dims, Type element) {
  SmallVector<int64_t> sizes;
  bool known = true;
  bool constant = true;
  for (AffineExpr dim : dims) {
    std::optional<int64_t> size = constantDim(dim);
    sizes.push_back(size.value_or(ShapedType::kDynamic));
    known &= static_cast<bool>(dim);
    constant &= size.has_value();
  }
  if (constant || !known) {
    return RankedTensorType::get(sizes, element);
  }
  MLIRContext *context = element.getContext();
  return RankedTensorType::get(sizes, element, ShapeAttr::get(context, symbolMap(dims, context)));
}

AffineMap symbolMap(ArrayRef<AffineExpr> expressions, MLIRContext *context) {
  unsigned count = 0;
  for (AffineExpr expression : expressions) {
    expression.walk([&](AffineExpr part) {
      if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(part)) {
        count = std::max(count, symbol.getPosition() + 1);
      }
    });
  }
  return AffineMap::get(0, count, expressions, context);
}

std::optional<LinearDim> linearDim(AffineExpr dim) {
  LinearDim linear;
  AffineBinaryOpExpr sum = dyn_cast_or_null<AffineBinaryOpExpr>(dim);
  if (sum && sum.getKind() == AffineExprKind::Add && constantDim(sum.getRHS())) {
    linear.offset = *constantDim(sum.getRHS());
    dim = sum.getLHS();
  }
  AffineBinaryOpExpr product = dyn_cast_or_null<AffineBinaryOpExpr>(dim);
  if (product && product.getKind() == AffineExprKind::Mul && constantDim(product.getRHS())) {
    linear.factor = *constantDim(product.getRHS());
    dim = product.getLHS();
  }
  AffineSymbolExpr symbol = dyn_cast_or_null<AffineSymbolExpr>(dim);
  if (!symbol || linear.factor < 1) {
    return std::nullopt;
  }
  linear.symbol = symbol.getPosition();
  return linear;
}

RankedTensorType withElement(Type tensor, Type element) {
  RankedTensorType type = cast<RankedTensorType>(tensor);
  return RankedTensorType::get(type.getShape(), element, type.getEncoding());
}

bool sameDim(AffineExpr a, AffineExpr b) {
  if (!a || !b) {
    return false;
  }
  if (a == b) {
    return true;
  }
  AffineExpr left = simplify(a);
  return left && left == simplify(b);
}

bool sameDims(ArrayRef<AffineExpr> a, ArrayRef<AffineExpr> b) {
  return a.size() == b.size() && llvm::all_of(llvm::zip_equal(a, b), [](const auto &pair) {
           return sameDim(std::get<0>(pair), std::get<1>(pair));
         });
}

std::optional<int64_t> constantDim(AffineExpr dim) {
  AffineConstantExpr constant = dyn_cast_or_null<AffineConstantExpr>(dim);
  return constant ? std::optional<int64_t>(constant.getValue()) : std::nullopt;
}

AffineExpr elementCount(MLIRContext *context, ArrayRef<AffineExpr> dims) {
  AffineExpr count = getAffineConstantExpr(1, context);
  for (AffineExpr dim : dims) {
    count = multiplyDims(count, dim);
  }
  return count;
}

FailureOr<Dims> broadcastDims(ArrayRef<AffineExpr> a, ArrayRef<AffineExpr> b) {
  size_t rank = std::max(a.size(), b.size());
  Dims result(rank);
  for (size_t back = 1; back <= rank; ++back) {
    AffineExpr &out = result[rank - back];
    if (back > a.size() || back > b.size()) {
      out = back > a.size() ? b[b.size() - back] : a[a.size() - back];
      continue;
    }
    AffineExpr left = a[a.size() - back];
    AffineExpr right = b[b.size() - back];
    std::optional<int64_t> leftSize = constantDim(left);
    std::optional<int64_t> rightSize = constantDim(right);
    if (leftSize == 1 || rightSize == 1) {
      out = leftSize == 1 ? right : left;
    } else if (leftSize && rightSize) {
      if (*leftSize != *rightSize) {
        return failure();
      }
      out = left;
    } else if (!left || !right) {
      out = AffineExpr();
    } else if (!leftSize && !rightSize) {
      if (!sameDim(left, right) && !assume(ConstraintKind::equal, left, right)) {
        return failure();
      }
      out = left;
    } else {
      out = leftSize ? left : right;
      if (!assume(ConstraintKind::equal_or_one, leftSize ? right : left, out)) {
        return failure();
      }
    }
  }
  return result;
}

bool typesAgree(TypeRange left, TypeRange right) {
  if (left.size() != right.size()) {
    return false;
  }
  for (auto [a, b] : llvm::zip_equal(left, right)) {
    RankedTensorType first = dyn_cast<RankedTensorType>(a);
    RankedTensorType second = dyn_cast<RankedTensorType>(b);
    if (a == b) {
      continue;
    }
    if (!first || !second || first.getElementType() != second.getElementType() ||
        first.getRank() != second.getRank()) {
      return false;
    }
    for (auto [x, y] : llvm::zip_equal(getDims(first), getDims(second))) {
      bool refines = !x || !y || constantDim(x).has_value() != constantDim(y).has_value();
      if (!refines && !sameDim(x, y)) {
        return false;
      }
    }
  }
  return true;
}

LogicalResult ShapeAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                        function_ref<InFlightDiagnostic()> emitError) const {
  AffineMap map = getMap();
  if (map.getNumDims() != 0) {
    return emitError() << "#tn.shape takes symbols only, as in ()[s0] -> (s0, 3)";
  }
  if (map.getNumResults() != shape.size()) {
    return emitError() << "#tn.shape has " << map.getNumResults() << " dims, the tensor "
                       << shape.size();
  }
  if (!ShapedType::isDynamicShape(shape)) {
    return emitError() << "a tensor of constant dims takes no #tn.shape";
  }
  if (map.getNumSymbols() != 0 && !map.isFunctionOfSymbol(map.getNumSymbols() - 1)) {
    return emitError() << "#tn.shape names s" << map.getNumSymbols() - 1
                       << " last but does not use it";
  }
  for (auto [size, dim] : llvm::zip_equal(shape, map.getResults())) {
    std::optional<int64_t> constant = constantDim(dim);
    if (constant.value_or(ShapedType::kDynamic) != size) {
      return emitError() << "#tn.shape says " << infer::text(dim) << " where the tensor has "
                         << (ShapedType::isDynamic(size) ? std::string("?") : std::to_string(size));
    }
  }
  return success();
}

//===--- Symbols
//-------------------------------------------------------------------------------===//

constexpr llvm::StringLiteral kSymbolsName = "tn.symbols";

SymbolList::SymbolList(ModuleOp module) {
  ArrayAttr declared = module->getAttrOfType<ArrayAttr>(kSymbolsName);
  if (!declared) {
    return;
  }
  for (SymbolAttr symbol : declared.getAsRange<SymbolAttr>()) {
    list.push_back({symbol.getName().str(), symbol.getMin(), symbol.getMax()});
  }
}

unsigned SymbolList::add(StringRef name, int64_t min, int64_t max) {
  for (auto [index, symbol] : llvm::enumerate(list)) {
    if (symbol.name == name) {
      return index;
    }
  }
  list.push_back({name.str(), min, max});
  return list.size() - 1;
}

void SymbolList::setRange(unsigned index, int64_t min, int64_t max) {
  list[index].min = min;
  list[index].max = max;
}

void SymbolList::store(ModuleOp module) const {
  MLIRContext *context = module.getContext();
  SmallVector<Attribute> declared;
  for (const Symbol &symbol : list) {
    declared.push_back(SymbolAttr::get(context, symbol.name, symbol.min, symbol.max));
  }
  module->setAttr(kSymbolsName, ArrayAttr::get(context, declared));
}

std::optional<int64_t> evaluate(AffineExpr expression, ArrayRef<int64_t> symbols) {
  if (!expression) {
    return std::nullopt;
  }
  if (AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(expression)) {
    return constant.getValue();
  }
  if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(expression)) {
    return symbol.getPosition() < symbols.size()
               ? std::optional<int64_t>(symbols[symbol.getPosition()])
               : std::nullopt;
  }
  AffineBinaryOpExpr operation = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!operation) {
    return std::nullopt;
  }
  std::optional<int64_t> left = evaluate(operation.getLHS(), symbols);
  std::optional<int64_t> right = evaluate(operation.getRHS(), symbols);
  if (!left || !right) {
    return std::nullopt;
  }
  if (expression.getKind() == AffineExprKind::Add) {
    return llvm::checkedAdd(*left, *right);
  }
  if (expression.getKind() == AffineExprKind::Mul) {
    return llvm::checkedMul(*left, *right);
  }
  if (*right <= 0) {
    return std::nullopt;
  }
  switch (expression.getKind()) {
  case AffineExprKind::FloorDiv:
    return llvm::divideFloorSigned(*left, *right);
  case AffineExprKind::CeilDiv:
    return llvm::divideCeilSigned(*left, *right);
  default:
    return llvm::mod(*left, *right);
  }
}

} // namespace tenon::tn
