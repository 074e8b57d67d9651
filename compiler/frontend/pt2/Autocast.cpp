// torch.export runs a region of autocast as it stands and keeps the types of results only. Source
// of the lists: aten/src/ATen/autocast_mode.h.
#include "compiler/frontend/pt2/Autocast.h"

#include "compiler/frontend/pt2/Call.h"
#include "mlir/IR/TypeUtilities.h"
#include "support/text/Text.h"

#include <functional>

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// What autocast runs in its lower type on every device, convolutions beside.
constexpr StringLiteral kProducts[] = {
    "linear",      "matmul",  "mm",     "bmm",
    "addmm",       "baddbmm", "addbmm", "scaled_dot_product_attention",
    "_convolution"};
/// What it runs so on some. A norm with narrow data and wide parameters is none: it computes with
/// both as they are.
constexpr StringLiteral kLowered[] = {"mv",  "dot",      "addmv",    "einsum", "lstm",
                                      "gru", "rnn_tanh", "rnn_relu", "prelu"};
/// What it runs in f32, and what more on GPUs.
constexpr StringLiteral kRaised[] = {"mse_loss", "cdist", "prod", "grid_sampler", "stft"};
constexpr StringLiteral kRaisedByCuda[] = {"acos",
                                           "asin",
                                           "cosh",
                                           "exp",
                                           "expm1",
                                           "log",
                                           "log10",
                                           "log2",
                                           "log1p",
                                           "pow",
                                           "rsqrt",
                                           "sinh",
                                           "tan",
                                           "reciprocal",
                                           "cumsum",
                                           "cumprod",
                                           "sum",
                                           "norm",
                                           "dist",
                                           "softplus",
                                           "softmax",
                                           "l1_loss",
                                           "log_softmax",
                                           "layer_norm",
                                           "group_norm",
                                           "logsumexp",
                                           "native_layer_norm",
                                           "smooth_l1_loss",
                                           "cosine_similarity"};

bool isRaised(StringRef name, bool isCuda) {
  name.consume_front("aten.");
  return llvm::is_contained(kRaised, name) ||
         (isCuda && (llvm::is_contained(kRaisedByCuda, name) || name.starts_with("upsample_")));
}

bool isLowered(StringRef target) {
  StringRef name = target;
  name.consume_front("aten.");
  return isLoweredProduct(target) || llvm::is_contained(kLowered, name);
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

bool isLoweredProduct(StringRef target) {
  target.consume_front("aten.");
  return llvm::is_contained(kProducts, target) || target.starts_with("conv");
}

Type typeUnderAutocast(Call &call) {
  Type single = call.builder().getF32Type();
  const Autocast &region = call.importer().autocastRegion();
  bool isGiven = llvm::any_of(call.node.inputs, [](const NamedArgument &input) {
    return input.name == "dtype" && input.value.kind == Argument::Kind::ScalarType;
  });
  if (isGiven || (region.lower && isRaised(call.target.name, region.isCuda))) {
    return single;
  }
  if (region.lower && isLoweredProduct(call.target.name)) {
    return region.lower;
  }
  // Norms and what is written in place follow their first operand, others the widest.
  bool followsFirst = call.target.isInPlace || call.target.name.contains("norm");
  Type dimmed, scalars;
  std::function<void(const Argument &)> look = [&](const Argument &argument) {
    llvm::for_each(argument.elements, look);
    Value *value = argument.kind == Argument::Kind::Tensor ? call.find(argument) : nullptr;
    mlir::Value x = value && value->tensor ? value->tensor->value(call) : mlir::Value();
    FloatType type = x ? dyn_cast<FloatType>(getElementTypeOrSelf(x)) : FloatType();
    Type &group = x && tn::rankOf(x) == 0 ? scalars : dimmed;
    if (type && (!group || (!followsFirst && type != group))) {
      group = !group ? Type(type) : single;
    }
  };
  for (const NamedArgument &input : call.node.inputs) {
    look(input.value);
  }
  return dimmed ? dimmed : scalars ? scalars : single;
}

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
