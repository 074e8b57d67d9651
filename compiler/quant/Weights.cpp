// Channels are visited in memory order, whatever axis counts them.
#include "compiler/quant/Weights.h"

#include "support/text/Text.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tenon::quant {
namespace {

/// Shares of a channel's largest weight that its range may end at.
constexpr double kShares[] = {1.0, 0.95, 0.9, 0.85, 0.8, 0.72, 0.64, 0.56};

/// The weights as [outer, channels, inner].
struct Layout {
  int64_t outer = 1, channels = 1, inner = 1;

  Layout(std::span<const int64_t> dims, int64_t axis) {
    for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i) {
      (i < axis ? outer : i == axis ? channels : inner) *= dims[static_cast<size_t>(i)];
    }
  }
  template <typename Visit> void forEach(const Visit &visit) const {
    size_t index = 0;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t i = 0; i < inner; ++i) {
          visit(index++, static_cast<size_t>(c));
        }
      }
    }
  }
};

float rounded(float value, float inverse, float bound) {
  return std::clamp(std::nearbyintf(value * inverse), -bound, bound);
}

} // namespace

Result<Floats> loadFloats(const onnx::Tensor &tensor, onnx::ExternalFiles &files) {
  TENON_ASSIGN(onnx::TensorData data, onnx::loadTensor(tensor, files));
  if (data.seeded) {
    return Status::error(ErrorId::BadArgument,
                         strCat("the weights '", tensor.name, "' are seeded: they have no values"),
                         "quantize a trained model");
  }
  Floats floats{data.dims, std::vector<float>(data.elements)};
  std::memcpy(floats.values.data(), data.view.data(), data.elements * sizeof(float));
  bool isFinite = std::all_of(floats.values.begin(), floats.values.end(),
                              [](float value) { return std::isfinite(value); });
  if (!isFinite) {
    return Status::error(
        ErrorId::BadArgument,
        strCat("the weights '", tensor.name, "' contain values that are not finite"),
        "train or export the model again");
  }
  return floats;
}

Floats transposed(const Floats &weight) {
  size_t rows = static_cast<size_t>(weight.dims[0]), columns = static_cast<size_t>(weight.dims[1]);
  Floats result{{weight.dims[1], weight.dims[0]}, std::vector<float>(weight.values.size())};
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      result.values[column * rows + row] = weight.values[row * columns + column];
    }
  }
  return result;
}

QuantizedWeight quantizeWeight(const Floats &weight, int64_t axis, int bound,
                               std::span<const float> lowest) {
  float end = static_cast<float>(bound);
  Layout layout(weight.dims, axis);
  size_t channels = static_cast<size_t>(layout.channels);
  const std::vector<float> &values = weight.values;
  std::vector<float> most(channels), scales(channels, 1), inverse(channels);
  layout.forEach([&](size_t i, size_t c) { most[c] = std::max(most[c], std::fabs(values[i])); });
  std::vector<double> least(channels, std::numeric_limits<double>::infinity());
  for (double share : kShares) {
    std::vector<float> tried(channels);
    for (size_t c = 0; c < channels; ++c) {
      float least = lowest.empty() ? kMinScale : std::max(lowest[c], kMinScale);
      tried[c] = most[c] > 0 ? static_cast<float>(most[c] * share) / end : 1;
      tried[c] = std::max(tried[c], least);
      inverse[c] = 1 / tried[c];
    }
    std::vector<float> errors(channels);
    layout.forEach([&](size_t i, size_t c) {
      float error = values[i] - rounded(values[i], inverse[c], end) * tried[c];
      errors[c] += error * error;
    });
    for (size_t c = 0; c < channels; ++c) {
      if (errors[c] < least[c]) {
        least[c] = errors[c];
        scales[c] = tried[c];
      }
    }
  }
  QuantizedWeight result{weight.dims, std::vector<int8_t>(values.size()), scales, 0};
  for (size_t c = 0; c < channels; ++c) {
    inverse[c] = 1 / scales[c];
  }
  layout.forEach([&](size_t i, size_t c) {
    result.values[i] = static_cast<int8_t>(rounded(values[i], inverse[c], end));
  });
  double energy = 0, error = 0;
  for (float value : values) {
    energy += double(value) * value;
  }
  for (double channel : least) {
    error += channel;
  }
  result.error = energy > 0 ? error / energy : 0;
  return result;
}

double lossOfInputs(const Floats &weight, int64_t axis) {
  QuantizedWeight kept = quantizeWeight(weight, axis);
  Layout layout(weight.dims, axis);
  size_t inner = static_cast<size_t>(layout.inner);
  size_t inputs = static_cast<size_t>(layout.outer) * inner, present = 0;
  size_t channels = static_cast<size_t>(layout.channels);
  std::vector<double> errors(inputs), energies(inputs);
  layout.forEach([&](size_t i, size_t c) {
    size_t input = i / (inner * channels) * inner + i % inner;
    double error = weight.values[i] - double(kept.values[i]) * kept.scales[c];
    errors[input] += error * error;
    energies[input] += double(weight.values[i]) * weight.values[i];
  });
  double sum = 0;
  for (size_t input = 0; input < inputs; ++input) {
    sum += energies[input] > 0 ? errors[input] / energies[input] : 0;
    present += energies[input] > 0;
  }
  return present > 0 ? sum / static_cast<double>(present) : 0;
}

void foldNorm(Floats &weight, std::vector<float> &bias, std::span<const float> scale,
              std::span<const float> shift, std::span<const float> mean,
              std::span<const float> variance, double epsilon) {
  size_t channels = scale.size(), each = weight.values.size() / std::max<size_t>(channels, 1);
  bias.resize(channels);
  for (size_t c = 0; c < channels; ++c) {
    double factor = scale[c] / std::sqrt(variance[c] + epsilon);
    for (size_t i = 0; i < each; ++i) {
      float &value = weight.values[c * each + i];
      value = static_cast<float>(value * factor);
    }
    bias[c] = static_cast<float>((double(bias[c]) - mean[c]) * factor + shift[c]);
  }
}

} // namespace tenon::quant
