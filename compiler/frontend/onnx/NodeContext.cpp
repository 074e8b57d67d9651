// Inputs, outputs and failures of one node (Attributes.cpp has its attributes).
// Relies on the importer having resolved the inputs: none is poisoned when an operator runs.
#include "compiler/frontend/onnx/NodeContext.h"

#include "compiler/frontend/onnx/BoundedSizes.h"
#include "compiler/frontend/onnx/Elements.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// The innermost module of torch's "['', 'encoder', 'encoder.0', 'linear_3']", whose last entry is
/// the node; empty where there is none.
StringRef moduleOf(StringRef scopes) {
  SmallVector<StringRef> parts;
  scopes.trim("[] ").split(parts, ',');
  return parts.size() < 2 ? StringRef() : parts[parts.size() - 2].trim(" '\"");
}

Location makeLocation(MLIRContext *context, const Node &node) {
  std::string_view name = node.name;
  for (std::string_view output : node.outputs) {
    name = name.empty() ? output : name;
  }
  StringAttr label = StringAttr::get(context, name.empty() ? node.opType : name);
  StringAttr kind = StringAttr::get(context, node.opType);
  mlir::Attribute info = kind;
  if (StringRef module = moduleOf(node.scopes); !module.empty()) {
    StringAttr path = StringAttr::get(context, module + "/" + StringRef(node.opType));
    info = ArrayAttr::get(context, {kind, path});
  }
  return FusedLoc::get(context, {NameLoc::get(label)}, info);
}

} // namespace

NodeContext::NodeContext(Importer &importer, const Node &theNode, Scope &scope,
                         const FunctionFrame *frame, int64_t version)
    : Emitter(importer, makeLocation(&importer.context, theNode)), node(theNode), opset(version),
      owner(importer), where(scope), call(frame), outputs(theNode.outputs.size()) {}

//===--- Inputs ---===//

Value NodeContext::value(unsigned i) {
  reads.inputs.insert(i);
  return has(i) && !hasFailed ? owner.materialize(*inputs[i], place) : Value();
}

ImportedValue &NodeContext::input(unsigned i) {
  reads.inputs.insert(i);
  return *inputs[i];
}

bool NodeContext::requireTensor(unsigned i) {
  if (has(i) && inputs[i]->isContainer()) {
    bool isSequence = inputs[i]->kind == ImportedValue::Kind::Sequence;
    error(ErrorId::OnnxBadNode, "input " + Twine(i) + " is " +
                                    (isSequence ? "a sequence" : "an optional") + ", not a tensor");
  }
  return !hasFailed;
}

std::optional<Sizes> NodeContext::sizes(unsigned i) {
  reads.inputs.insert(i);
  return has(i) ? sizesOf(*inputs[i]) : std::nullopt;
}

std::optional<Sizes> NodeContext::sizesOf(ImportedValue &input) {
  owner.evaluate(input);
  if (input.sizes || !input.constant ||
      input.constant->view.empty() != (input.constant->elements == 0) ||
      input.constant->elements > static_cast<uint64_t>(Sizes::kMaxElements)) {
    return input.sizes;
  }
  Sizes result{SmallVector<int64_t>(ArrayRef<int64_t>(input.constant->dims)), {}};
  for (uint64_t e = 0; e < input.constant->elements; ++e) {
    std::optional<int64_t> element = integerAt(*input.constant, e);
    if (!element) {
      return std::nullopt;
    }
    result.values.push_back(constantSize(*element));
  }
  if (!isa<IntegerType>(input.type.getElementType())) {
    return std::nullopt;
  }
  input.sizes = result;
  return result;
}

std::optional<SmallVector<int64_t>> NodeContext::integers(unsigned i) {
  std::optional<Sizes> known = sizes(i);
  return known ? known->constants() : std::nullopt;
}

std::optional<SmallVector<double>> NodeContext::reals(unsigned i) {
  reads.inputs.insert(i);
  if (has(i)) {
    owner.evaluate(*inputs[i]);
  }
  if (!has(i) || !inputs[i]->constant ||
      inputs[i]->constant->elements > uint64_t{Sizes::kMaxElements}) {
    return std::nullopt;
  }
  const TensorData &data = *inputs[i]->constant;
  if (data.view.empty() && data.elements != 0) {
    return std::nullopt;
  }
  SmallVector<double> result;
  for (uint64_t e = 0; e < data.elements; ++e) {
    std::optional<double> element = realAt(data, e);
    if (!element) {
      return std::nullopt;
    }
    result.push_back(*element);
  }
  return result;
}

std::optional<Sizes> NodeContext::requireSizes(unsigned i, StringRef what) {
  std::optional<Sizes> known = boundedSizes(*this, i);
  if (!known) {
    gap("the " + what +
            " is computed from input data without a bound, so memory for the results cannot be "
            "planned",
        "make the " + what +
            " a constant, compute it from shapes, or take the minimum of it and a constant (Min), "
            "and export again");
  }
  return known;
}

std::optional<SmallVector<int64_t>> NodeContext::requireIntegers(unsigned i, StringRef what) {
  std::optional<SmallVector<int64_t>> known = integers(i);
  if (!known) {
    gap("the " + what + " is not a constant", "make the " + what + " a constant and export again");
  }
  return known;
}

