// One pass over the elements of each tensor for each of its axes that a group has a part in.
#include "compiler/prune/Importance.h"

#include "compiler/frontend/onnx/wire/TensorData.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tenon::prune {
namespace {

constexpr size_t kNone = SIZE_MAX;

/// Where a class stands: its group, and its place there.
struct Place {
  size_t group = kNone, place = 0;
};

/// Sums of what `term` makes of the elements, for each index of an axis.
template <typename Term>
std::vector<double> sumsAlong(std::span<const int64_t> dims, size_t axis,
                              std::span<const float> values, const Term &term) {
  size_t inner = 1, size = static_cast<size_t>(dims[axis]);
  for (size_t i = axis + 1; i < dims.size(); ++i) {
    inner *= static_cast<size_t>(dims[i]);
  }
  std::vector<double> sums(size, 0);
  for (size_t begin = 0, index = 0; begin < values.size();
       begin += inner, index = (index + 1) % size) {
    for (size_t i = 0; i < inner; ++i) {
      sums[index] += term(double(values[begin + i]));
    }
  }
  return sums;
}

class GroupScorer {
public:
  GroupScorer(const AxisClasses &axisClasses, std::span<const Group> groups)
      : axisClasses(axisClasses), totals(groups.size()), counts(groups.size()) {
    for (size_t g = 0; g < groups.size(); ++g) {
      totals[g].resize(groups[g].classes.size(), 0);
      counts[g].resize(groups[g].classes.size(), 0);
      for (size_t i = 0; i < groups[g].classes.size(); ++i) {
        places[groups[g].classes[i]] = {g, i};
      }
    }
  }

  bool concerns(Axis axis) const {
    for (uint32_t i = 0; i < axis.size; ++i) {
      if (places.contains(axisClasses.classOf(axis.at(i)))) {
        return true;
      }
    }
    return false;
  }

  /// Sums of the indices of an axis. Relative ones count as much from a tensor of small elements as
  /// from one of large ones.
  void add(Axis axis, const std::vector<double> &sums, bool isRelative) {
    std::map<size_t, std::map<size_t, double>> ofGroups;
    for (uint32_t i = 0; i < axis.size; ++i) {
      auto place = places.find(axisClasses.classOf(axis.at(i)));
      if (place != places.end()) {
        ofGroups[place->second.group][place->second.place] += sums[i];
      }
    }
    for (const auto &[group, classes] : ofGroups) {
      double mean = 0;
      for (const auto &[place, sum] : classes) {
        mean += sum / double(classes.size());
      }
      for (const auto &[place, sum] : classes) {
        totals[group][place] += isRelative ? sum / std::max(mean, 1e-30) : sum;
        counts[group][place] += 1;
      }
    }
  }

  bool hasAny(size_t group) const {
    return std::any_of(counts[group].begin(), counts[group].end(),
                       [](size_t count) { return count > 0; });
  }
  std::vector<double> scores(size_t group) const {
    std::vector<double> result = totals[group];
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] /= double(std::max<size_t>(counts[group][i], 1));
    }
    return result;
  }

private:
  const AxisClasses &axisClasses;
  std::map<uint32_t, Place> places;
  std::vector<std::vector<double>> totals;
  std::vector<std::vector<size_t>> counts;
};

bool isNormScale(const quant::Graph &graph, const Parameter &parameter) {
  return graph.isOp(parameter.use.node, "BatchNormalization") && parameter.use.operand == 1;
}

template <typename Element> std::vector<float> widened(const onnx::TensorData &data) {
  std::vector<float> values(data.elements);
  for (size_t i = 0; i < values.size(); ++i) {
    Element element;
    std::memcpy(&element, data.view.data() + i * sizeof(element), sizeof(element));
    values[i] = static_cast<float>(element);
  }
  return values;
}

/// As quant::loadFloats, which reads FP32, of all types that parameters have.
Result<quant::Floats> loadParameter(const onnx::Tensor &tensor, onnx::ExternalFiles &files) {
  if (tensor.type == onnx::DataType::Float) {
    return quant::loadFloats(tensor, files);
  }
  TENON_ASSIGN(onnx::TensorData data, onnx::loadTensor(tensor, files));
  if (data.seeded) {
    return Status::error(ErrorId::BadArgument,
                         strCat("the weights '", tensor.name, "' are seeded: they have no values"),
                         "prune a trained model");
  }
  quant::Floats floats{data.dims, tensor.type == onnx::DataType::Float16 ? widened<_Float16>(data)
                                  : tensor.type == onnx::DataType::BFloat16
                                      ? widened<__bf16>(data)
                                      : widened<double>(data)};
  if (!std::all_of(floats.values.begin(), floats.values.end(),
                   [](float value) { return std::isfinite(value); })) {
    return Status::error(
        ErrorId::BadArgument,
        strCat("the weights '", tensor.name, "' contain values that are not finite"),
        "train or export the model again");
  }
  return floats;
}

