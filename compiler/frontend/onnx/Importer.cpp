// Walks the nodes of a model in order and imports each through its row of the operator table.
// Relies on ONNX's rule that nodes are sorted: a name that is used before its node is an error.
#include "compiler/frontend/onnx/Importer.h"

#include "compiler/frontend/common/CustomKernel.h"
#include "compiler/frontend/onnx/Signature.h"
#include "compiler/graph/DimText.h"
#include "mlir/IR/Diagnostics.h"
#include "support/text/Text.h"

#include <map>

using namespace mlir;

namespace tenon::onnx {
namespace {

/// What an exporter can do so that a model has no such operator.
struct Remedy {
  const char *opType;
  const char *text;
};
constexpr Remedy kRemedies[] = {
    {"ZipMap", "export with the option zipmap off, as in skl2onnx.to_onnx(model, x, "
               "options={'zipmap': False}), so that the probabilities are a tensor"},
    {"CategoryMapper", "map the strings to numbers before the model"},
    {"ImageDecoder", "decode the image before the model and pass it the pixels"},
    {"RegexFullMatch", "match the strings before the model"},
    {"StringConcat", "join the strings outside the model"},
    {"StringNormalizer", "normalize the strings before the model"},
    {"StringSplit", "split the strings before the model"},
};

std::string remedyOf(std::string_view opType) {
  for (const Remedy &remedy : kRemedies) {
    if (opType == remedy.opType) {
      return remedy.text;
    }
  }
  return "give a kernel for it (--kernel-library), replace it by operators of the default domain, "
         "or see 'tenon help TN0301'";
}

constexpr uint64_t kMaxInlinedNodes = uint64_t{1} << 17;

Status checkAttributes(const Node &node) {
  std::unordered_set<std::string_view> seen;
  for (const Attribute &attribute : node.attributes) {
    if (!seen.insert(attribute.name).second) {
      return nodeError(ErrorId::OnnxDuplicateAttribute, node,
                       strCat("attribute '", attribute.name, "' occurs twice"),
                       "export the model again");
    }
  }
  return Status::ok();
}

/// As descriptions of kernels name the operator.
std::string kernelName(const Node &node) { return strCat(node.domain, "::", node.opType); }

std::string printed(Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  type.print(stream);
  return text;
}

} // namespace

std::string_view nameOf(const Node &node) {
  return node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
}

Status nodeError(ErrorId id, const Node &node, std::string_view what, std::string_view hint) {
  return Status::error(id, strCat("node '", nameOf(node), "' (", node.opType, "): ", what),
                       std::string(hint));
}

//===--- Scopes ---===//

ImportedValue *Scope::find(std::string_view name) {
  for (Scope *scope = this; scope; scope = scope->outer) {
    auto found = scope->values.find(name);
    if (found != scope->values.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

bool Scope::definesLater(std::string_view name) const {
  for (const Scope *scope = this; scope; scope = scope->outer) {
    if (scope->defined.count(name)) {
      return true;
    }
  }
  return false;
}

bool Scope::isAbsent(std::string_view name) const {
  for (const Scope *scope = this; scope; scope = scope->outer) {
    if (scope->absent.count(name)) {
      return true;
    }
  }
  return false;
}

//===--- Import ---===//

Importer::Importer(const Model &theModel, const ImportOptions &theOptions, ExternalFiles &theFiles,
                   MLIRContext &owner, tn::WeightStore &theStore, ImportChoices &theChoices)
    : ModuleBuilder(owner, theStore), choices(theChoices), model(theModel), options(theOptions),
      files(theFiles) {}

Status Importer::checkModel() {
  // Tools that merge models leave the same import twice, which says nothing else than once.
  std::map<std::string_view, int64_t> versions;
  for (const OpsetImport &opset : model.opsets) {
    if (opset.version <= 0 || opset.version > std::numeric_limits<int32_t>::max() ||
        versions.try_emplace(opset.domain, opset.version).first->second != opset.version) {
      return Status::error(ErrorId::OnnxBadOpset,
                           strCat("the import of domain '", opset.domain, "' in version ",
                                  opset.version, " is not valid or contradicts another"),
                           "export the model again with a valid opset");
    }
  }
  int64_t version = opsetOf("", nullptr);
  if (versions.empty()) {
    return Status::error(ErrorId::OnnxBadOpset, "the model imports no operator set",
                         "export the model again with a valid opset");
  }
  if (versions.count("") && (version < kOldestOpset || version > kNewestOpset)) {
    return Status::error(
        ErrorId::OnnxUnknownOpset,
        strCat("the model uses opset ", version, ", Tenon reads ", kOldestOpset, " to ",
               kNewestOpset),
        "convert it with onnx.version_converter or export it with another opset_version");
  }
  for (const Function &function : model.functions) {
    if (!functions.emplace(std::tuple(function.domain, function.name, function.overload), &function)
             .second) {
      return Status::error(ErrorId::OnnxBadFunction,
                           strCat("function '", function.name, "' is defined twice"),
                           "export the model again");
    }
  }
  return Status::ok();
}

/// The model's own texts (class names, preprocessing) go to the engine as they are.
void Importer::storeMetadata() {
  std::map<std::string_view, std::string_view> texts;
  for (const KeyValue &entry : model.metadata) {
    if (!entry.key.empty()) {
      texts[entry.key] = entry.value;
    }
  }
  SmallVector<NamedAttribute> attributes;
  for (auto [key, value] : texts) {
    attributes.push_back(builder.getNamedAttr(key, builder.getStringAttr(value)));
  }
  if (!attributes.empty()) {
    (*module)->setAttr("tn.metadata", builder.getDictionaryAttr(attributes));
  }
}

Result<ImportResult> Importer::run() {
  TENON_TRY(checkModel());
  beginModule();
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    lastDiagnostic = tn::nameSymbols(diagnostic.str(), symbols.all());
    return success();
  });

  tn::ScopedAssumptions listening(&context, symbols);
  Scope scope;
  TENON_TRY(importInitializers(model.graph, scope));
  TENON_TRY(importInputs(scope));
  TENON_TRY(importNodes(model.graph.nodes, scope, nullptr));
  TENON_TRY(finishOutputs(scope));
  for (const std::shared_ptr<void> &owner : files.owners()) {
    store.keep(owner);
  }
  ImportResult result;
  if (!gaps.empty()) {
    result.gaps = std::move(gaps);
    return result;
  }
  storeMetadata();
  TENON_ASSIGN(result.module, takeModule());
  return result;
}

int64_t Importer::opsetOf(std::string_view domain, const FunctionFrame *frame) const {
  const std::vector<OpsetImport> &opsets = frame && frame->opsets ? *frame->opsets : model.opsets;
  for (const OpsetImport &opset : opsets) {
    if (opset.domain == domain) {
      return opset.version;
    }
  }
  return -1;
}

Status Importer::importNodes(const std::vector<Node> &nodes, Scope &scope,
                             const FunctionFrame *frame) {
  inlinedNodes += nodes.size();
  if (inlinedNodes > kMaxInlinedNodes) {
    return Status::error(ErrorId::OnnxTooMany,
                         "the model has too many nodes once its functions are inlined",
                         "split the model into several");
  }
  for (const Node &node : nodes) {
    for (std::string_view output : node.outputs) {
      if (!output.empty() && !scope.defined.insert(output).second) {
        return nodeError(ErrorId::OnnxDuplicateName, node,
                         strCat("defines '", output, "', which another node defines"),
                         "give each value its own name");
      }
    }
  }
  for (const Node &node : nodes) {
    TENON_TRY(importNode(node, scope, frame));
  }
  return Status::ok();
}

Status Importer::importNode(const Node &node, Scope &scope, const FunctionFrame *frame) {
  TENON_TRY(checkAttributes(node));
  const Function *target = findFunction(node);
  int64_t opset = opsetOf(node.domain, frame);
  if (opset < 0 && !target) {
    return nodeError(ErrorId::OnnxUndeclaredDomain, node,
                     strCat("domain '", node.domain, "' is not among the model's opset imports"),
                     "export the model again with that domain declared");
  }
  NodeContext call(*this, node, scope, frame, opset);
  symbols.setNode(nameOf(node));
  bool poisoned = false;
  TENON_TRY(resolveInputs(call, poisoned));
  if (frontend::hasKernel(options.kernels.get(), kernelName(node))) {
    runKernel(call, poisoned);
  } else if (target) {
    checkArguments(call, *target);
    if (!poisoned && !call.failed()) {
      TENON_TRY(importFunction(call, *target));
    }
  } else {
    runOperator(call, poisoned);
  }
  TENON_TRY(std::move(pending));
  return defineOutputs(call);
}

/// By a kernel of the user's, which goes before a function of the model and an operator of ours.
void Importer::runKernel(NodeContext &call, bool poisoned) {
  std::string name = kernelName(call.node);
  frontend::CustomNode node{
      .op = name, .inputs = {}, .outputs = call.numOutputs(), .attribute = {}};
  for (unsigned i = 0; i < call.numInputs() && call.requireTensor(i) && !poisoned; ++i) {
    if (!call.has(i)) {
      return call.error(ErrorId::KernelMisfit, "a kernel of the user's needs all inputs");
    }
    node.inputs.push_back(call.value(i));
  }
  if (poisoned || call.failed()) {
    return;
  }
  node.attribute = [&](StringRef attribute, bool isInteger, bool isList) {
    return !call.hasAttribute(attribute) ? std::nullopt
           : !isInteger
               ? frontend::asNumbers(isList ? call.numberList(attribute)
                                            : SmallVector<double>{call.real(attribute, 0)})
               : frontend::asNumbers(isList ? call.integerList(attribute)
                                            : SmallVector<int64_t>{call.integer(attribute, 0)});
  };
  for (auto [i, result] : llvm::enumerate(emitCustom(call, *options.kernels, node))) {
    if (i < call.numOutputs()) {
      call.setOutput(i, result);
    }
  }
  if (std::string unread = call.unread(); !unread.empty() && !call.failed()) {
    call.error(ErrorId::KernelMisfit, "the description of its kernel lacks its " + unread);
  }
}

void Importer::runOperator(NodeContext &call, bool poisoned) {
  OpRows rows = table.find(call.node.domain, call.node.opType);
  const OpRow *row = rowOf(rows, call.opset);
  if (!row) {
    return rows.empty()
               ? call.gap("Tenon does not support this operator", remedyOf(call.node.opType))
               : call.gap("the operator is new in opset " + Twine(rows.front()->since),
                          "declare a newer opset and export again");
  }
  while (call.inputs.size() > row->minInputs && !call.inputs.back()) {
    call.inputs.pop_back();
  }
  checkSignature(call, rows, *row);
  for (unsigned i = 0; i < call.numInputs() && !row->takesContainers; ++i) {
    call.requireTensor(i);
  }
  NodeContext::Reads before = call.reads;
  if (poisoned || call.failed() || foldSizes(call)) {
    return;
  }
  call.reads = std::move(before);
  row->import(call);
  if (!pending.isOk()) {
    return;
  }
  for (unsigned i = 0; i < call.numOutputs() && !call.failed() && !call.isPoisoned; ++i) {
    if (call.wantsOutput(i) && call.outputs[i].isPoisoned()) {
      call.gap("its output " + Twine(i) + " is not supported",
               "remove what uses that output and export again");
    }
  }
  if (std::string unread = call.unread(); !unread.empty() && !call.isPoisoned) {
    call.gap("its " + unread + " is not supported", "export again without it");
  }
}

Status Importer::resolveInputs(NodeContext &call, bool &poisoned) {
  for (std::string_view name : call.node.inputs) {
    if (name.empty()) {
      call.inputs.push_back(nullptr);
      continue;
    }
    ImportedValue *value = call.where.find(name);
    if (!value && call.where.isAbsent(name)) {
      call.inputs.push_back(nullptr);
      continue;
    }
    if (!value && call.where.definesLater(name)) {
      return nodeError(ErrorId::OnnxNotSorted, call.node,
                       strCat("reads '", name, "', which it or a later node defines"),
                       "sort the nodes; if they form a cycle, the model cannot be computed");
    }
    if (!value) {
      return nodeError(ErrorId::OnnxUndefinedValue, call.node,
                       strCat("reads '", name, "', which nothing defines"),
                       "export the model again");
    }
    poisoned |= value->isPoisoned();
    bringUpToDate(*value);
    call.inputs.push_back(value);
  }
  return Status::ok();
}

Status Importer::defineOutputs(NodeContext &call) {
  for (auto [i, name] : llvm::enumerate(call.node.outputs)) {
    if (name.empty()) {
      continue;
    }
    if (call.where.values.count(name)) {
      return nodeError(ErrorId::OnnxDuplicateName, call.node,
                       strCat("defines '", name, "', which is an input or initializer"),
                       "give each value its own name");
    }
    ImportedValue &value = call.outputs[i];
    if (call.failed()) {
      value = ImportedValue();
    }
    if (value.type) {
      TENON_TRY(checkValueType(value.type, name));
    }
    if (value.name.empty()) {
      value.name = name;
    }
    call.where.values[name] = value;
  }
  return Status::ok();
}

//===--- Failing ---===//

void Importer::setError(Status status) {
  if (pending.isOk()) {
    pending = std::move(status);
  }
}

void Importer::addGap(NodeContext &call, const Twine &why, const Twine &workaround) {
  Gap gap;
  gap.opType = std::string(call.node.opType);
  gap.domain = std::string(call.node.domain);
  gap.opset = call.opset;
  std::string_view first = call.node.outputs.empty() ? std::string_view() : call.node.outputs[0];
  gap.node = std::string(call.node.name.empty() ? first : call.node.name);
  if (call.has(0) && call.type(0)) {
    gap.dtype = printed(call.element(0));
    gap.rank = static_cast<int>(call.rank(0));
  }
  gap.why = why.str();
  gap.workaround = notYetFollowed(workaround.str());
  gaps.push_back(std::move(gap));
}

} // namespace tenon::onnx
