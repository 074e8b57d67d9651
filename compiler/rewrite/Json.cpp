// Which attribute a JSON value stands for is found by asking the operation's own verifier about
// each candidate. Relies on inherent attributes being verified one by one.
#include "compiler/rewrite/Json.h"

#include "compiler/graph/DimText.h"
#include "compiler/graph/ElementType.h"
#include "compiler/graph/Tn.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;

namespace tenon::rewrite {
namespace {

namespace json = llvm::json;

json::Value dimJson(AffineExpr dim, ArrayRef<tn::Symbol> symbols) {
  std::optional<int64_t> constant = dim ? tn::constantDim(dim) : std::nullopt;
  return constant ? json::Value(*constant) : json::Value(json::fixUTF8(tn::dimText(dim, symbols)));
}

/// JSON has no numbers for what is not finite.
json::Value numberJson(double number) {
  if (std::isfinite(number)) {
    return number;
  }
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

template <typename Elements> json::Value listJson(const Elements &elements) {
  json::Array list;
  for (auto element : elements) {
    list.push_back(element);
  }
  return list;
}

/// The word of an enumerator: "#tn.reduce_kind<sum>" and "#tn<reduce_kind sum>" are "sum".
std::string wordOf(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  StringRef word = text;
  size_t open = word.find('<');
  if (!word.starts_with("#tn") || open == StringRef::npos) {
    return text;
  }
  word = word.drop_front(open + 1);
  word.consume_back(">");
  return word.rsplit(' ').second.empty() ? word.str() : word.rsplit(' ').second.str();
}

using Candidates = SmallVector<Attribute, 8>;

/// Every enumerator of `tn` with that name.
void addEnumerators(StringRef word, MLIRContext *context, Candidates &candidates) {
  auto add = [&]<typename Enum, typename EnumAttribute>(std::optional<Enum> value,
                                                        EnumAttribute *) {
    if (value) {
      candidates.push_back(EnumAttribute::get(context, *value));
    }
  };
  add(tn::symbolizePredicate(word), static_cast<tn::PredicateAttr *>(nullptr));
  add(tn::symbolizeReduceKind(word), static_cast<tn::ReduceKindAttr *>(nullptr));
  add(tn::symbolizeScatterKind(word), static_cast<tn::ScatterKindAttr *>(nullptr));
  add(tn::symbolizePadMode(word), static_cast<tn::PadModeAttr *>(nullptr));
  add(tn::symbolizeResizeMode(word), static_cast<tn::ResizeModeAttr *>(nullptr));
  add(tn::symbolizeFailure(word), static_cast<tn::FailureAttr *>(nullptr));
}

/// A list of dims as an affine map; null if an element is none.
Attribute dimsAttribute(const json::Array &list, ArrayRef<tn::Symbol> symbols,
                        MLIRContext *context) {
  SmallVector<AffineExpr> dims;
  for (const json::Value &element : list) {
    std::optional<StringRef> text = element.getAsString();
    std::optional<int64_t> number = element.getAsInteger();
    AffineExpr dim = text     ? tn::parseDim(*text, symbols, context)
                     : number ? getAffineConstantExpr(*number, context)
                              : AffineExpr();
    if (!dim) {
      return {};
    }
    dims.push_back(dim);
  }
  return AffineMapAttr::get(tn::symbolMap(dims, context));
}

template <typename T, typename Get>
std::optional<SmallVector<T>> elementsOf(const json::Array &list, const Get &get) {
  SmallVector<T> elements;
  for (const json::Value &element : list) {
    std::optional<T> value = get(element);
    if (!value) {
      return std::nullopt;
    }
    elements.push_back(*value);
  }
  return elements;
}

void addLists(const json::Array &list, ArrayRef<tn::Symbol> symbols, Builder &builder,
              Candidates &candidates) {
  if (auto numbers = elementsOf<int64_t>(list, [](auto &e) { return e.getAsInteger(); })) {
    candidates.push_back(builder.getDenseI64ArrayAttr(*numbers));
  }
  if (auto numbers = elementsOf<double>(list, [](auto &e) { return e.getAsNumber(); })) {
    candidates.push_back(builder.getDenseF64ArrayAttr(*numbers));
  }
  if (auto flags = elementsOf<bool>(list, [](auto &e) { return e.getAsBoolean(); })) {
    candidates.push_back(builder.getDenseBoolArrayAttr(*flags));
  }
  if (Attribute dims = dimsAttribute(list, symbols, builder.getContext())) {
    candidates.push_back(dims);
  }
}

Candidates candidatesFor(const json::Value &value, ArrayRef<tn::Symbol> symbols,
                         MLIRContext *context) {
  Builder builder(context);
  Candidates candidates;
  if (std::optional<bool> flag = value.getAsBoolean()) {
    candidates.push_back(builder.getBoolAttr(*flag));
    candidates.push_back(builder.getUnitAttr());
  } else if (std::optional<StringRef> text = value.getAsString()) {
    candidates.push_back(builder.getStringAttr(*text));
    addEnumerators(*text, context, candidates);
    if (double number = 0; *text == "inf" || *text == "-inf" || *text == "nan") {
      (void)text->getAsDouble(number);
      candidates.push_back(builder.getF64FloatAttr(number));
    }
  } else if (const json::Array *list = value.getAsArray()) {
    addLists(*list, symbols, builder, candidates);
  }
  if (std::optional<int64_t> integer = value.getAsInteger()) {
    candidates.push_back(builder.getI64IntegerAttr(*integer));
  }
  if (std::optional<double> number = value.getAsNumber()) {
    candidates.push_back(builder.getF64FloatAttr(*number));
  }
  return candidates;
}

} // namespace

json::Value toJson(Attribute attribute, ArrayRef<tn::Symbol> symbols) {
  if (BoolAttr flag = dyn_cast<BoolAttr>(attribute)) {
    return flag.getValue();
  }
  if (isa<UnitAttr>(attribute)) {
    return true;
  }
  if (IntegerAttr integer = dyn_cast<IntegerAttr>(attribute)) {
    return integer.getInt();
  }
  if (FloatAttr number = dyn_cast<FloatAttr>(attribute)) {
    return numberJson(number.getValueAsDouble());
  }
  if (StringAttr text = dyn_cast<StringAttr>(attribute)) {
    return json::fixUTF8(text.getValue());
  }
  if (DenseI64ArrayAttr list = dyn_cast<DenseI64ArrayAttr>(attribute)) {
    return listJson(list.asArrayRef());
  }
  if (DenseF64ArrayAttr list = dyn_cast<DenseF64ArrayAttr>(attribute)) {
    return listJson(list.asArrayRef());
  }
  if (DenseBoolArrayAttr list = dyn_cast<DenseBoolArrayAttr>(attribute)) {
    return listJson(list.asArrayRef());
  }
  if (AffineMapAttr map = dyn_cast<AffineMapAttr>(attribute)) {
    json::Array dims;
    for (AffineExpr dim : map.getValue().getResults()) {
      dims.push_back(dimJson(dim, symbols));
    }
    return dims;
  }
  return wordOf(attribute);
}

json::Value toJson(Type type, ArrayRef<tn::Symbol> symbols) {
  std::optional<DType> dtype = tn::dtypeOf(cast<RankedTensorType>(type).getElementType());
  json::Array dims;
  for (AffineExpr dim : tn::getDims(type)) {
    dims.push_back(dimJson(dim, symbols));
  }
  return json::Object{{"dtype", dtype ? StringRef(nameOf(*dtype)) : "?"},
                      {"dims", std::move(dims)}};
}

std::string printed(const json::Value &value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

std::optional<ParsedAttribute> parseAttribute(OperationName op, StringRef name,
                                              const json::Value &value,
                                              ArrayRef<tn::Symbol> symbols) {
  MLIRContext *context = op.getContext();
  ScopedDiagnosticHandler silence(context, [](Diagnostic &) { return success(); });
  for (Attribute candidate : candidatesFor(value, symbols, context)) {
    NamedAttrList list;
    list.append(name, candidate);
    bool isTaken = succeeded(
        op.verifyInherentAttrs(list, [&] { return emitError(UnknownLoc::get(context)); }));
    if (isTaken) {
      return ParsedAttribute{candidate, isa<UnitAttr>(candidate) && value.getAsBoolean() == false};
    }
  }
  return std::nullopt;
}

Result<RankedTensorType> parseType(const json::Value &value, ArrayRef<tn::Symbol> symbols,
                                   MLIRContext *context) {
  const json::Object *object = value.getAsObject();
  std::optional<StringRef> dtypeName = object ? object->getString("dtype") : std::nullopt;
  const json::Array *dimList = object ? object->getArray("dims") : nullptr;
  if (!dtypeName || !dimList) {
    return badEdit(strCat("a type is not ", printed(value)),
                   R"(write {"dtype": "f32", "dims": [1, "batch"]})");
  }
  std::optional<DType> dtype = parseDType(*dtypeName);
  Type element = dtype ? tn::elementType(*dtype, context) : Type();
  if (!element) {
    return badEdit(strCat("no element type is called '", std::string_view(*dtypeName), "'"),
                   "f32, f16, bf16, f64, i8 to i64, u8 to u64 and bool are some");
  }
  AffineMapAttr map = cast_or_null<AffineMapAttr>(dimsAttribute(*dimList, symbols, context));
  bool isNegative = map && llvm::any_of(map.getValue().getResults(), [](AffineExpr dim) {
                      return tn::constantDim(dim).value_or(0) < 0;
                    });
  if (!map || isNegative) {
    return badEdit(strCat("dims are not ", printed(*object->get("dims"))),
                   "each is a number, or an expression over the model's symbols");
  }
  return tn::makeTensor(map.getValue().getResults(), element);
}

Result<json::Value> parseJson(StringRef text) {
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value) {
    return badEdit(
        strCat("not JSON: ", std::string_view(text), " (", llvm::toString(value.takeError()), ')'));
  }
  return std::move(*value);
}

Status badEdit(std::string_view message, std::string_view hint) {
  return Status::error(ErrorId::BadGraphEdit, message, hint);
}

} // namespace tenon::rewrite