//===--- What is read ---===//

std::string NodeContext::unread() const {
  for (const Attribute &attribute : node.attributes) {
    if (lookup(attribute.name) && !reads.attributes.contains(attribute.name)) {
      return "attribute '" + std::string(attribute.name) + "'";
    }
  }
  for (unsigned i = 0; i < inputs.size(); ++i) {
    if (inputs[i] && !reads.inputs.contains(i)) {
      return ("input " + Twine(i) + " ('" + StringRef(node.inputs[i]) + "')").str();
    }
  }
  return "";
}

//===--- Failing ---===//

void NodeContext::gap(const Twine &why, const Twine &workaround) {
  if (!hasFailed) {
    hasFailed = true;
    owner.addGap(*this, why, workaround);
  }
}

void NodeContext::fail(ErrorId id, const Twine &what, std::string hint) {
  if (!hasFailed) {
    hasFailed = true;
    owner.setError(Status::error(id,
                                 (Twine("node '") + nameOf(node) + "' (" + StringRef(node.opType) +
                                  ", opset " + Twine(opset) + "): " + what)
                                     .str(),
                                 std::move(hint)));
  }
}

void NodeContext::error(ErrorId id, const Twine &what) {
  StringRef domain = node.domain, name = node.opType;
  bool isMl = domain == "ai.onnx.ml";
  fail(id, what,
       domain.empty() || isMl
           ? ("correct the node; https://onnx.ai/onnx/operators/onnx_" +
              Twine(isMl ? "aionnxml" : "") + "_" + name + ".html describes the operator")
                 .str()
       : domain == kMicrosoft ? ("correct the node; " + name +
                                 " in ContribOperators.md of ONNX Runtime describes the operator")
                                    .str()
                              : "correct the node or the operator's definition");
}

void NodeContext::schemaError(ErrorId id, const Twine &what) {
  StringRef domain = node.domain;
  if (!domain.empty() && domain != "ai.onnx.ml") {
    return error(id, what); // the checker has no schema of it
  }
  fail(id, what, "correct the node; onnx.checker reports it too");
}

std::string NodeContext::label() const {
  return std::string(node.outputs.empty() ? node.opType : node.outputs[0]);
}

void NodeContext::bringUpToDate() {
  Emitter::bringUpToDate();
  for (ImportedValue *input : inputs) {
    if (input) {
      owner.bringUpToDate(*input);
    }
  }
}

//===--- Outputs ---===//

void NodeContext::setOutput(unsigned i, Value value) {
  if (i < outputs.size() && value && !hasFailed) {
    outputs[i].value = value;
    outputs[i].type = cast<RankedTensorType>(value.getType());
  }
}

void NodeContext::setOutput(unsigned i, const Sizes &sizes, Type element) {
  if (i < outputs.size() && !hasFailed) {
    outputs[i].sizes = sizes;
    outputs[i].type = RankedTensorType::get(sizes.shape, element);
  }
}

void NodeContext::setOutput(unsigned i, ArrayRef<float> values, ArrayRef<int64_t> shape) {
  if (i >= outputs.size() || hasFailed) {
    return;
  }
  TensorData data;
  data.dims.assign(shape.begin(), shape.end());
  data.elements = values.size();
  data.size = values.size() * sizeof(float);
  std::span<const std::byte> bytes = std::as_bytes(std::span(values.data(), values.size()));
  data.owned.assign(bytes.begin(), bytes.end());
  data.view = data.owned;
  outputs[i].type = owner.typeOf(data);
  outputs[i].constant = std::make_shared<TensorData>(std::move(data));
}

void NodeContext::setOutput(unsigned i, const ImportedValue &value) {
  if (i < outputs.size() && !hasFailed) {
    outputs[i] = value;
    isPoisoned |= value.isPoisoned();
  }
}

void NodeContext::forward(unsigned output, unsigned input) {
  reads.inputs.insert(input);
  if (output < outputs.size() && has(input) && !hasFailed) {
    outputs[output] = *inputs[input];
  }
}

void NodeContext::takeDefined(unsigned i) {
  auto found = where.values.find(node.outputs[i]);
  outputs[i] = std::move(found->second);
  where.values.erase(found);
  hasFailed |= !outputs[i].type; // a gap that defineConstant has added
}

std::optional<size_t> NodeContext::statedRank(unsigned i) const {
  auto found = wantsOutput(i) ? where.stated.find(node.outputs[i]) : where.stated.end();
  return found != where.stated.end() && found->second->hasShape
             ? std::optional(found->second->dims.size())
             : std::nullopt;
}

std::optional<tn::Dims> NodeContext::statedDims(unsigned i) {
  if (!wantsOutput(i)) {
    return std::nullopt;
  }
  auto found = where.stated.find(node.outputs[i]);
  if (found == where.stated.end() || !found->second->hasShape) {
    return std::nullopt;
  }
  tn::Dims dims = owner.statedDims(*found->second);
  return llvm::all_of(dims, [](AffineExpr dim) { return static_cast<bool>(dim); })
             ? std::optional(dims)
             : std::nullopt;
}

} // namespace tenon::onnx