Status addMagnitudes(const quant::Graph &graph, std::span<const Parameter> parameters,
                     bool onlyScales, GroupScorer &scorer, onnx::ExternalFiles &files) {
  for (const Parameter &parameter : parameters) {
    bool isScale = isNormScale(graph, parameter);
    bool isWeight = !onlyScales && parameter.axes->size() > 1;
    if ((!isScale && !isWeight) || std::none_of(parameter.axes->begin(), parameter.axes->end(),
                                                [&](Axis axis) { return scorer.concerns(axis); })) {
      continue;
    }
    TENON_ASSIGN(quant::Floats floats, loadParameter(*parameter.tensor, files));
    for (size_t axis = 0; axis < parameter.axes->size(); ++axis) {
      if (scorer.concerns((*parameter.axes)[axis])) {
        scorer.add(
            (*parameter.axes)[axis],
            sumsAlong(floats.dims, axis, floats.values, [](double value) { return value * value; }),
            true);
      }
    }
  }
  return Status::ok();
}

Status addScores(std::span<const Parameter> parameters, std::span<const ScoreTensor> scores,
                 GroupScorer &scorer) {
  for (const Parameter &parameter : parameters) {
    auto given = std::find_if(scores.begin(), scores.end(), [&](const ScoreTensor &own) {
      return own.name == parameter.tensor->name;
    });
    if (given == scores.end()) {
      continue;
    }
    if (given->dims != parameter.tensor->dims) {
      return Status::error(
          ErrorId::BadImportance,
          strCat("the scores of '", given->name, "' have other dims than the tensor"),
          "compute them from the exported module: tenon.prune.taylor(module, data)");
    }
    if (!std::all_of(given->values.begin(), given->values.end(),
                     [](float value) { return std::isfinite(value); })) {
      return Status::error(
          ErrorId::BadImportance,
          strCat("the scores of '", given->name, "' contain values that are not finite"),
          "check the loss that they were computed from");
    }
    for (size_t axis = 0; axis < parameter.axes->size(); ++axis) {
      if (scorer.concerns((*parameter.axes)[axis])) {
        scorer.add((*parameter.axes)[axis],
                   sumsAlong(given->dims, axis, given->values,
                             [](double value) { return std::abs(value); }),
                   false);
      }
    }
  }
  return Status::ok();
}

} // namespace

Result<std::vector<Ranking>> rank(const quant::Graph &graph, const AxisClasses &axisClasses,
                                  std::span<const Group> groups,
                                  std::span<const Parameter> parameters, Importance importance,
                                  std::span<const ScoreTensor> scores, onnx::ExternalFiles &files) {
  GroupScorer asked(axisClasses, groups), magnitudes(axisClasses, groups);
  if (importance == Importance::Scores) {
    TENON_TRY(addScores(parameters, scores, asked));
  } else {
    TENON_TRY(addMagnitudes(graph, parameters, importance == Importance::NormScale, asked, files));
  }
  if (importance != Importance::Magnitude) {
    TENON_TRY(addMagnitudes(graph, parameters, false, magnitudes, files));
  }
  std::vector<Ranking> result;
  bool isAny = false;
  for (size_t g = 0; g < groups.size(); ++g) {
    bool isKnown = asked.hasAny(g), isFallback = !isKnown && importance != Importance::Magnitude;
    isAny = isAny || isKnown;
    result.push_back({isFallback ? magnitudes.scores(g) : asked.scores(g), isFallback,
                      isKnown || magnitudes.hasAny(g)});
  }
  if (!isAny && importance != Importance::Magnitude) {
    bool isScores = importance == Importance::Scores;
    return Status::error(
        ErrorId::BadImportance,
        isScores ? "no tensor that can be pruned has the name of one with scores"
                 : "no BatchNormalization scales a channel that can be pruned",
        isScores ? "export the module with its parameters' names: tenon.prune.export(module, …)"
                 : "use --importance magnitude, or export without folding the norms");
  }
  return result;
}

} // namespace tenon::prune
