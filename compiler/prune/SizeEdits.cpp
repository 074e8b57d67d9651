// Operands that say sizes, where those shrink: numbers, or expressions of free dims by what is
// left.
#include "compiler/prune/ChannelRemover.h"
#include "support/text/Text.h"

#include <algorithm>

namespace tenon::prune {

using std::string_view;
using Indices = std::vector<int64_t>;

/// A constant of its own for this operand, of the type that it had.
void ChannelRemover::setIntegers(size_t node, size_t operand, const Indices &numbers) {
  const onnx::Node &own = graph.node(node);
  string_view old = operand < own.inputs.size() ? own.inputs[operand] : "";
  std::string name = edit.freshName(strCat(old.empty() ? quant::nameOf(own) : old, "_pruned"));
  const onnx::Tensor *tensor = graph.constant(old);
  const Axes *axes = values.operand({node, operand});
  std::vector<int64_t> dims = tensor ? tensor->dims : std::vector<int64_t>{1};
  if (!tensor && axes && axes->empty()) {
    dims.clear();
  }
  written.emplace(node, operand);
  replaced.emplace(node, operand);
  std::optional<Indices> before = constantOf(node, operand);
  constexpr string_view sized[] = {"Reshape", "Expand", "Split", "Slice", "Pad", "Gather"};
  if (graph.isOneOf(node, sized) && tensor && before && *before != numbers) {
    changed.push_back({std::string(quant::nameOf(own)), std::string(own.opType), *before, numbers});
  }
  if (dims.size() == 1) {
    dims[0] = static_cast<int64_t>(numbers.size());
  }
  if (graph.typeOf(old) == onnx::DataType::Int32) {
    std::vector<int32_t> narrow(numbers.begin(), numbers.end());
    edit.addConstant(
        name, onnx::DataType::Int32, dims,
        {reinterpret_cast<const char *>(narrow.data()), narrow.size() * sizeof(int32_t)});
  } else {
    edit.addConstant(name, onnx::DataType::Int64, dims, quant::bytesOf(numbers));
  }
  operand < own.inputs.size() ? edit.setOperand({node, operand}, name)
                              : edit.addOperand(node, name);
}

/// The operand is the dims of a result. Of constants those that shrink are set, but for what is
/// inferred or copied; computed ones become constants where no free dim decides them.
void ChannelRemover::setSizes(size_t node, const SizeOperand &sized) {
  const SizeElements *elements = sizes.of(graph.node(node).inputs[sized.operand]);
  bool changes = mask.touches(&sized.axes);
  for (size_t i = 0; elements && i < elements->size(); ++i) {
    changes = changes || mask.touches(&(*elements)[i].reads);
  }
  if (!changes) {
    return;
  }
  std::optional<Indices> known = constantOf(node, sized.operand);
  if (!known) {
    return computeSizes(node, sized, elements);
  }
  bool isSet = !graph.constant(graph.node(node).inputs[sized.operand]);
  for (size_t i = 0; i < known->size(); ++i) {
    int64_t &size = (*known)[i];
    if (mask.touches(sized.axes[i]) && size != -1 && size != 0) {
      size = mask.size(sized.axes[i]);
      isSet = true;
    }
  }
  if (isSet) {
    setIntegers(node, sized.operand, *known);
  }
}

/// What is computed of sizes that shrink, and is known, stays the number that it was.
void ChannelRemover::keepKnown(size_t node) {
  const onnx::Node &own = graph.node(node);
  for (size_t i = 0; i < own.inputs.size() && !graph.isOp(node, "Shape"); ++i) {
    const SizeElements *elements = sizes.of(own.inputs[i]);
    bool isFollowed = !own.outputs.empty() && sizes.of(own.outputs[0]);
    bool changes = elements && !isFollowed && !written.contains({node, i}) &&
                   std::any_of(elements->begin(), elements->end(), [&](const SizeElement &element) {
                     return mask.touches(&element.reads);
                   });
    std::optional<Indices> known = changes ? constantOf(node, i) : std::nullopt;
    if (known) {
      setIntegers(node, i, *known);
    }
  }
}

/// Nodes that compute sizes in whose place there are numbers now.
void ChannelRemover::dropUnread() {
  std::set<size_t> gone;
  for (size_t node = graph.all().size(); node-- > 0;) {
    const onnx::Node &own = graph.node(node);
    auto isUnread = [&](string_view output) {
      const std::vector<quant::Use> &uses = graph.uses(output);
      return !graph.isKept(output) && !uses.empty() &&
             std::all_of(uses.begin(), uses.end(), [&](quant::Use use) {
               return gone.contains(use.node) || replaced.contains({use.node, use.operand});
             });
    };
    bool isSize = own.outputs.size() == 1 && !graph.constant(own.outputs[0]) &&
                  sizes.of(own.outputs[0]) && isUnread(own.outputs[0]);
    if (isSize) {
      gone.insert(node);
      edit.drop(node);
    }
  }
}

/// Elements that follow free dims stay expressions: what they were, by what is left of the part of
/// the axis that shrinks.
void ChannelRemover::computeSizes(size_t node, const SizeOperand &sized,
                                  const SizeElements *elements) {
  std::string isSet;
  Indices set, factors, divisors, before, after;
  for (size_t i = 0; i < sized.axes.size(); ++i) {
    Axis axis = sized.axes[i];
    bool reads = elements && mask.touches(&(*elements)[i].reads);
    bool isWritten = axis.size > 0 && !axis.isFree;
    bool isInferred = (reads || mask.touches(axis)) && sizes.isInferred(node, sized, i);
    bool isScaled =
        !isWritten && !isInferred && mask.touches(axis) && !(elements && (*elements)[i].value);
    isSet += isWritten || isInferred ? '\1' : '\0';
    set.push_back(isInferred ? -1 : isWritten ? mask.size(axis) : 0);
    bool isNumber = elements && (*elements)[i].value && (*elements)[i].reads.empty();
    before.push_back(isNumber ? *(*elements)[i].value : -1);
    after.push_back(isNumber && isWritten && before.back() > 0 ? set.back() : before.back());
    factors.push_back(isScaled ? mask.size(axis) : 1);
    divisors.push_back(isScaled ? axis.size : 1);
  }
  if (before != after) {
    changed.push_back({std::string(quant::nameOf(graph.node(node))),
                       std::string(graph.node(node).opType), before, after});
  }
  if (isSet.find('\0') == std::string::npos) {
    return setIntegers(node, sized.operand, set);
  }
  const onnx::Node &own = graph.node(node);
  std::string base(quant::nameOf(own)), dims(own.inputs[sized.operand]);
  const int64_t count[] = {static_cast<int64_t>(set.size())};
  auto insert = [&](string_view op, string_view suffix, std::vector<std::string> operands) {
    dims = edit.freshName(base + std::string(suffix));
    edit.insertBefore(node, quant::nodeMessage(op, dims, operands, dims));
  };
  auto constant = [&](string_view suffix, onnx::DataType type, string_view bytes) {
    std::string name = edit.freshName(base + std::string(suffix));
    edit.addConstant(name, type, count, bytes);
    return name;
  };
  if (divisors != Indices(divisors.size(), 1)) {
    insert("Mul", "_kept",
           {dims, constant("_factors", onnx::DataType::Int64, quant::bytesOf(factors))});
    insert("Div", "_left",
           {dims, constant("_divisors", onnx::DataType::Int64, quant::bytesOf(divisors))});
  }
  if (isSet.find('\1') != std::string::npos) {
    std::string chosen = constant("_shrinks", onnx::DataType::Bool, isSet);
    std::string sizesName = constant("_sizes", onnx::DataType::Int64, quant::bytesOf(set));
    insert("Where", "_dims", {chosen, sizesName, dims});
  }
  edit.setOperand({node, sized.operand}, dims);
  written.emplace(node, sized.operand);
}

} // namespace tenon::prune
