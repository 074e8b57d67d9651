// New operations. An operation is built in three steps, so that nothing is asked of one that is not
// fit for it: attributes by the operation's own checks, operands by those too, then its result
// types.
#include "compiler/opt/Constants.h"
#include "compiler/rewrite/Graph.h"
#include "compiler/rewrite/Json.h"
#include "compiler/rewrite/Names.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "support/text/NearestName.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::rewrite {
namespace {

namespace json = llvm::json;

constexpr StringLiteral kOperandSegments = "operandSegmentSizes";

/// The first error that MLIR gives while this lives.
class FirstError {
public:
  explicit FirstError(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          if (message.empty()) {
            message = diagnostic.str();
          }
          return success();
        }) {}

  std::string message;

private:
  ScopedDiagnosticHandler handler;
};

Result<OperationName> creatable(StringRef op, MLIRContext *context) {
  std::vector<std::string> names = operationNames(context);
  if (!llvm::is_contained(names, op) || op == "weight" || op == "constant") {
    return badEdit(
        strCat("no operation is called '", std::string_view(op), "' that can be created"),
        op == "weight" || op == "constant"
            ? "constants are made of bytes, by constant()"
            : didYouMean(std::string_view(op), names, "docs/ops lists all"));
  }
  return operationName(op, context);
}

/// How many results such an operation has; none of `tn` has more than two.
size_t resultCount(OperationName name) { return name.hasTrait<OpTrait::OneResult>() ? 1 : 2; }

/// Groups of operands, one an entry of `operands`, whose nulls are absent ones.
void setSegments(Operation *op, ArrayRef<Value> operands) {
  std::optional<Attribute> segments = op->getInherentAttr(kOperandSegments);
  if (!segments || !*segments) {
    return;
  }
  SmallVector<int32_t> sizes(cast<DenseI32ArrayAttr>(*segments).size(), 0);
  for (auto [size, operand] : llvm::zip(sizes, operands)) {
    size = operand ? 1 : 0;
  }
  op->setInherentAttr(StringAttr::get(op->getContext(), kOperandSegments),
                      DenseI32ArrayAttr::get(op->getContext(), sizes));
}

/// While an operation is tried its results have made-up types, so what is said of them does not
/// count.
bool isAboutResults(StringRef message) {
  return message.contains("result #") || message.contains("inferred type") ||
         message.contains("result type");
}

} // namespace

Status Graph::parseAttributes(OperationName name, StringRef text, NamedAttrList &attributes) const {
  if (text.empty()) {
    return Status::ok();
  }
  TENON_ASSIGN(json::Value parsed, parseJson(text));
  const json::Object *object = parsed.getAsObject();
  if (!object) {
    return badEdit(strCat("attributes are not ", std::string_view(text)), R"(write {"axis": 1})");
  }
  std::vector<std::string> known = attributeNames(name);
  for (const auto &[key, value] : *object) {
    std::string_view shown(name.stripDialect());
    if (!llvm::is_contained(known, key.str())) {
      return badEdit(strCat(shown, " has no attribute '", std::string_view(key.str()), "'"),
                     known.empty() ? "it has none" : "it has " + llvm::join(known, ", "));
    }
    std::optional<ParsedAttribute> attribute =
        parseAttribute(name, StringRef(key), value, symbolList());
    if (!attribute) {
      return badEdit(strCat(shown, " does not take ", printed(value), " as '",
                            std::string_view(key.str()), "'"));
    }
    if (attribute->isAbsent) {
      attributes.erase(StringRef(key));
    } else {
      attributes.set(StringRef(key), attribute->attribute);
    }
  }
  return Status::ok();
}

OpBuilder Graph::builderAfter(ArrayRef<Value> operands) {
  Block &block = function.getBody().front();
  Operation *last = nullptr;
  for (Value operand : operands) {
    Operation *op = operand ? operand.getDefiningOp() : nullptr;
    last = op && (!last || last->isBeforeInBlock(op)) ? op : last;
  }
  OpBuilder builder(module.getContext());
  if (last) {
    builder.setInsertionPointAfter(last);
  } else {
    builder.setInsertionPointToStart(&block);
  }
  return builder;
}

