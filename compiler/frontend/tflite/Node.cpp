// Operands, results and failures of one operator.
// Relies on the reader having checked indices, sizes and the number of scales.
#include "compiler/frontend/tflite/Node.h"

#include "compiler/frontend/common/EvaluateConstant.h"
#include "compiler/graph/ElementType.h"
#include "compiler/graph/TensorInfo.h"
#include "mlir/IR/TypeUtilities.h"
#include "support/text/Text.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tenon::tflite {
namespace {

Location placeOf(Importer &importer, const std::string &name, const std::string &kind) {
  MLIRContext *context = &importer.context;
  return FusedLoc::get(context, {NameLoc::get(StringAttr::get(context, name))},
                       StringAttr::get(context, kind));
}

std::string kindOf(const Importer &importer, const fb::Operator &op) {
  return operatorName(*importer.model().operator_codes()->Get(op.code()));
}

std::string nameOf(const Importer &importer, const fb::Operator &op, size_t index) {
  if (sizeOf(op.outputs()) == 0) {
    return strCat(kindOf(importer, op), "_", index);
  }
  int32_t first = op.outputs()->Get(0);
  return labelOf(importer.tensor(first), first);
}

} // namespace

Node::Node(Importer &importer, const fb::Operator &theOp, size_t index)
    : Emitter(importer, placeOf(importer, nameOf(importer, theOp, index), kindOf(importer, theOp))),
      op(theOp), kind(kindOf(importer, theOp)), owner(importer),
      name(nameOf(importer, theOp, index)) {}

//===--- Operands ---===//

bool Node::has(size_t input) const {
  return input < numInputs() && op.inputs()->Get(static_cast<uint32_t>(input)) >= 0;
}

const fb::Tensor &Node::input(size_t i) const {
  return owner.tensor(op.inputs()->Get(static_cast<uint32_t>(i)));
}

const fb::Tensor &Node::output(size_t i) const {
  return owner.tensor(op.outputs()->Get(static_cast<uint32_t>(i)));
}

bool Node::isPoisoned() const {
  bool isPoisoned = false;
  forEach(op.inputs(), [&](int32_t index) {
    const Known *known = index < 0 ? nullptr : &owner.known(index);
    isPoisoned |= known && !known->stored && !known->real && known->variable.empty();
  });
  return isPoisoned;
}

Value Node::stored(size_t i) {
  if (!has(i) || hasFailed) {
    error(ErrorId::OnnxBadArity, "it has no operand " + Twine(i));
    return Value();
  }
  return owner.known(op.inputs()->Get(static_cast<uint32_t>(i))).stored;
}

Value Node::value(size_t i) {
  Value numbers = stored(i);
  if (!numbers) {
    gap("its operand " + Twine(i) + " is a handle of a variable");
    return Value();
  }
  if (!isQuantized(input(i))) {
    return numbers;
  }
  Known &known = owner.known(op.inputs()->Get(static_cast<uint32_t>(i)));
  if (!known.real) {
    known.real = dequantized(numbers, input(i), input(i).quantization()->dim());
  }
  return known.real;
}

Value Node::permutedWeight(size_t i, ArrayRef<int64_t> permutation) {
  Value numbers = stored(i);
  if (!numbers) {
    return value(i);
  }
  const fb::Tensor &tensor = input(i);
  if (sizeOf(tensor.shape()) != permutation.size()) {
    error(ErrorId::OnnxBadNode, "its weights have " + Twine(sizeOf(tensor.shape())) + " dims");
    return Value();
  }
  Value moved = isConstant(owner.model(), tensor)
                    ? owner.permuted(tensor, permutation, name + ".weight")
                    : transpose(numbers, permutation);
  if (!isQuantized(tensor)) {
    return moved;
  }
  int64_t axis = llvm::find(permutation, tensor.quantization()->dim()) - permutation.begin();
  return dequantized(moved, tensor, axis);
}

