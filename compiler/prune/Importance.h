// How much each class of a group matters: the smallest are removed first.
#pragma once

#include "compiler/prune/Groups.h"
#include "compiler/quant/Weights.h"

#include <span>
#include <string>

namespace tenon::prune {

enum class Importance : uint8_t {
  Magnitude, ///< L2 norm of all slices of the group, each tensor's relative to its mean
  NormScale, ///< |scale| of the BatchNormalizations (Liu et al., "Network Slimming", 2017)
  Scores,    ///< given for each element, as of a Taylor expansion (Molchanov et al., 2019)
};

/// Scores of the elements of a tensor.
struct ScoreTensor {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<float> values;
};

/// How each group was judged.
struct Ranking {
  std::vector<double> scores; ///< one for each of Group::classes
  bool isFallback = false;    ///< by magnitude, since nothing else is known of it
  bool isKnown = false;       ///< some tensor says which matter
};

/// An error for scores of other dims than their tensor, of values that are not finite, and where no
/// tensor of any group has what is asked for.
Result<std::vector<Ranking>> rank(const quant::Graph &graph, const AxisClasses &axisClasses,
                                  std::span<const Group> groups,
                                  std::span<const Parameter> parameters, Importance importance,
                                  std::span<const ScoreTensor> scores, onnx::ExternalFiles &files);

} // namespace tenon::prune
