// Types that a node's arguments and results have, by PyTorch's promotion of types where several
// meet, what the program states of its results, and arguments that are numbers.
#include "compiler/frontend/pt2/Autocast.h"
#include "compiler/frontend/pt2/Call.h"
#include "compiler/frontend/pt2/SizeText.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {

using Kind = Argument::Kind;

namespace {

/// In the type of the parts, if it is complex.
std::optional<DType> elementOf(int64_t scalarType) {
  return dtypeOf(partsOf(scalarType).value_or(scalarType));
}

bool isComplexName(const Graph &graph, const std::string &name) {
  auto found = graph.tensors.find(name);
  return found != graph.tensors.end() && partsOf(found->second.scalarType);
}

bool hasComplex(const Graph &graph, const Argument &argument) {
  return (argument.kind == Kind::Tensor && isComplexName(graph, argument.text)) ||
         llvm::any_of(argument.elements,
                      [&](const Argument &element) { return hasComplex(graph, element); });
}

} // namespace

bool Call::isComplex() const {
  return llvm::any_of(node.inputs,
                      [&](const NamedArgument &input) { return hasComplex(graph, input.value); }) ||
         llvm::any_of(node.outputs,
                      [&](const Argument &output) { return hasComplex(graph, output); });
}

bool Call::givesComplex() const {
  return !outputNames.empty() && isComplexName(graph, outputNames[0]);
}

Type Call::elementNamed(StringRef name, Type otherwise) {
  const Argument *given = argument(name);
  if (!given || given->kind == Kind::None) {
    return otherwise;
  }
  std::optional<DType> type = elementOf(given->integer);
  Type element = type ? owner.elementType(*type) : Type();
  if (!element) {
    gap("type " + StringRef(nameOfScalarType(given->integer)) + " is not supported",
        "use another type");
  }
  return element;
}

Type Call::resultElement(unsigned output) {
  auto found =
      output < outputNames.size() ? graph.tensors.find(outputNames[output]) : graph.tensors.end();
  if (found == graph.tensors.end()) {
    error(ErrorId::Pt2BadGraph, "the program does not state the type of its result");
    return Type();
  }
  std::optional<DType> type = elementOf(found->second.scalarType);
  Type element = type ? owner.elementType(*type) : Type();
  if (!element) {
    gap("results of type " + StringRef(nameOfScalarType(found->second.scalarType)) +
            " are not supported",
        "use another type");
  }
  if (!element || !element.isF32() || !StringRef(node.target).starts_with("torch.ops.aten.")) {
    return element;
  }
  if (owner.autocastRegion().lower && isLoweredProduct(target.name)) {
    owner.noteUntrueTypes();
  }
  return owner.statesUntrueTypes() ? typeUnderAutocast(*this) : element;
}

std::optional<tn::Dims> Call::statedDims(unsigned output) {
  auto found =
      output < outputNames.size() ? graph.tensors.find(outputNames[output]) : graph.tensors.end();
  if (found == graph.tensors.end()) {
    return std::nullopt;
  }
  tn::Dims dims;
  for (const Size &size : found->second.sizes) {
    Result<AffineExpr> dim = owner.sizeOf(size);
    if (!dim || !*dim) {
      return std::nullopt;
    }
    dims.push_back(*dim);
  }
  return dims;
}

std::optional<Range> Call::statedRange() {
  auto size = outputNames.empty() ? graph.sizes.end() : graph.sizes.find(outputNames[0]);
  std::string name;
  if (size != graph.sizes.end() && !size->second.constant) {
    Result<AffineExpr> parsed =
        parseSize(size->second.expression, builder().getContext(), [&](const std::string &symbol) {
          name = symbol;
          return AffineExpr();
        });
    if (!parsed) {
      return std::nullopt;
    }
  }
  return owner.rangeOf(name);
}

namespace {

/// PyTorch's order of kinds: bool, integers, floats.
unsigned kindOf(Type element) { return isa<FloatType>(element) ? 2 : element.isInteger(1) ? 0 : 1; }

/// c10::promoteTypes.
Type promote(Builder &builder, Type a, Type b) {
  if (!a || !b || a == b) {
    return a ? a : b;
  }
  if (kindOf(a) != kindOf(b)) {
    return kindOf(a) > kindOf(b) ? a : b;
  }
  unsigned left = a.getIntOrFloatBitWidth(), right = b.getIntOrFloatBitWidth();
  if (left == right) {
    // float16 with bfloat16, uint8 with int8.
    return isa<FloatType>(a) ? Type(builder.getF32Type()) : Type(builder.getIntegerType(left * 2));
  }
  return left > right ? a : b;
}

} // namespace