Value Node::bias(size_t i, size_t x, size_t weight) {
  if (!has(i)) {
    return Value();
  }
  bool areIntegers = isQuantized(input(x)) && isQuantized(input(weight)) &&
                     (typeOf(input(i)) == DType::I32 || typeOf(input(i)) == DType::I64);
  Value numbers = areIntegers ? stored(i) : Value();
  if (!numbers) {
    return value(i);
  }
  SmallVector<double> scales;
  float scale = input(x).quantization()->scale()->Get(0);
  forEach(input(weight).quantization()->scale(),
          [&](float each) { scales.push_back(scale * each); });
  SmallVector<int64_t> dims;
  if (scales.size() > 1) {
    dims.push_back(static_cast<int64_t>(scales.size()));
  }
  if (scales.size() > 1 && (rank(numbers) != 1 || shape(numbers)[0] != dims[0])) {
    error(ErrorId::OnnxBadNode, "its bias does not have one number for each of its outputs");
    return Value();
  }
  Value zero =
      integerConstant(SmallVector<int64_t>(scales.size(), 0), dims, getElementTypeOrSelf(numbers));
  Value factors = realConstant(scales, dims, builder().getF32Type());
  return makeTyped<tn::DequantizeOp>(tn::withElement(numbers.getType(), builder().getF32Type()),
                                     numbers, factors, zero, int64_t{0});
}

ArrayRef<int64_t> Node::shape(Value value) const {
  return cast<RankedTensorType>(value.getType()).getShape();
}

std::optional<SmallVector<int64_t>> Node::integers(size_t i) {
  Value x = stored(i);
  std::optional<reference::Tensor> tensor = x && isa<IntegerType>(getElementTypeOrSelf(x))
                                                ? frontend::evaluateConstant(x, owner.weights())
                                                : std::nullopt;
  Result<reference::Tensor> wide =
      tensor ? reference::convert(*tensor, DType::I64)
             : Result<reference::Tensor>(Status::error(ErrorId::InternalError, "no constant"));
  if (!wide) {
    gap("its operand " + Twine(i) + " is not constant", "make it a constant");
    return std::nullopt;
  }
  const int64_t *begin = wide->as<int64_t>();
  return SmallVector<int64_t>(begin, begin + wide->count());
}

std::optional<int64_t> Node::axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    error(ErrorId::OnnxBadAttribute,
          "axis " + Twine(axis) + " is beyond the " + Twine(rank) + " dims of its operand");
    return std::nullopt;
  }
  return axis < 0 ? axis + rank : axis;
}

SmallVector<int64_t> Node::statedShape(size_t i) const {
  SmallVector<int64_t> dims;
  forEach(output(i).shape(), [&](int32_t dim) { dims.push_back(dim); });
  return dims;
}

//===--- Numbers ---===//

Value Node::zeroPoints(const fb::Tensor &tensor, size_t count) {
  unsigned bits = bitWidth(*typeOf(tensor));
  bool isUnsigned = typeOf(tensor) == DType::U8;
  double least = isUnsigned ? 0 : -std::ldexp(1, bits - 1);
  double most = std::ldexp(1, isUnsigned ? bits : bits - 1) - 1;
  SmallVector<int64_t> zeros(count, 0);
  for (size_t i = 0; i < sizeOf(tensor.quantization()->zero_point()) && i < count; ++i) {
    zeros[i] = tensor.quantization()->zero_point()->Get(static_cast<uint32_t>(i));
    if (static_cast<double>(zeros[i]) < least || static_cast<double>(zeros[i]) > most) {
      error(ErrorId::OnnxBadNode, "zero point " + Twine(zeros[i]) + " is beyond its type");
      return Value();
    }
  }
  SmallVector<int64_t> dims;
  if (count > 1) {
    std::fill(zeros.begin() + static_cast<int64_t>(
                                  std::max<size_t>(1, sizeOf(tensor.quantization()->zero_point()))),
              zeros.end(), zeros.front());
    dims.push_back(static_cast<int64_t>(count));
  }
  return integerConstant(zeros, dims, owner.elementType(*typeOf(tensor)));
}

namespace {

/// None where one is no step between numbers.
std::optional<SmallVector<double>> scalesOf(const fb::Tensor &tensor) {
  SmallVector<double> scales;
  forEach(tensor.quantization()->scale(), [&](float scale) { scales.push_back(scale); });
  bool areSteps = llvm::all_of(scales, [](double scale) {
    return std::isfinite(scale) && scale >= std::numeric_limits<float>::min();
  });
  return areSteps ? std::optional(scales) : std::nullopt;
}

} // namespace

Value Node::dequantized(Value numbers, const fb::Tensor &tensor, int64_t axis) {
  std::optional<SmallVector<double>> scales = scalesOf(tensor);
  if (!scales) {
    error(ErrorId::OnnxBadNode, "a scale of its operand is not a positive number");
    return Value();
  }
  SmallVector<int64_t> dims;
  if (scales->size() > 1) {
    dims.push_back(static_cast<int64_t>(scales->size()));
  }
  FloatType real = builder().getF32Type();
  return numbers ? makeTyped<tn::DequantizeOp>(tn::withElement(numbers.getType(), real), numbers,
                                               realConstant(*scales, dims, real),
                                               zeroPoints(tensor, scales->size()),
                                               dims.empty() ? int64_t{0} : axis)
                 : Value();
}

