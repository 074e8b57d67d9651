// torch.export runs a region of autocast as it stands and keeps the types of results only. Source
// of the lists: aten/src/ATen/autocast_mode.h.
#include "compiler/frontend/pt2/Autocast.h"

#include "compiler/frontend/pt2/Call.h"
#include "mlir/IR/TypeUtilities.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// What autocast runs in its lower type. A norm with narrow data and wide parameters is none: it
/// computes with both as they are.
bool isLowered(StringRef name) {
  name.consume_front("aten.");
  return llvm::is_contained({"linear", "matmul", "mm", "bmm", "mv", "dot", "addmm", "baddbmm",
                             "addmv", "addbmm", "einsum", "lstm", "gru", "rnn_tanh", "rnn_relu",
                             "prelu", "scaled_dot_product_attention", "_convolution"},
                            name) ||
         name.starts_with("conv");
}

class InputCasts {
public:
  InputCasts(Call &call, Scope &names, FloatType type)
      : c(call), scope(names), wanted(type), isLower(isLowered(call.target.name)) {}

  void apply(Argument &argument) {
    llvm::for_each(argument.elements, [&](Argument &element) { apply(element); });
    Value *value = argument.kind == Argument::Kind::Tensor ? c.find(argument) : nullptr;
    if (!value || !value->tensor || value->imaginary) {
      return;
    }
    mlir::Value x = value->tensor->value(c);
    FloatType type = x ? dyn_cast<FloatType>(getElementTypeOrSelf(x)) : FloatType();
    if (!type || type == wanted || !(isLower || type.getWidth() < wanted.getWidth())) {
      return;
    }
    std::string name = strCat(argument.text, ".autocast", wanted.getWidth());
    scope[name] = {.tensor = std::make_shared<Tensor>(c.cast(x, wanted))};
    argument.text = name;
  }

private:
  Call &c;
  Scope &scope;
  FloatType wanted;
  bool isLower;
};

} // namespace

Node withAutocast(Importer &importer, const Node &node, const Graph &graph, Scope &scope) {
  Call call(importer, node, graph, scope);
  Node changed = node;
  const Argument *first = node.outputs.empty() ? nullptr : &node.outputs[0];
  bool isTyped = first && graph.tensors.count(first->text) != 0;
  // What is written in place keeps its type, and a graph casts for itself.
  bool isSubject = StringRef(node.target).starts_with("torch.ops.aten.");
  if (!isTyped || !isSubject || call.target.isInPlace) {
    return changed;
  }
  if (FloatType wanted = dyn_cast_if_present<FloatType>(call.resultElement())) {
    InputCasts casts(call, scope, wanted);
    for (NamedArgument &input : changed.inputs) {
      casts.apply(input.value);
    }
  }
  return changed;
}

} // namespace tenon::pt2
