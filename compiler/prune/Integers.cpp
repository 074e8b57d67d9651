// Relies on such chains being short: their depth is limited.
#include "compiler/prune/Integers.h"

#include "compiler/frontend/onnx/wire/TensorData.h"

#include <algorithm>
#include <cstring>

namespace tenon::prune {
namespace {

using Indices = std::vector<int64_t>;
using std::string_view;

constexpr unsigned kMaxDepth = 12;
/// Dims, bounds and orders of channels are shorter.
constexpr uint64_t kMaxElements = 1 << 16;

std::optional<Indices> elementsOf(const onnx::Tensor &tensor, onnx::ExternalFiles &files) {
  bool isWide = tensor.type == onnx::DataType::Int64;
  if (!isWide && tensor.type != onnx::DataType::Int32) {
    return std::nullopt;
  }
  Result<onnx::TensorData> data = onnx::loadTensor(tensor, files);
  if (!data || data->seeded || data->elements > kMaxElements) {
    return std::nullopt;
  }
  Indices result(data->elements);
  for (size_t i = 0; i < result.size(); ++i) {
    int32_t narrow = 0;
    if (isWide) {
      std::memcpy(&result[i], data->view.data() + i * sizeof(int64_t), sizeof(int64_t));
    } else {
      std::memcpy(&narrow, data->view.data() + i * sizeof(narrow), sizeof(narrow));
      result[i] = narrow;
    }
  }
  return result;
}

/// None where it is not defined.
std::optional<int64_t> compute(string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = op == "Add"   ? __builtin_add_overflow(a, b, &result)
                   : op == "Sub" ? __builtin_sub_overflow(a, b, &result)
                   : op == "Mul" ? __builtin_mul_overflow(a, b, &result)
                                 : b == 0 || b == -1;
  if (overflows) {
    return std::nullopt;
  }
  if (op == "Div") {
    return a / b;
  }
  // ONNX's Mod of integers has the sign of the divisor.
  return op == "Mod" ? (a % b + b) % b : result;
}

std::optional<Indices> evaluate(const quant::Graph &graph, string_view value,
                                onnx::ExternalFiles &files, unsigned depth) {
  if (const onnx::Tensor *tensor = graph.constant(value)) {
    return elementsOf(*tensor, files);
  }
  std::optional<size_t> maker = graph.producer(value);
  if (!maker || depth == 0) {
    return std::nullopt;
  }
  const onnx::Node &node = graph.node(*maker);
  constexpr string_view passing[] = {"Identity", "Cast", "Unsqueeze", "Squeeze", "Reshape"};
  constexpr string_view arithmetic[] = {"Add", "Sub", "Mul", "Div", "Mod"};
  auto operand = [&](size_t i) { return evaluate(graph, node.inputs[i], files, depth - 1); };
  if (graph.isOneOf(*maker, passing)) {
    int64_t type = quant::integerOf(node, "to", static_cast<int64_t>(onnx::DataType::Int64));
    bool isInteger = type == static_cast<int64_t>(onnx::DataType::Int64) ||
                     type == static_cast<int64_t>(onnx::DataType::Int32);
    return isInteger ? operand(0) : std::nullopt;
  }
  if (graph.isOp(*maker, "Concat")) {
    Indices all;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      std::optional<Indices> part = operand(i);
      if (!part) {
        return std::nullopt;
      }
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }
  if (!graph.isOneOf(*maker, arithmetic) || node.inputs.size() != 2) {
    return std::nullopt;
  }
  std::optional<Indices> a = operand(0), b = operand(1);
  if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) {
    return std::nullopt;
  }
  Indices result(std::max(a->size(), b->size()));
  for (size_t i = 0; i < result.size(); ++i) {
    std::optional<int64_t> one =
        compute(node.opType, (*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]);
    if (!one) {
      return std::nullopt;
    }
    result[i] = *one;
  }
  return result;
}

} // namespace

std::optional<Indices> integersOf(const quant::Graph &graph, string_view value,
                                  onnx::ExternalFiles &files) {
  return evaluate(graph, value, files, kMaxDepth);
}

} // namespace tenon::prune
