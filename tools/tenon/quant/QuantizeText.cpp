// What loses most is said first.

#include "tools/tenon/quant/QuantizeText.h"

#include "tools/tenon/print/Format.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::tool {
namespace {

using quant::Treatment;

/// Below these a tensor is named first: 8 bits keep about 40 dB of values that fill their range,
/// and most values of a bell lie on 100 levels and more.
constexpr double kPoorDecibels = 20, kPoorLevels = 12;

/// How far a tensor is from what 8 bits can keep; above 0 for those that are worth a word.
double badness(const quant::TensorInfo &tensor) {
  // Smoothing deals with outliers of channels, and was predicted to gain; zeros are kept exactly.
  bool isZero = tensor.seen.low == 0 && tensor.seen.high == 0;
  return tensor.alpha > 0 || isZero
             ? 0
             : std::max(1 - tensor.decibels / kPoorDecibels, 1 - tensor.levels / kPoorLevels);
}

const quant::TensorInfo *worstTensor(const quant::QuantizationInfo &info) {
  auto worst =
      std::max_element(info.tensors.begin(), info.tensors.end(),
                       [](const auto &a, const auto &b) { return badness(a) < badness(b); });
  return worst == info.tensors.end() ? nullptr : &*worst;
}

std::string describeWorst(const quant::TensorInfo &tensor) {
  std::string readers;
  for (const std::string &reader : tensor.readers) {
    readers += fmt::format("{}'{}'", readers.empty() ? "" : ", ", view::visible(reader));
  }
  return fmt::format("'{}' loses most: 95 % of its values share {:.1f} of 256 levels, {:.1f} dB of "
                     "signal over noise; it ranges from {:.4g} to {:.4g}, the levels from {:.4g} "
                     "to {:.4g}; --keep leaves its readers in FP32: {}\n",
                     view::visible(tensor.name), tensor.levels, tensor.decibels, tensor.seen.low,
                     tensor.seen.high, tensor.range.low, tensor.range.high, readers);
}

/// What a narrow layer computes in.
std::string_view nameOf(Treatment treatment, const QuantizeRequest &request) {
  return treatment == Treatment::Narrow ? std::string_view(request.precision)
                                        : quant::nameOf(treatment);
}

size_t narrowTables(const quant::QuantizationInfo &info) {
  return static_cast<size_t>(std::ranges::count_if(
      info.tables, [](const auto &table) { return table.treatment != Treatment::Wide; }));
}

/// What was done beside ranges and weights, with what it gains.
std::string describeAlgorithms(const quant::QuantizationInfo &info) {
  size_t smoothed = 0, channels = 0, layers = 0;
  const quant::TensorInfo *most = nullptr;
  for (const quant::TensorInfo &tensor : info.tensors) {
    smoothed += tensor.alpha > 0;
    most = tensor.alpha > 0 && (!most || tensor.gain > most->gain) ? &tensor : most;
  }
  double largest = 0, correctionGain = 0;
  for (const quant::LayerInfo &layer : info.layers) {
    layers += layer.corrected > 0;
    channels += layer.corrected;
    correctionGain += layer.corrected > 0 ? layer.correctionGain : 0;
    largest = std::max(largest, layer.correction);
  }
  std::string text;
  double roundingGain = 0;
  size_t rounded = 0;
  for (const quant::LayerInfo &layer : info.layers) {
    rounded += layer.roundingGain > 0;
    roundingGain += layer.roundingGain;
  }
  if (rounded > 0) {
    text += fmt::format(
        "rounding by samples: {} layers, {:.1f} dB less error in their outputs on average\n",
        rounded, roundingGain / double(rounded));
  }
  if (most) {
    text += fmt::format("smoothing: {} tensors; '{}' gains most, {:.1f} dB in the layers that read "
                        "it, with alpha {:.1f}\n",
                        smoothed, view::visible(most->name), most->gain, most->alpha);
  }
  if (layers > 0) {
    text += fmt::format("bias correction: {} channels of {} layers, by at most {:.4f} of a "
                        "channel's deviation; {:.1f} dB "
                        "less error of rounded weights on average\n",
                        channels, layers, largest, correctionGain / double(layers));
  }
  return text;
}

} // namespace

