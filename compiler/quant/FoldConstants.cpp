// Nodes in the model's order, so that chains are followed; what is still read then becomes an
// initializer.
#include "compiler/quant/FoldConstants.h"

#include "compiler/quant/ConstantOps.h"

#include <algorithm>

namespace tenon::quant {
namespace {

using std::string_view;

/// Results of more elements than this many times the largest operand stay computed, above a size.
constexpr size_t kGrowth = 4, kSmall = 1 << 16;

/// A Transpose of stored weights before a product stays: both forms of a matrix are one constant.
bool isKeptTransposed(const Graph &graph, size_t node, bool isStored) {
  constexpr string_view kProducts[] = {"MatMul", "Gemm"};
  const std::vector<Use> &uses = graph.uses(graph.node(node).outputs.front());
  return isStored && graph.isOp(node, "Transpose") &&
         std::any_of(uses.begin(), uses.end(),
                     [&](const Use &use) { return graph.isOneOf(use.node, kProducts); });
}

/// Moves a stored tensor, whose elements stay what they are: it is found by its name there, and the
/// results of some such nodes are names too, as of equal parameters.
bool isNamed(const Graph &graph, size_t node) {
  constexpr string_view kMoving[] = {"Identity", "Unsqueeze", "Squeeze",   "Reshape",
                                     "Flatten",  "Slice",     "Transpose", "Gather"};
  onnx::DataType type = graph.typeOf(graph.node(node).inputs.front());
  bool isInteger = type == onnx::DataType::Int64 || type == onnx::DataType::Int32;
  return graph.isOneOf(node, kMoving) && !isInteger;
}

} // namespace

bool foldConstants(const Graph &graph, ModelEdit &edit, onnx::ExternalFiles &files,
                   bool keepsNames) {
  std::map<string_view, Constant> made;
  std::map<string_view, string_view> same; ///< results of Identity, and what they are
  std::set<size_t> gone;
  for (size_t i = 0; i < graph.all().size(); ++i) {
    const onnx::Node &node = graph.node(i);
    bool hasGraph = std::any_of(node.attributes.begin(), node.attributes.end(),
                                [](const onnx::Attribute &a) { return a.graph != nullptr; });
    bool isCandidate = !node.inputs.empty() && node.outputs.size() == 1 && !hasGraph &&
                       !graph.isKept(node.outputs.front());
    if (!isCandidate) {
      continue;
    }
    auto resolved = [&](string_view name) {
      auto found = same.find(name);
      return found == same.end() ? name : found->second;
    };
    auto isConstant = [&](string_view name) {
      return name.empty() || graph.constant(resolved(name)) || made.contains(name);
    };
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), isConstant)) {
      continue;
    }
    string_view source = resolved(node.inputs.front());
    bool isStored = !made.contains(source);
    if (keepsNames && isStored && isNamed(graph, i)) {
      continue;
    }
    if (graph.isOp(i, "Identity") && isStored) {
      same[node.outputs.front()] = source;
      gone.insert(i);
      continue;
    }
    if (isKeptTransposed(graph, i, isStored)) {
      continue;
    }
    std::map<string_view, Constant> loaded;
    std::vector<const Constant *> operands;
    bool isKnown = true;
    size_t most = 0;
    for (string_view input : node.inputs) {
      string_view name = resolved(input);
      auto own = made.find(name);
      if (own == made.end() && !name.empty()) {
        Folded read = loadConstant(*graph.constant(name), files);
        isKnown = isKnown && read;
        own = read ? loaded.insert_or_assign(name, std::move(*read)).first : own;
      }
      operands.push_back(name.empty() || !isKnown ? nullptr : &own->second);
      most = std::max(most, operands.back() ? operands.back()->size() : 0);
    }
    Folded result = isKnown && operands.front() ? foldNode(graph, i, operands) : std::nullopt;
    if (result && result->size() <= std::max(kGrowth * most, kSmall)) {
      made.emplace(node.outputs.front(), std::move(*result));
      gone.insert(i);
    }
  }
  // What is still read becomes a constant of the name that it has; halves are not written, so that
  // their nodes stay, and with them those that these read.
  for (size_t i = graph.all().size(); i-- > 0;) {
    if (!gone.contains(i)) {
      continue;
    }
    string_view name = graph.node(i).outputs.front();
    const std::vector<Use> &uses = graph.uses(name);
    bool isRead = std::any_of(uses.begin(), uses.end(),
                              [&](const Use &use) { return !gone.contains(use.node); });
    auto own = made.find(name);
    if (isRead && own != made.end() && own->second.isHalf()) {
      gone.erase(i);
      continue;
    }
    edit.drop(i);
    for (const Use &use : uses) {
      if (own == made.end() && !gone.contains(use.node)) {
        edit.setOperand(use, std::string(same.at(name)));
        edit.keep(same.at(name));
      }
    }
    if (isRead && own != made.end()) {
      const Constant &constant = own->second;
      std::vector<int32_t> narrow(constant.ints.begin(), constant.ints.end());
      edit.addConstant(std::string(name), constant.type, constant.dims,
                       constant.isFloat()                       ? bytesOf(constant.floats)
                       : constant.type == onnx::DataType::Int32 ? bytesOf(narrow)
                                                                : bytesOf(constant.ints));
    }
  }
  return !gone.empty();
}

} // namespace tenon::quant
