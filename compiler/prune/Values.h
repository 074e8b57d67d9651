// The axes of all values of a model: computed ones, and constants as each node reads them. Relies
// on the dims that the importer found, and on the graph's views staying valid.
#pragma once

#include "compiler/prune/AxisClasses.h"
#include "compiler/quant/Graph.h"

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::prune {

/// Dims of values by name; -1 for a size that only data decides.
using ValueDims = std::map<std::string, std::vector<int64_t>>;
/// Those at several sizes of the free dims of a model's inputs. Rules look at the first; the others
/// tell what follows free dims, and are what the narrower model is checked at.
using SampledDims = std::vector<ValueDims>;
/// One for each dim. Of size 0 where the size is not known or too large to follow: such an axis
/// stays.
using Axes = std::vector<Axis>;
/// Longer ones count positions or boxes, never channels.
inline constexpr int64_t kMaxIndices = 1 << 16;

/// An axis that may be counted from the last one, counted from the first.
inline size_t fromFront(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

class Values {
public:
  Values(const quant::Graph &graph, const SampledDims &samples, AxisClasses &axisClasses);

  /// Null for what is not there or no tensor. Constants of rank 0 and 1 have axes for each use
  /// but those that take parts: exporters store equal ones, as of fresh norms, once.
  const Axes *operand(quant::Use use) const;
  const Axes *result(size_t node, size_t output) const;
  /// Of an input or a computed value.
  const Axes *named(std::string_view name) const;
  /// Of all computed values and inputs, numbered as they come.
  template <typename Visit> void forEachAxis(const Visit &visit) const {
    size_t number = 0;
    for (const auto &[name, axes] : byName) {
      for (Axis axis : axes) {
        visit(number++, axis);
      }
    }
  }
  /// Whether it follows from constants alone, and is zero where they are.
  bool isParameter(std::string_view name) const { return parameters.contains(name); }

private:
  const quant::Graph &graph;
  std::unordered_map<std::string_view, Axes> byName;
  std::map<std::pair<size_t, size_t>, Axes> byUse;
  std::set<std::string_view> parameters;
};

} // namespace tenon::prune
