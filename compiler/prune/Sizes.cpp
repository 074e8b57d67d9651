// Relies on nodes being sorted. Operators whose results' dims follow from elements are not
// followed.
#include "compiler/prune/Sizes.h"

#include "compiler/frontend/onnx/wire/TensorData.h"
#include "compiler/prune/Rules.h"

#include <algorithm>
#include <cstring>

namespace tenon::prune {
namespace {

using std::string_view;
using Indices = std::vector<int64_t>;

/// Dims, bounds and orders of channels are shorter.
constexpr uint64_t kMaxElements = 1 << 16;
/// What is computed of dims is as long as a rank, or twice that.
constexpr size_t kMaxComputed = 64;

/// None where it is not defined, or not of integers.
std::optional<int64_t> compute(string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool isKnown = op == "Add"   ? !__builtin_add_overflow(a, b, &result)
                 : op == "Sub" ? !__builtin_sub_overflow(a, b, &result)
                 : op == "Mul" ? !__builtin_mul_overflow(a, b, &result)
                               : (op == "Div" || op == "Mod") && b != 0 && b != -1;
  if (!isKnown) {
    return std::nullopt;
  }
  if (op == "Div") {
    return a / b;
  }
  // ONNX's Mod of integers has the sign of the divisor.
  return op == "Mod" ? (a % b + b) % b : result;
}

void addReads(SizeElement &to, const SizeElement &from) {
  for (Axis axis : from.reads) {
    bool isThere = std::any_of(to.reads.begin(), to.reads.end(),
                               [&](Axis own) { return own.first == axis.first; });
    if (!isThere && axis.size > 1) {
      to.reads.push_back(axis);
    }
  }
}

bool isInteger(int64_t type) {
  return type == static_cast<int64_t>(onnx::DataType::Int64) ||
         type == static_cast<int64_t>(onnx::DataType::Int32);
}

} // namespace

Sizes::Sizes(const quant::Graph &graph, const Values &values, onnx::ExternalFiles &files)
    : graph(graph), values(values) {
  for (size_t node = 0; node < graph.all().size(); ++node) {
    for (string_view input : graph.node(node).inputs) {
      addConstant(input, files);
    }
    const std::vector<string_view> &outputs = graph.node(node).outputs;
    if (outputs.empty() || graph.constant(outputs[0])) {
      continue;
    }
    if (std::optional<SizeElements> elements = evaluate(node)) {
      known.emplace(outputs[0], std::move(*elements));
    }
  }
}

void Sizes::addConstant(string_view value, onnx::ExternalFiles &files) {
  const onnx::Tensor *tensor = graph.constant(value);
  if (!tensor || !isInteger(static_cast<int64_t>(tensor->type)) || known.contains(value)) {
    return;
  }
  Result<onnx::TensorData> data = onnx::loadTensor(*tensor, files);
  if (!data || data->seeded || data->elements > kMaxElements) {
    return;
  }
  SizeElements elements(data->elements);
  for (size_t i = 0; i < elements.size(); ++i) {
    int32_t narrow = 0;
    int64_t wide = 0;
    if (tensor->type == onnx::DataType::Int64) {
      std::memcpy(&wide, data->view.data() + i * sizeof(wide), sizeof(wide));
    } else {
      std::memcpy(&narrow, data->view.data() + i * sizeof(narrow), sizeof(narrow));
      wide = narrow;
    }
    elements[i].value = wide;
  }
  known.emplace(value, std::move(elements));
}

const SizeElements *Sizes::of(string_view value) const {
  auto found = known.find(value);
  return found == known.end() ? nullptr : &found->second;
}

std::optional<Indices> Sizes::constant(string_view value) const {
  const SizeElements *elements = of(value);
  Indices result;
  for (size_t i = 0; elements && i < elements->size(); ++i) {
    if (!(*elements)[i].value) {
      return std::nullopt;
    }
    result.push_back(*(*elements)[i].value);
  }
  return elements ? std::optional(result) : std::nullopt;
}

std::optional<SizeElements> Sizes::evaluate(size_t node) const {
  constexpr string_view passing[] = {"Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten"};
  constexpr string_view reductions[] = {"ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin"};
  const onnx::Node &own = graph.node(node);
  if (graph.isOp(node, "Shape")) {
    return shapeOf(node);
  }
  auto operand = [&](size_t i) { return i < own.inputs.size() ? of(own.inputs[i]) : nullptr; };
  if (!operand(0)) {
    return std::nullopt;
  }
  if (graph.isOneOf(node, passing)) {
    return *operand(0);
  }
  if (graph.isOp(node, "Concat")) {
    SizeElements all;
    for (size_t i = 0; i < own.inputs.size(); ++i) {
      if (!operand(i) || all.size() + operand(i)->size() > kMaxElements) {
        return std::nullopt;
      }
      all.insert(all.end(), operand(i)->begin(), operand(i)->end());
    }
    return all;
  }
  if (graph.isOp(node, "Gather")) {
    return gathered(node);
  }
  if (graph.isOp(node, "Slice")) {
    return sliced(node);
  }
  const Axes *y = values.result(node, 0);
  if (graph.isOneOf(node, reductions) && y &&
      (y->empty() || (y->size() == 1 && (*y)[0].size == 1))) {
    SizeElements sum(1);
    for (const SizeElement &element : *operand(0)) {
      addReads(sum[0], element);
    }
    return sum;
  }
  if (graph.isOp(node, "ConstantOfShape") && y && y->size() == 1 && constant(own.inputs[0]) &&
      (*y)[0].size <= kMaxComputed) {
    return SizeElements((*y)[0].size);
  }
  return elementwise(node);
}

std::optional<SizeElements> Sizes::shapeOf(size_t node) const {
  const Axes *x = values.operand({node, 0});
  if (!x) {
    return std::nullopt;
  }
  int64_t rank = static_cast<int64_t>(x->size());
  auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  SizeElements elements;
  for (int64_t i = place(quant::integerOf(graph.node(node), "start", 0));
       i < place(quant::integerOf(graph.node(node), "end", rank)); ++i) {
    Axis axis = (*x)[static_cast<size_t>(i)];
    SizeElement own;
    if (axis.size > 0 && !axis.isFree) {
      own.value = axis.size;
    }
    addReads(own, {std::nullopt, {axis}});
    elements.push_back(std::move(own));
  }
  return elements;
}

std::optional<SizeElements> Sizes::gathered(size_t node) const {
  const onnx::Node &own = graph.node(node);
  const SizeElements *from = of(own.inputs[0]);
  std::optional<Indices> indices = constant(own.inputs[1]);
  if (!indices || quant::integerOf(own, "axis", 0) != 0) {
    return std::nullopt;
  }
  SizeElements elements;
  for (int64_t index : *indices) {
    size_t at = fromFront(index, from->size());
    if (at >= from->size()) {
      return std::nullopt;
    }
    elements.push_back((*from)[at]);
  }
  return elements;
}

std::optional<SizeElements> Sizes::sliced(size_t node) const {
  const onnx::Node &own = graph.node(node);
  auto one = [&](size_t operand, int64_t fallback) -> std::optional<int64_t> {
    if (operand >= own.inputs.size() || own.inputs[operand].empty()) {
      return fallback;
    }
    std::optional<Indices> all = constant(own.inputs[operand]);
    return all && all->size() == 1 ? std::optional(all->front()) : std::nullopt;
  };
  const SizeElements *from = of(own.inputs[0]);
  std::optional<int64_t> start = one(1, 0), end = one(2, 0), step = one(4, 1);
  const Axes *x = values.operand({node, 0});
  bool isVector = x && x->size() == 1;
  if (own.inputs.size() < 3 || !isVector || !start || !end || step != int64_t{1}) {
    return std::nullopt;
  }
  int64_t size = static_cast<int64_t>(from->size());
  auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  int64_t first = place(*start), last = std::max(first, place(*end));
  return SizeElements(from->begin() + first, from->begin() + last);
}

/// Of operands of one length or of one element. What becomes a real number ends here.
std::optional<SizeElements> Sizes::elementwise(size_t node) const {
  const onnx::Node &own = graph.node(node);
  const Axes *y = values.result(node, 0);
  size_t count = 1;
  for (string_view input : own.inputs) {
    const SizeElements *elements = of(input);
    if (!elements || !y || y->size() > 1 ||
        (elements->size() != 1 && count != 1 && elements->size() != count)) {
      return std::nullopt;
    }
    count = elements->size() == 1 ? count : elements->size();
  }
  bool isReal = graph.isOp(node, "Cast") && !isInteger(quant::integerOf(own, "to", 0));
  if (isReal || !pointwiseRule(own.opType) || count > kMaxComputed || own.outputs.size() != 1) {
    return std::nullopt;
  }
  SizeElements result(count);
  for (size_t i = 0; i < count; ++i) {
    std::vector<SizeElement> operands;
    for (string_view input : own.inputs) {
      const SizeElements &from = *of(input);
      operands.push_back(from[from.size() == 1 ? 0 : i]);
      addReads(result[i], operands.back());
    }
    if (graph.isOp(node, "Cast")) {
      result[i].value = operands[0].value;
    } else if (operands.size() == 2 && operands[0].value && operands[1].value) {
      result[i].value = compute(own.opType, *operands[0].value, *operands[1].value);
    }
  }
  return result;
}

std::optional<SizeOperand> Sizes::sizeOperand(size_t node) const {
  const onnx::Node &own = graph.node(node);
  const Axes *y = values.result(node, 0);
  size_t operand = graph.isOp(node, "ConstantOfShape") ? 0 : graph.isOp(node, "Resize") ? 3 : 1;
  constexpr string_view sized[] = {"Reshape", "Expand", "ConstantOfShape", "Resize"};
  if (!graph.isOneOf(node, sized) || !y || operand >= own.inputs.size() ||
      own.inputs[operand].empty()) {
    return std::nullopt;
  }
  SizeOperand result{operand, *y};
  const onnx::Attribute *listed = quant::attributeOf(own, "axes");
  const SizeElements *elements = of(own.inputs[operand]);
  const Axes *list = values.operand({node, operand});
  size_t count = elements                    ? elements->size()
                 : list && list->size() == 1 ? list->front().size
                                             : y->size();
  if (listed && graph.isOp(node, "Resize")) {
    result.axes.clear();
    for (int64_t axis : listed->ints) {
      result.axes.push_back((*y)[fromFront(axis, y->size())]);
    }
  } else if (graph.isOp(node, "Expand") && count < y->size()) {
    // The last sizes are those of the last dims.
    result.axes.erase(result.axes.begin(), result.axes.end() - static_cast<int64_t>(count));
  }
  return result.axes.size() == count ? std::optional(result) : std::nullopt;
}

bool Sizes::isInferred(size_t node, const SizeOperand &sized, size_t index) const {
  auto isOpen = [](Axis axis) { return axis.isFree || axis.size == 0; };
  return graph.isOp(node, "Reshape") && isOpen(sized.axes[index]) &&
         std::count_if(sized.axes.begin(), sized.axes.end(), isOpen) == 1;
}

std::vector<Axis> Sizes::fixedReads(size_t node) const {
  const onnx::Node &own = graph.node(node);
  std::vector<Axis> fixed;
  std::optional<SizeOperand> sized = sizeOperand(node);
  for (size_t i = 0; i < own.inputs.size() && !graph.isOp(node, "Shape"); ++i) {
    const SizeElements *elements = of(own.inputs[i]);
    bool isSize = sized && sized->operand == i;
    bool isFollowed = !isSize && !own.outputs.empty() && of(own.outputs[0]);
    bool isKnown = constant(own.inputs[i]).has_value();
    for (size_t e = 0; elements && !isFollowed && !isKnown && e < elements->size(); ++e) {
      Axis axis = isSize ? sized->axes[e] : Axis();
      bool isWritten = isSize && ((axis.size > 0 && !axis.isFree) || isInferred(node, *sized, e));
      if (!isWritten) {
        const std::vector<Axis> &reads = (*elements)[e].reads;
        fixed.insert(fixed.end(), reads.begin(), reads.end());
      }
    }
  }
  return fixed;
}

} // namespace tenon::prune