Result<Operation *> Graph::build(OperationName name, ArrayRef<Value> operands,
                                 const NamedAttrList &attributes, ArrayRef<Type> types) {
  Location location =
      matchedLocation ? Location(matchedLocation) : UnknownLoc::get(module.getContext());
  SmallVector<Value> present = llvm::filter_to_vector(operands, [](Value v) { return bool(v); });
  Type placeholder =
      present.empty() ? Type(RankedTensorType::get({}, Builder(module.getContext()).getF32Type()))
                      : present.front().getType();
  auto make = [&](TypeRange results) {
    OperationState state(location, name, present, results);
    state.addAttributes(attributes);
    Operation *op = Operation::create(state);
    setSegments(op, operands);
    return op;
  };
  FirstError error(module.getContext());
  std::string what = strCat(std::string_view(name.stripDialect()), ": ");
  SmallVector<Type> results(types);
  if (results.empty()) {
    Operation *trial = make(SmallVector<Type>(resultCount(name), placeholder));
    bool isFit = succeeded(name.verifyInvariants(trial)) || isAboutResults(error.message);
    InferTypeOpInterface::Concept *infer = name.getInterface<InferTypeOpInterface>();
    bool isInferred = isFit && infer &&
                      succeeded(infer->inferReturnTypes(
                          module.getContext(), location, present, trial->getRawDictionaryAttrs(),
                          trial->getPropertiesStorage(), trial->getRegions(), results));
    trial->destroy();
    if (isFit && !infer) {
      return badEdit(strCat(what, "its result type does not follow from its operands"),
                     "give the types of the results");
    }
    if (!isInferred) {
      return badEdit(what + (error.message.empty() ? "it takes no such operands" : error.message));
    }
    error.message.clear();
  }
  Operation *op = make(results);
  if (failed(verify(op))) {
    op->destroy();
    return badEdit(what + error.message);
  }
  return op;
}

Result<Id> Graph::create(StringRef op, ArrayRef<Id> operandIds, StringRef attributes,
                         StringRef types) {
  TENON_ASSIGN(OperationName name, creatable(op, module.getContext()));
  SmallVector<Value> operands;
  for (Id id : operandIds) {
    TENON_ASSIGN(Value operand, id == 0 ? Result<Value>(Value()) : value(id));
    operands.push_back(operand);
  }
  NamedAttrList list;
  TENON_TRY(parseAttributes(name, attributes, list));
  SmallVector<Type> results;
  if (!types.empty()) {
    TENON_ASSIGN(json::Value parsed, parseJson(types));
    const json::Array *array = parsed.getAsArray();
    if (!array || array->size() != resultCount(name)) {
      return badEdit(strCat(std::string_view(op), " has ", resultCount(name),
                            " results, whose types are not ", std::string_view(types)));
    }
    for (const json::Value &type : *array) {
      TENON_ASSIGN(RankedTensorType tensor, parseType(type, symbolList(), module.getContext()));
      results.push_back(tensor);
    }
  }
  TENON_ASSIGN(Operation * created, build(name, operands, list, results));
  builderAfter(operands).insert(created);
  ++editCount;
  return idOf(created);
}

Result<Id> Graph::constant(StringRef typeText, ArrayRef<char> bytes) {
  TENON_ASSIGN(json::Value parsed, parseJson(typeText));
  TENON_ASSIGN(RankedTensorType type, parseType(parsed, symbolList(), module.getContext()));
  int64_t elementSize = opt::elementBytes(type.getElementType());
  if (!type.hasStaticShape()) {
    return badEdit("a constant has dims that are numbers");
  }
  std::optional<int64_t> count =
      tn::constantDim(tn::elementCount(module.getContext(), tn::getDims(type)));
  if (!count || *count > INT64_MAX / 8 ||
      elementSize * *count != static_cast<int64_t>(bytes.size())) {
    return badEdit(strCat("a constant of ", std::string_view(typeText), " does not have ",
                          bytes.size(), " bytes"));
  }
  Location location =
      matchedLocation ? Location(matchedLocation) : UnknownLoc::get(module.getContext());
  OpBuilder builder = builderAfter({});
  Value made = opt::Constants(weights).make(
      builder, location, type, std::vector<char>(bytes.begin(), bytes.end()), pass, pass);
  ++editCount;
  return idOf(made);
}

} // namespace tenon::rewrite
