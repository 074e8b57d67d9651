// Classes of the dependency graph that can take each other's place: the channels of a layer, with
// those that are tied to them, the heads of an attention, the width of an FFN.
#pragma once

#include "compiler/prune/Rules.h"

namespace tenon::prune {

/// A constant of floats as one node reads it; of rank 2 and more the first node stands for all.
struct Parameter {
  quant::Use use;
  const onnx::Tensor *tensor = nullptr;
  const Axes *axes = nullptr;
};
std::vector<Parameter> parametersOf(const quant::Graph &graph, const Values &values);

/// An axis that a product makes: its weights decide how long it is.
struct Producer {
  size_t node = 0;
  Axis axis;
};

struct Group {
  std::vector<Producer> producers; ///< in the order of the nodes; of the first of its classes
  std::vector<uint32_t> classes;   ///< in the order of their indices
  /// The same in parts that stand in the same axes: of each something has to be left.
  std::vector<std::vector<uint32_t>> parts;
  /// Indices of the widest producer that go with a class: the size of a head, or 1.
  uint32_t unit = 1;
};

struct Groups {
  std::vector<Group> groups;
  std::vector<Producer> fixed; ///< those of which every index stays
};
/// Parts of layers, as the halves of a split, are groups of their own where they have twice the
/// multiple.
Groups groupsOf(const quant::Graph &graph, const Values &values, const AxisClasses &axisClasses,
                uint32_t multiple);

} // namespace tenon::prune
