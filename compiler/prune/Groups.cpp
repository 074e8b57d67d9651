// Relies on classes being numbered in the order of the nodes.
#include "compiler/prune/Groups.h"

#include <algorithm>
#include <optional>

namespace tenon::prune {

std::vector<Parameter> parametersOf(const quant::Graph &graph, const Values &values) {
  std::vector<Parameter> result;
  std::set<uint32_t> seen; ///< first indices: uses of one tensor may have axes of their own
  for (size_t node = 0; node < graph.all().size(); ++node) {
    for (size_t i = 0; i < graph.node(node).inputs.size(); ++i) {
      std::string_view name = graph.node(node).inputs[i];
      const onnx::Tensor *tensor = graph.constant(name);
      const Axes *axes = values.operand({node, i});
      bool isFloat =
          tensor &&
          (tensor->type == onnx::DataType::Float || tensor->type == onnx::DataType::Float16 ||
           tensor->type == onnx::DataType::BFloat16 || tensor->type == onnx::DataType::Double);
      if (isFloat && axes && !axes->empty() && seen.insert(axes->front().first).second) {
        result.push_back({{node, i}, tensor, axes});
      }
    }
  }
  return result;
}

namespace {

std::vector<Producer> producersOf(const quant::Graph &graph, const Values &values,
                                  const AxisClasses &axisClasses) {
  std::vector<Producer> result;
  for (size_t node = 0; node < graph.all().size(); ++node) {
    const Axes *y = values.result(node, 0);
    const onnx::Node &own = graph.node(node);
    auto isParameter = [&](size_t operand) {
      std::string_view name = own.inputs[operand];
      return graph.constant(name) || values.isParameter(name);
    };
    constexpr std::string_view convolutions[] = {"Conv", "ConvTranspose", "Gemm"};
    if (!y || y->empty()) {
      continue;
    }
    if (graph.isOneOf(node, convolutions) && y->size() > 1 && isParameter(1)) {
      result.push_back({node, (*y)[1]});
    } else if (graph.isOp(node, "MatMul") && isParameter(1)) {
      result.push_back({node, y->back()});
    } else if (graph.isOp(node, "MatMul") && isParameter(0) && y->size() > 1) {
      result.push_back({node, (*y)[y->size() - 2]});
    } else if (graph.isOp(node, "Einsum")) {
      // Its batches stay; which axes are those the ties know.
      bool hasWeights = false;
      for (size_t i = 0; i < own.inputs.size(); ++i) {
        hasWeights = hasWeights || isParameter(i);
      }
      for (Axis axis : hasWeights ? *y : Axes()) {
        if (!axisClasses.isFixed(axis)) {
          result.push_back({node, axis});
        }
      }
    } else if (graph.isOp(node, "Gather") && isParameter(0) && !isParameter(1)) {
      result.push_back({node, y->back()});
    }
  }
  return result;
}

/// Components of classes that some producer makes together.
class Components {
public:
  explicit Components(const AxisClasses &axisClasses) : axisClasses(axisClasses) {}

  /// Whether it makes any class that can go.
  bool add(const Producer &producer) {
    std::optional<uint32_t> first;
    for (uint32_t index : freeClasses(producer.axis)) {
      first = first.value_or(index);
      parents.emplace(index, index);
      uint32_t one = find(*first), other = find(index);
      parents[std::max(one, other)] = std::min(one, other);
    }
    return first.has_value();
  }
  std::set<uint32_t> freeClasses(Axis axis) const {
    std::set<uint32_t> classes;
    for (uint32_t i = 0; i < axis.size; ++i) {
      if (!axisClasses.isFixed(axis.at(i))) {
        classes.insert(axisClasses.classOf(axis.at(i)));
      }
    }
    return classes;
  }
  uint32_t find(uint32_t index) const {
    while (parents.at(index) != index) {
      index = parents.at(index);
    }
    return index;
  }
  /// By their first classes.
  std::map<uint32_t, std::vector<uint32_t>> all() const {
    std::map<uint32_t, std::vector<uint32_t>> result;
    for (const auto &[index, parent] : parents) {
      result[find(index)].push_back(index);
    }
    return result;
  }

private:
  const AxisClasses &axisClasses;
  std::map<uint32_t, uint32_t> parents;
};

/// The classes of a component in parts that stand in the same axes of the same values, as the
/// halves of a split do: each part can have a width of its own then.
std::vector<std::vector<uint32_t>> partsOf(const std::vector<uint32_t> &classes,
                                           const std::map<uint32_t, std::vector<size_t>> &places) {
  std::map<std::vector<size_t>, std::vector<uint32_t>> parts;
  for (uint32_t index : classes) {
    parts[places.at(index)].push_back(index);
  }
  std::vector<std::vector<uint32_t>> result;
  for (auto &[where, part] : parts) {
    result.push_back(std::move(part));
  }
  std::sort(result.begin(), result.end());
  return result;
}

} // namespace

Groups groupsOf(const quant::Graph &graph, const Values &values, const AxisClasses &axisClasses,
                uint32_t multiple) {
  Groups result;
  Components components(axisClasses);
  std::vector<Producer> members;
  for (const Producer &producer : producersOf(graph, values, axisClasses)) {
    (components.add(producer) ? members : result.fixed).push_back(producer);
  }
  std::map<uint32_t, std::vector<size_t>> places;
  for (size_t i = 0; i < members.size(); ++i) {
    for (uint32_t index : components.freeClasses(members[i].axis)) {
      places[index].push_back(i);
    }
  }
  values.forEachAxis([&](size_t number, Axis axis) {
    for (uint32_t index : components.freeClasses(axis)) {
      if (auto found = places.find(index); found != places.end()) {
        found->second.push_back(members.size() + number);
      }
    }
  });
  for (const auto &[first, classes] : components.all()) {
    std::vector<std::vector<uint32_t>> parts = partsOf(classes, places);
    bool isWide = std::all_of(parts.begin(), parts.end(), [&](const std::vector<uint32_t> &part) {
      return part.size() >= size_t{2} * multiple;
    });
    std::vector<Group> groups;
    if (isWide) {
      for (std::vector<uint32_t> &part : parts) {
        groups.push_back({{}, part, {part}});
      }
    } else {
      groups.push_back({{}, classes, std::move(parts)});
    }
    for (Group &group : groups) {
      for (size_t place : places.at(group.classes.front())) {
        if (place >= members.size()) {
          continue;
        }
        const Producer &producer = members[place];
        uint32_t free = static_cast<uint32_t>(components.freeClasses(producer.axis).size());
        group.producers.push_back(producer);
        group.unit = std::max(group.unit, producer.axis.size / free);
      }
      result.groups.push_back(std::move(group));
    }
  }
  std::sort(result.groups.begin(), result.groups.end(), [](const Group &a, const Group &b) {
    return std::pair(a.producers.front().node, a.classes.front()) <
           std::pair(b.producers.front().node, b.classes.front());
  });
  return result;
}

} // namespace tenon::prune
