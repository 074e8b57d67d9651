// The noise is predicted from what observers say of each channel, as that of smoothing is.
#include "compiler/quant/DepthwiseNoise.h"

#include "compiler/quant/QdqWriter.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::quant {
namespace {

using std::string_view;

/// Below this signal over noise, in decibels, one layer decides what the model loses: that of what
/// layers read in 8 bits is about 40.
constexpr double kNoisy = 28;

bool isDepthwise(const Graph &graph, const Layer &layer) {
  return layer.treatment == Treatment::Narrow && layer.weight && graph.isOp(layer.node, "Conv") &&
         integerOf(graph.node(layer.node), "group", 1) > 1 && layer.weight->tensor->dims[1] == 1;
}

double varianceOf(const Channels &channels, size_t channel) {
  double mean = channels.means[channel];
  return std::max(channels.squares[channel] - mean * mean, 0.0);
}

/// Of the results, in decibels; a channel adds at most what it has.
double signalOverNoise(const Floats &weight, const Channels &read, const Channels &made,
                       double error) {
  size_t outputs = made.means.size(), taps = weight.values.size() / outputs;
  size_t each = outputs / read.means.size();
  double signal = 0, noise = 0;
  for (size_t c = 0; c < outputs; ++c) {
    double squares = 0, most = 0;
    for (size_t i = c * taps; i < (c + 1) * taps; ++i) {
      double value = weight.values[i];
      squares += value * value;
      most = std::max(most, std::fabs(value));
    }
    double step = most / kMaxWeight, own = varianceOf(made, c);
    double rounded = step * step / 12 * static_cast<double>(taps) * varianceOf(read, c / each);
    signal += own;
    noise += std::min(squares * error + rounded, own);
  }
  return noise > 0 ? 10 * std::log10(signal / noise) : std::numeric_limits<double>::infinity();
}

} // namespace

std::optional<string_view> judgedBy(const Graph &graph, const Layer &layer) {
  constexpr string_view kActivations[] = {"Relu", "Clip", "LeakyRelu", "HardSwish", "PRelu"};
  if (!isDepthwise(graph, layer)) {
    return std::nullopt;
  }
  string_view value = layer.output;
  for (std::optional<size_t> reader = graph.onlyReader(value);
       reader && graph.isOneOf(*reader, kActivations); reader = graph.onlyReader(value)) {
    value = graph.node(*reader).outputs.front();
  }
  return value;
}

Result<Overrides> findNoisyDepthwise(const Graph &graph, const Plan &plan,
                                     const std::map<string_view, Channels> &channels,
                                     const std::function<double(const Group &)> &errorOf,
                                     onnx::ExternalFiles &files) {
  Overrides noisy;
  size_t others = 0;
  for (const Layer &layer : plan.layers) {
    std::optional<string_view> judged = judgedBy(graph, layer);
    others += layer.treatment == Treatment::Narrow && !judged;
    if (!judged) {
      continue;
    }
    string_view input = graph.node(layer.node).inputs.front();
    auto read = channels.find(input), made = channels.find(*judged);
    if (read == channels.end() || made == channels.end()) {
      continue;
    }
    TENON_ASSIGN(Floats weight, loadFloats(*layer.weight->tensor, files));
    if (layer.norm) {
      std::vector<float> bias;
      TENON_TRY(foldNormBehind(graph, layer, files, weight, bias));
    }
    size_t outputs = static_cast<size_t>(weight.dims[0]), inputs = read->second.means.size();
    if (made->second.means.size() != outputs || inputs == 0 || outputs % inputs != 0) {
      continue;
    }
    double error = errorOf(plan.groups[plan.groupOf.at(input)]);
    double decibels = signalOverNoise(weight, read->second, made->second, error);
    if (decibels < kNoisy) {
      noisy.emplace(nameOf(graph.node(layer.node)),
                    std::pair(Treatment::Wide,
                              strCat("takes differences: 8 bits would leave ",
                                     std::lround(std::max(decibels, 0.0)), " dB of its results")));
    }
  }
  // A model of which nothing else is narrow was asked to be.
  return others > 0 ? noisy : Overrides();
}

} // namespace tenon::quant
