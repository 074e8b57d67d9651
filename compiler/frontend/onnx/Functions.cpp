// Inlines calls of the functions that a model brings along.
// Relies on a depth limit against functions that call themselves.
#include "compiler/frontend/onnx/NodeContext.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr unsigned kMaxFunctionDepth = 32;

} // namespace

const Function *Importer::findFunction(const Node &node) const {
  auto found = functions.find(std::tuple(node.domain, node.opType, node.overload));
  return found == functions.end() ? nullptr : found->second;
}

Status Importer::importFunction(NodeContext &call, const Function &function) {
  if (functionDepth == kMaxFunctionDepth) {
    return nodeError(ErrorId::OnnxBadFunction, call.node,
                     "calls functions recursively or too deeply",
                     "functions must not call themselves");
  }
  if (call.numInputs() > function.inputs.size() || call.numOutputs() > function.outputs.size()) {
    return nodeError(ErrorId::OnnxBadArity, call.node,
                     "has more inputs or outputs than its function", "export the model again");
  }
  FunctionFrame frame;
  frame.outer = call.frame();
  frame.function = &function;
  frame.opsets = &function.opsets;
  for (const Attribute &attribute : function.defaults) {
    frame.attributes[attribute.name] = &attribute;
  }
  for (const Attribute &attribute : call.node.attributes) {
    const Attribute *resolved = call.lookup(attribute.name);
    if (resolved) {
      frame.attributes[attribute.name] = resolved;
    }
  }
  Scope scope;
  for (auto [i, name] : llvm::enumerate(function.inputs)) {
    if (i < call.numInputs() && call.has(i)) {
      scope.values[name] = *call.inputs[i];
    } else {
      scope.absent.insert(name);
    }
  }
  ++functionDepth;
  TENON_TRY(importNodes(function.nodes, scope, &frame));
  --functionDepth;
  for (unsigned i = 0; i < call.numOutputs(); ++i) {
    ImportedValue *value = scope.find(function.outputs[i]);
    if (!value) {
      return nodeError(
          ErrorId::OnnxUndefinedValue, call.node,
          strCat("its function does not define its output '", function.outputs[i], "'"),
          "export the model again");
    }
    call.outputs[i] = *value;
  }
  return Status::ok();
}

} // namespace tenon::onnx
