// Implements the words; what is not known of a node is left out of them.

#include "tools/view/Labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace tenon::view {
namespace {

/// Operations by the colors of their boxes, between spaces.
constexpr std::string_view kProducts = " matmul conv conv_transpose attention recurrence ";
constexpr std::string_view kRows =
    " softmax layer_norm rms_norm group_norm batch_norm reduce "
    "arg_reduce cumsum max_pool max_pool_index avg_pool lp_pool top_k ";
constexpr std::string_view kMoves =
    " reshape transpose broadcast concat slice pad gather gather_elements gather_nd "
    "scatter_elements scatter_nd iota trilu sizes resize cast ";

bool contains(std::string_view list, const std::string &op) {
  return list.find(" " + op + " ") != std::string_view::npos;
}

/// The shape of an operand or result; null where it is not known.
const std::vector<std::string> *shapeOf(const Graph &graph, const std::vector<int64_t> &values,
                                        size_t index) {
  bool isThere = index < values.size() && values[index] >= 0;
  const Value *value = isThere ? &graph.values[static_cast<size_t>(values[index])] : nullptr;
  return value && value->shape ? &*value->shape : nullptr;
}

/// "[3, 3]" as "3x3".
std::string joined(std::string list) {
  std::erase_if(list, [](char c) { return c == '[' || c == ']' || c == ' '; });
  std::string text;
  for (char c : list) {
    text += c == ',' ? 'x' : c;
  }
  return text;
}

std::string attributeOf(const Node &node, const char *name) {
  auto found = node.attributes.find(name);
  return found != node.attributes.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string lowerLetters(std::string_view text) {
  std::string letters;
  for (unsigned char c : text) {
    if (std::isalpha(c)) {
      letters += static_cast<char>(std::tolower(c));
    }
  }
  return letters;
}

/// Whether a part of a name is the operator again: "Conv", "MatMul_3", "relu1".
bool repeatsOperator(std::string_view part, const Node &node) {
  std::string letters = lowerLetters(part);
  auto isSame = [&](const std::string &op) { return letters == lowerLetters(op); };
  return isSame(node.op) || std::any_of(node.from.begin(), node.from.end(), isSame);
}

} // namespace

std::string whatOf(const Graph &graph, const Node &node) {
  if (node.op == "conv" || node.op == "conv_transpose") {
    const std::vector<std::string> *weight = shapeOf(graph, node.inputs, 1);
    if (weight && weight->size() > 2) {
      std::vector<std::string> window(weight->begin() + 2, weight->end());
      std::string text = fmt::format("{} {}", node.op, fmt::join(window, "x"));
      return node.op == "conv" ? fmt::format("{}, {}", text, weight->front()) : text;
    }
  }
  if (node.op == "matmul") {
    const std::vector<std::string> *result = shapeOf(graph, node.outputs, 0);
    return result && !result->empty() ? fmt::format("matmul, {}", result->back()) : node.op;
  }
  for (const char *name : {"kernel", "window", "kind", "mode", "predicate"}) {
    if (std::string value = attributeOf(node, name); !value.empty() && value.size() < 16) {
      return fmt::format("{} {}", node.op, joined(value));
    }
  }
  return node.op;
}

std::string whereOf(const Node &node) {
  std::string_view name = node.name;
  size_t slash = name.rfind('/');
  if (slash == std::string_view::npos || slash + 1 == name.size()) {
    return repeatsOperator(name, node) ? "" : node.name;
  }
  std::string_view last = name.substr(slash + 1), before = name.substr(0, slash);
  size_t other = before.rfind('/');
  before = other == std::string_view::npos ? before : before.substr(other + 1);
  return std::string(repeatsOperator(last, node) ? before : last);
}

const char *familyOf(const Node &node) {
  return contains(kProducts, node.op) ? "product"
         : contains(kRows, node.op)   ? "row"
         : contains(kMoves, node.op)  ? "move"
                                      : "point";
}

} // namespace tenon::view
