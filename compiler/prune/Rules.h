// What each operator of ONNX ties together: the rules of the dependency graph, one function an
// operator family. An operator without a rule ties nothing and keeps all axes that it reads and
// makes, so that one that is not known is safe. (DepGraph: Fang et al., "DepGraph: Towards Any
// Structural Pruning", 2023; here of indices, so that index maps need no rules of their own.)
#pragma once

#include "compiler/prune/Sizes.h"

namespace tenon::prune {

/// Axes that no value has, by their nodes: groups of a convolution or a norm, heads of attention.
/// The attribute counts them.
struct Counted {
  std::string_view attribute;
  Axis axis;
};
using CountedAxes = std::multimap<size_t, Counted>;

/// One node while its rule runs.
class NodeContext {
public:
  NodeContext(const quant::Graph &graph, const Values &values, AxisClasses &axisClasses,
              CountedAxes &counted, const Sizes &sizes, size_t node)
      : graph(graph), values(values), axisClasses(axisClasses), counted(counted), sizes(sizes),
        node(node) {}

  const onnx::Node &own() const { return graph.node(node); }
  const Axes *operand(size_t index) const { return values.operand({node, index}); }
  const Axes *result(size_t index = 0) const { return values.result(node, index); }
  /// Elements of a constant operand of integers, or of the attribute that older versions have.
  std::optional<std::vector<int64_t>> integers(size_t operand, std::string_view attribute) const;
  int64_t integer(std::string_view attribute, int64_t fallback) const {
    return quant::integerOf(own(), attribute, fallback);
  }
  /// A text of the attribute.
  std::string_view text(std::string_view attribute, std::string_view fallback) const;
  /// As Sizes::constant.
  std::optional<std::vector<int64_t>> elements(std::string_view value) const;

  /// Whether the operand is computed of dims and constants alone.
  bool isOfSizes(size_t operand) const;

  /// Axes of different sizes stay instead.
  void tie(Axis one, Axis other);
  void tieAll(const Axes &one, const Axes &other);
  /// "Softmax 'NAME' normalizes over it".
  void keep(Axis axis, std::string_view what);
  void keepAll(const Axes *axes, std::string_view what);
  /// All that the node reads and makes.
  void keepNode(std::string_view what);
  /// As AxisClasses::product; of axes whose sizes do not multiply up, all stay.
  void product(Axis whole, std::vector<Axis> factors);
  /// An axis that no value has, counted by an attribute of the node.
  Axis count(std::string_view attribute, uint32_t size);
  std::string reason(std::string_view what) const;

  const quant::Graph &graph;
  const Values &values;
  AxisClasses &axisClasses;

private:
  CountedAxes &counted;
  const Sizes &sizes;
  const size_t node;
};

/// A rule, or null for an operator that has none.
using Rule = void (*)(NodeContext &context);
Rule pointwiseRule(std::string_view op);
Rule productRule(std::string_view op);
Rule movementRule(std::string_view op);
Rule normRule(std::string_view op);
Rule sizeRule(std::string_view op);

/// All nodes of the model; its inputs and outputs stay as they are. Settles the axisClasses.
CountedAxes applyRules(const onnx::Model &model, const quant::Graph &graph, const Values &values,
                       AxisClasses &axisClasses, const Sizes &sizes);

} // namespace tenon::prune