Type Call::promoted(ArrayRef<StringRef> names) {
  Type dimmed, scalars, numbers;
  for (StringRef name : names) {
    const Argument *given = argument(name);
    if (!given || given->kind == Kind::None) {
      continue;
    }
    if (given->kind == Kind::Tensor) {
      std::shared_ptr<Tensor> tensor = tensorOf(*given, name);
      mlir::Value x = tensor ? tensor->value(*this) : mlir::Value();
      RankedTensorType own = x ? cast<RankedTensorType>(x.getType()) : RankedTensorType();
      if (own) {
        Type &group = own.getRank() == 0 ? scalars : dimmed;
        group = promote(builder(), group, own.getElementType());
      }
      continue;
    }
    Type element = given->kind == Kind::Bool ? Type(builder().getI1Type())
                   : given->kind == Kind::Int || given->kind == Kind::SymInt
                       ? Type(builder().getI64Type())
                       : Type(builder().getF32Type());
    numbers = promote(builder(), numbers, element);
  }
  Type result = dimmed;
  for (Type group : {scalars, numbers}) {
    if (group && (!result || kindOf(group) > kindOf(result))) {
      result = group;
    }
  }
  return result;
}

mlir::Value Call::operand(StringRef name, Type element) {
  const Argument *given = argument(name);
  if (!given || given->kind == Kind::None || hasFailed || !element) {
    return mlir::Value();
  }
  if (given->kind == Kind::Tensor) {
    mlir::Value x = value(name);
    return x ? cast(x, element) : x;
  }
  if (given->kind == Kind::SymInt || given->kind == Kind::SymFloat) {
    return numberOf(*given, name, element);
  }
  if (given->kind == Kind::Int || given->kind == Kind::Bool) {
    return isa<IntegerType>(element) ? integerConstant({given->integer}, {}, element)
                                     : scalar(static_cast<double>(given->integer), element);
  }
  return scalar(real(name, 0), element);
}

Type Call::productElement(ArrayRef<StringRef> factors) {
  FloatType element = dyn_cast_if_present<FloatType>(resultElement());
  if (!element || element.getWidth() >= 32) {
    return resultElement();
  }
  auto hasMore = [&](StringRef name) {
    const Argument *given = argument(name);
    if (!given || given->kind == Kind::SymInt || given->kind == Kind::SymFloat) {
      return given != nullptr;
    }
    if (given->kind == Kind::Tensor) {
      mlir::Value x = value(name);
      FloatType type = x ? dyn_cast<FloatType>(getElementTypeOrSelf(x)) : FloatType();
      return type && type.getWidth() > element.getWidth();
    }
    llvm::APFloat number(given->kind == Kind::Int ? static_cast<double>(given->integer)
                                                  : real(name, 0));
    bool isInexact = false;
    number.convert(element.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &isInexact);
    return isInexact;
  };
  return llvm::any_of(factors, hasMore) ? Type(builder().getF32Type()) : Type(element);
}

//===--- Sizes and numbers ---===//

AffineExpr Call::sizeOf(const Argument &argument, StringRef name) {
  if (argument.kind == Kind::Int) {
    return constantSize(argument.integer);
  }
  pt2::Value *found = argument.kind == Kind::SymInt ? find(argument) : nullptr;
  if (found && found->number) {
    gap("its argument '" + name + "' is a number that data decides without a bound",
        "compute it from shapes, or assert its bounds by torch._check");
    return AffineExpr();
  }
  if (!found || !found->size) {
    error(ErrorId::Pt2BadGraph, "its argument '" + name + "' is not an integer");
    return AffineExpr();
  }
  return symbols().canonical(found->size);
}

mlir::Value Call::numberOf(const Argument &argument, StringRef name, Type element) {
  pt2::Value *found = argument.isName() ? find(argument) : nullptr;
  if (found && found->number) {
    return element ? cast(found->number, element) : found->number;
  }
  if (argument.kind == Kind::Float || (found && found->real)) {
    return scalar(found ? *found->real : argument.real, element ? element : builder().getF64Type());
  }
  AffineExpr size = hasFailed ? AffineExpr() : sizeOf(argument, name);
  return size ? sizeValue(size, element ? element : builder().getI64Type()) : mlir::Value();
}

bool Call::isSizeAt(size_t index) {
  const Argument *given = positional(index);
  pt2::Value *found = given && given->kind == Kind::SymInt ? find(*given) : nullptr;
  return given && (given->kind == Kind::Int || (found && found->size));
}

mlir::Value Call::numberAt(size_t index) {
  const Argument *given = positional(index);
  if (!given || given->kind == Kind::None) {
    error(ErrorId::Pt2BadGraph, "it lacks an argument");
    return mlir::Value();
  }
  return hasFailed ? mlir::Value() : numberOf(*given, node.inputs[index].name);
}

} // namespace tenon::pt2