Json quantizedJson(const QuantizeRequest &request, const Quantized &outcome) {
  Json layers = Json::array(), tables = Json::array(), tensors = Json::array();
  for (const quant::LayerInfo &layer : outcome.info.layers) {
    layers.push_back({{"name", layer.name},
                      {"op", layer.op},
                      {"treatment", nameOf(layer.treatment, request)},
                      {"reason", layer.reason},
                      {"bits", layer.bits},
                      {"weight_error", layer.weightError},
                      {"rounding_gain", layer.roundingGain},
                      {"bias_corrected", layer.corrected},
                      {"largest_correction", layer.correction},
                      {"correction_gain", layer.correctionGain}});
  }
  for (const quant::LayerInfo &table : outcome.info.tables) {
    tables.push_back({{"name", table.name},
                      {"treatment", quant::nameOf(table.treatment)},
                      {"reason", table.reason},
                      {"weight_error", table.weightError}});
  }
  for (const quant::TensorInfo &tensor : outcome.info.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"tensors", tensor.tensors},
                       {"seen", {tensor.seen.low, tensor.seen.high}},
                       {"range", {tensor.range.low, tensor.range.high}},
                       {"scale", tensor.affine.scale},
                       {"zero_point", tensor.affine.zero},
                       {"decibels", tensor.decibels},
                       {"levels", tensor.levels},
                       {"clipped", tensor.clipped},
                       {"readers", tensor.readers},
                       {"smooth_alpha", tensor.alpha},
                       {"smooth_gain", tensor.gain},
                       {"entropy_refused", tensor.isRefused}});
  }
  const quant::TensorInfo *worst = worstTensor(outcome.info);
  return {{"model", request.calibration.model},
          {"output", request.output},
          {"precision", request.precision},
          {"dynamic", !request.dynamic ? Json() : Json(request.perTensor ? "tensor" : "token")},
          {"ranges", request.ranges},
          {"samples", outcome.calibration.samples},
          {"worst", worst ? Json(worst->name) : Json()},
          {"layers", layers},
          {"tensors", tensors},
          {"tables", tables},
          {"embeddings", narrowTables(outcome.info)},
          {"bytes_before", outcome.before},
          {"bytes_after", outcome.after},
          {"compile_seconds", outcome.calibration.compileSeconds},
          {"run_seconds", outcome.calibration.runSeconds},
          {"warnings", outcome.calibration.warnings}};
}

std::string quantizedText(const QuantizeRequest &request, const Quantized &outcome) {
  std::string text;
  const quant::TensorInfo *worst = worstTensor(outcome.info);
  if (worst && badness(*worst) > 0) {
    text += describeWorst(*worst);
  }
  size_t narrow = 0, stored = 0, tables = narrowTables(outcome.info);
  for (const quant::LayerInfo &layer : outcome.info.layers) {
    narrow += layer.treatment == Treatment::Narrow;
    stored += layer.treatment == Treatment::WeightsOnly;
  }
  std::string ranges;
  if (request.weightsOnly.empty()) {
    text += fmt::format("{}: {} of {} layers in {}, {} with weights in int8 only", request.output,
                        narrow, outcome.info.layers.size(), request.precision, stored);
  }
  if (request.dynamic) {
    ranges = request.perTensor ? "scales of tensors found at run time; "
                               : "scales of rows found at run time; ";
  } else if (request.weightsOnly.empty()) {
    ranges = fmt::format("{} ranges by {} of {} samples; ", outcome.info.tensors.size(),
                         request.ranges, outcome.calibration.samples);
  } else {
    text += fmt::format("{}: weights of {} of {} layers in few bits", request.output, stored,
                        outcome.info.layers.size());
    ranges = outcome.calibration.samples
                 ? fmt::format("rounded by {} samples; ", outcome.calibration.samples)
                 : "";
  }
  text += fmt::format("{}; {}{} after {}, {:.2f} of it\n",
                      tables ? fmt::format(", {} embedding tables", tables) : "", ranges,
                      formatBytes(outcome.after), formatBytes(outcome.before),
                      double(outcome.after) / double(std::max<uint64_t>(outcome.before, 1)));
  std::vector<quant::LayerInfo> rows = outcome.info.layers;
  rows.insert(rows.end(), outcome.info.tables.begin(), outcome.info.tables.end());
  size_t width = 0;
  for (const quant::LayerInfo &row : rows) {
    width = std::max(width, row.name.size());
  }
  width = std::min<size_t>(width, 60);
  for (const quant::LayerInfo &row : rows) {
    std::string_view bits = row.bits == 4 ? "4 bits" : "";
    text += fmt::format("  {:<{}}  {:<13} {:<12}  {}\n", view::visible(row.name), width, row.op,
                        nameOf(row.treatment, request), row.reason.empty() ? bits : row.reason);
  }
  text += describeAlgorithms(outcome.info);
  for (const quant::TensorInfo &tensor : outcome.info.tensors) {
    if (tensor.isRefused) {
      text += fmt::format(
          "entropy is refused for '{}': its error is larger than that of minmax, which it got\n",
          view::visible(tensor.name));
    }
  }
  return text;
}

} // namespace tenon::tool
