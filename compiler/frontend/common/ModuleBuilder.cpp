// Builds the module, its constants and its function's ports.
// Relies on types and affine maps being the only places of symbols.
#include "compiler/frontend/common/ModuleBuilder.h"

#include "compiler/graph/ElementType.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Verifier.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::frontend {
namespace {

constexpr int64_t kMaxTensorBytes = int64_t{1} << 42;

std::string printed(Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  type.print(stream);
  return text;
}

} // namespace

DenseElementsAttr denseElements(RankedTensorType type, Bytes bytes) {
  ArrayRef<char> chars(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (chars.empty()) {
    return DenseElementsAttr::get(type, ArrayRef<Attribute>());
  }
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> values;
    for (char byte : chars) {
      values.push_back(byte != 0);
    }
    return DenseElementsAttr::get(type, values);
  }
  return DenseElementsAttr::getFromRawBuffer(type, chars);
}

Type ModuleBuilder::elementType(DType type) { return tn::elementType(type, &context); }

//===--- Constants ---===//

Value ModuleBuilder::materializeReals(ArrayRef<double> values, ArrayRef<int64_t> shape, DType type,
                                      StringRef name, Location location) {
  RankedTensorType tensor = RankedTensorType::get(shape, elementType(type));
  std::vector<char> bytes;
  auto fill = [&](auto zero) {
    std::vector<decltype(zero)> rounded(values.begin(), values.end());
    const char *begin = reinterpret_cast<const char *>(rounded.data());
    bytes.assign(begin, begin + rounded.size() * sizeof(zero));
  };
  type == DType::F64 ? fill(double()) : fill(float());
  if (values.size() <= kMaxInlineElements) {
    return tn::ConstantOp::create(builder, location, tensor,
                                  denseElements(tensor, std::as_bytes(std::span(bytes))));
  }
  return tn::WeightOp::create(builder, location, tensor,
                              store.addOwned(name, std::move(bytes), "model"));
}

Value ModuleBuilder::constantValue(RankedTensorType type, Bytes bytes, StringRef name) {
  Location location = NameLoc::get(builder.getStringAttr(name));
  if (type.getNumElements() <= static_cast<int64_t>(kMaxInlineElements)) {
    return tn::ConstantOp::create(builder, location, type, denseElements(type, bytes));
  }
  ArrayRef<char> view(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  return tn::WeightOp::create(builder, location, type, store.addView(name, view, "model"));
}

Value ModuleBuilder::materializeSizes(const Sizes &sizes, Type element, Location location) {
  RankedTensorType type = RankedTensorType::get(sizes.shape, element);
  std::optional<SmallVector<int64_t>> constants = sizes.constants();
  if (constants) {
    unsigned width = element.getIntOrFloatBitWidth();
    SmallVector<llvm::APInt> values;
    for (int64_t value : *constants) {
      values.push_back(
          llvm::APInt(width, static_cast<uint64_t>(value), false, /*implicitTrunc=*/true));
    }
    DenseElementsAttr dense = values.empty() ? DenseElementsAttr::get(type, ArrayRef<Attribute>())
                                             : DenseElementsAttr::get(type, values);
    return tn::ConstantOp::create(builder, location, type, dense);
  }
  RankedTensorType flat =
      sizes.rank() <= 1
          ? type
          : RankedTensorType::get({static_cast<int64_t>(sizes.values.size())}, element);
  Value result =
      tn::SizesOp::create(builder, location, flat, tn::symbolMap(sizes.values, &context));
  return flat == type ? result : tn::ReshapeOp::create(builder, location, type, result);
}

//===--- Symbols that constraints determine ---===//

RankedTensorType ModuleBuilder::canonicalType(RankedTensorType type) const {
  return type && type.getEncoding()
             ? tn::makeTensor(symbols.canonical(tn::getDims(type)), type.getElementType())
             : type;
}

void ModuleBuilder::rewriteDetermined(Operation *root) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](RankedTensorType type) { return canonicalType(type); });
  replacer.addReplacement([&](AffineMapAttr map) {
    tn::Dims results = symbols.canonical(map.getValue().getResults());
    return AffineMapAttr::get(tn::symbolMap(results, &context));
  });
  replacer.recursivelyReplaceElementsIn(root, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

void ModuleBuilder::bringUpToDate() {
  if (symbols.determined() != determined) {
    determined = symbols.determined();
    rewriteDetermined(function);
  }
}

//===--- The function ---===//

void ModuleBuilder::beginModule() {
  module = ModuleOp::create(UnknownLoc::get(&context));
  builder.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(builder, builder.getUnknownLoc(), "main",
                                  builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
}

Value ModuleBuilder::addInput(StringRef name, ArrayRef<AffineExpr> dims, Type element) {
  RankedTensorType type = tn::makeTensor(dims, element);
  StringAttr label = builder.getStringAttr(name);
  Value argument = function.getBody().front().addArgument(type, NameLoc::get(label));
  SmallVector<Type> types(function.getFunctionType().getInputs());
  types.push_back(type);
  function.setFunctionType(builder.getFunctionType(types, {}));
  inputs.push_back({label, tn::Dims(dims)});
  return argument;
}

void ModuleBuilder::endFunction(ArrayRef<Value> results, ArrayRef<StringAttr> names) {
  func::ReturnOp::create(builder, builder.getUnknownLoc(), results);
  function.setFunctionType(builder.getFunctionType(function.getFunctionType().getInputs(),
                                                   TypeRange(ValueRange(results))));
  for (auto [i, input] : llvm::enumerate(inputs)) {
    function.setArgAttr(i, "tn.name", input.name);
  }
  for (auto [i, name] : llvm::enumerate(names)) {
    function.setResultAttr(i, "tn.name", name);
  }
}

Result<OwningOpRef<ModuleOp>> ModuleBuilder::takeModule() {
  symbols.store(*module);
  for (auto [index, input] : llvm::enumerate(inputs)) {
    if (!tn::sameDims(input.dims, tn::getDims(function.getArgumentTypes()[index]))) {
      function.setArgAttr(index, tn::kStatedDims,
                          AffineMapAttr::get(tn::symbolMap(input.dims, &context)));
    }
  }
  if (failed(mlir::verify(*module))) {
    return Status::error(ErrorId::InternalError,
                         strCat("the imported module does not verify: ", lastDiagnostic),
                         "please report this with the model");
  }
  return std::move(module);
}

std::string ModuleBuilder::notYetFollowed(std::string advice) const {
  if (!StringRef(advice).contains("--shape")) {
    return advice;
  }
  return symbols.all().empty()   ? "make it a constant or a size of an input, and export again"
         : symbols.areDeclared() ? "give one size instead of a range with --shape"
                                 : advice;
}

Status ModuleBuilder::checkValueType(Type type, std::string_view name) const {
  RankedTensorType tensor = cast<RankedTensorType>(type);
  int64_t bytes = std::max(1u, tensor.getElementType().getIntOrFloatBitWidth() / 8);
  for (int64_t dim : tensor.getShape()) {
    int64_t known = ShapedType::isDynamic(dim) ? 1 : dim;
    if (llvm::MulOverflow(bytes, known, bytes) || bytes > kMaxTensorBytes) {
      return Status::error(
          ErrorId::OnnxShapeOverflow,
          strCat("value '", name, "' of type ", printed(type), " is larger than any memory"),
          "correct the sizes in the model");
    }
  }
  return Status::ok();
}

} // namespace tenon::frontend