Value Node::quantized(Value real, const fb::Tensor &tensor) {
  std::optional<SmallVector<double>> scales = scalesOf(tensor);
  if (!scales || scales->size() != 1) {
    error(ErrorId::OnnxBadNode, "its result does not have one scale that is a positive number");
    return Value();
  }
  if (typeOf(tensor) == DType::I32 || typeOf(tensor) == DType::I64) {
    gap("its result is quantized to " + Twine(typeName(tensor)), "quantize it to 8 or 16 bits");
    return Value();
  }
  return real ? makeTyped<tn::QuantizeOp>(
                    tn::withElement(real.getType(), owner.elementType(*typeOf(tensor))), real,
                    realConstant(*scales, {}, builder().getF32Type()), zeroPoints(tensor, 1),
                    int64_t{0})
              : Value();
}

//===--- Results ---===//

Value Node::activated(Value x, fb::Activation activation) {
  switch (activation) {
  case fb::Activation::None:
    return x;
  case fb::Activation::Relu:
    return unary<tn::ReluOp>(x);
  case fb::Activation::ReluN1To1:
    return unary<tn::ClampOp>(x, llvm::APFloat(-1.0), llvm::APFloat(1.0));
  case fb::Activation::Relu6:
    return unary<tn::ClampOp>(x, llvm::APFloat(0.0), llvm::APFloat(6.0));
  case fb::Activation::Tanh:
    return unary<tn::TanhOp>(x);
  case fb::Activation::SignBit:
    break;
  }
  gap("its activation " + Twine(static_cast<int>(activation)) + " is not supported");
  return Value();
}

void Node::setOutput(size_t i, Value value) {
  if (!value || i >= numOutputs()) {
    return;
  }
  if (isQuantized(output(i))) {
    Value numbers =
        isa<FloatType>(getElementTypeOrSelf(value)) ? quantized(value, output(i)) : value;
    return setStored(i, numbers);
  }
  setStored(i, value);
}

void Node::setStored(size_t i, Value value) {
  if (!value || hasFailed || i >= numOutputs()) {
    return;
  }
  RankedTensorType type = cast<RankedTensorType>(value.getType());
  RankedTensorType stated = storedType(&owner.context, output(i));
  if (type != stated) {
    std::string text;
    llvm::raw_string_ostream(text)
        << "its result is " << type << " where the file states " << stated;
    return stated && type.getShape() != stated.getShape() ? error(ErrorId::OnnxBadNode, text)
                                                          : gap(text);
  }
  owner.known(op.outputs()->Get(static_cast<uint32_t>(i))) = {value, {}, {}};
}

Value Node::reshape(Value x, ArrayRef<int64_t> dims) {
  tn::Dims sizes;
  int64_t count = 1;
  for (int64_t dim : dims) {
    sizes.push_back(constantSize(dim));
    count *= dim;
  }
  if (x && count != cast<RankedTensorType>(x.getType()).getNumElements()) {
    error(ErrorId::OnnxBadNode, "its result has another number of elements than its operand");
    return Value();
  }
  return Emitter::reshape(x, sizes);
}

Value Node::broadcast(Value x, ArrayRef<int64_t> dims) {
  tn::Dims sizes;
  llvm::transform(dims, std::back_inserter(sizes), [&](int64_t dim) { return constantSize(dim); });
  return Emitter::broadcast(x, sizes);
}

//===--- Failures ---===//

void Node::gap(const Twine &why, const Twine &workaround) {
  if (hasFailed) {
    return;
  }
  hasFailed = true;
  frontend::Gap gap;
  gap.opType = kind;
  gap.domain = "tflite";
  gap.node = name;
  gap.why = why.str();
  gap.workaround = workaround.str();
  if (has(0)) {
    gap.dtype = typeName(input(0));
    gap.rank = static_cast<int>(sizeOf(input(0).shape()));
  }
  owner.addGap(std::move(gap));
}

void Node::error(ErrorId id, const Twine &what) {
  if (hasFailed) {
    return;
  }
  hasFailed = true;
  owner.setError(Status::error(id, strCat("node '", name, "' (", kind, "): ", what.str()),
                               "convert the model again"));
}

} // namespace tenon::tflite
