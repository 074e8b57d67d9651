// `tenon quantize`: a model and samples become a model in 8 bits, with a reason for each layer that
// stays wide.

#include "compiler/quant/Quantize.h"
#include "runtime/tensors/Tensor.h"
#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/quant/BeforeAfter.h"
#include "tools/tenon/quant/SearchText.h"
#include "tools/tenon/target/TargetFlags.h"
#include "tools/tenon/verbs/QuantizeFlags.h"
#include "tools/view/Escape.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

namespace tenon::tool {
namespace {

using quant::Treatment;

/// Below these a tensor is named first: 8 bits keep about 40 dB of values that fill their range,
/// and most values of a bell lie on 100 levels and more.
constexpr double kPoorDecibels = 20, kPoorLevels = 12;

struct Outcome {
  const quant::QuantizationInfo &info;
  const Calibration &calibration;
  uint64_t before = 0, after = 0;
};

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
                     "signal over noise; "
                     "it goes from {:.4g} to {:.4g}, the levels from {:.4g} to {:.4g}; --keep "
                     "leaves what reads it "
                     "wide: {}\n",
                     view::visible(tensor.name), tensor.levels, tensor.decibels, tensor.seen.low,
                     tensor.seen.high, tensor.range.low, tensor.range.high, readers);
}

/// What a narrow layer computes in.
std::string_view nameOf(Treatment treatment, const QuantizeFlags &flags) {
  return treatment == Treatment::Narrow ? std::string_view(flags.precision)
                                        : quant::nameOf(treatment);
}

size_t narrowTables(const quant::QuantizationInfo &info) {
  return static_cast<size_t>(std::ranges::count_if(
      info.tables, [](const auto &table) { return table.treatment != Treatment::Wide; }));
}

Json toJson(const QuantizeFlags &flags, const Outcome &outcome) {
  Json layers = Json::array(), tables = Json::array(), tensors = Json::array();
  for (const quant::LayerInfo &layer : outcome.info.layers) {
    layers.push_back({{"name", layer.name},
                      {"op", layer.op},
                      {"treatment", nameOf(layer.treatment, flags)},
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
  return {{"model", flags.request.model},
          {"output", flags.output},
          {"precision", flags.precision},
          {"dynamic", !flags.dynamic ? Json() : Json(flags.perTensor ? "tensor" : "token")},
          {"ranges", flags.ranges},
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
        "rounding by samples: {} layers, {:.1f} dB less error of their products on average\n",
        rounded, roundingGain / double(rounded));
  }
  if (most) {
    text += fmt::format("smoothing: {} tensors; most gains '{}', {:.1f} dB in the products that "
                        "read it, with alpha "
                        "{:.1f}\n",
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

std::string toText(const QuantizeFlags &flags, const Outcome &outcome) {
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
  if (flags.weightsOnly.empty()) {
    text += fmt::format("{}: {} of {} layers in {}, {} with weights in int8 only", flags.output,
                        narrow, outcome.info.layers.size(), flags.precision, stored);
  }
  if (flags.dynamic) {
    ranges = flags.perTensor ? "scales of tensors found at run time; "
                             : "scales of rows found at run time; ";
  } else if (flags.weightsOnly.empty()) {
    ranges = fmt::format("{} ranges by {} of {} samples; ", outcome.info.tensors.size(),
                         flags.ranges, outcome.calibration.samples);
  } else {
    text += fmt::format("{}: weights of {} of {} layers in few bits", flags.output, stored,
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
                        nameOf(row.treatment, flags), row.reason.empty() ? bits : row.reason);
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

/// What the page measures.
BeforeAfterRequest reportOf(const QuantizeFlags &flags) {
  const std::string &data = flags.search.test.empty() ? flags.request.data : flags.search.test;
  return {flags.request.model,
          flags.output,
          data,
          flags.search.metric,
          {flags.request.threads, flags.request.useCache}};
}

/// What a search chose, or the front and why it chose nothing.
Status searchAndWrite(const QuantizeFlags &flags, const quant::Settings &settings, AtomicFile &file,
                      std::optional<AtomicFile> &page, Terminal &terminal) {
  TENON_ASSIGN(SearchRequest request,
               searchRequest(flags.search, flags.request, settings, flags.output));
  TENON_ASSIGN(Searched searched, search(request, terminal));
  for (const std::vector<std::string> *warnings :
       {&searched.calibration.warnings, &searched.warnings}) {
    std::ranges::for_each(*warnings, [&](const std::string &warning) { terminal.note(warning); });
  }
  Json json = {{"search", searchJson(searched)}};
  std::string text = searchText(searched);
  if (searched.info) {
    TENON_TRY(file.append(std::as_bytes(std::span(searched.bytes))));
    TENON_TRY(file.commit());
    forgetState(flags.search, request);
    Outcome outcome{*searched.info, searched.calibration, bytesOfModel(flags.request.model),
                    searched.bytes.size()};
    json.update(toJson(flags, outcome));
    text += toText(flags, outcome);
  }
  TENON_TRY(writeReport(reportOf(flags), page, json, terminal));
  if (terminal.json()) {
    terminal.printJson("quantize", std::move(json));
  } else {
    terminal.print(text);
  }
  return searched.refusal;
}

Status quantize(QuantizeFlags &flags, Terminal &terminal) {
  CalibrationRequest &request = flags.request;
  request.mostSamples = flags.samples;
  request.useCache = !flags.noCache;
  if (flags.output.empty()) {
    flags.output = defaultOutput(flags);
  }
  TENON_TRY(checkFlags(flags));
  TENON_TRY(isModel(request.model, Takes::Model).takeStatus());
  TENON_TRY(checkIsOnnx(request.model));
  std::vector<std::string> reads;
  if (!request.data.empty()) {
    reads.push_back(request.data);
  }
  TENON_TRY(checkOutput(flags.output, request.model, reads));
  quant::Settings settings = settingsOf(flags);
  TENON_ASSIGN(quant::Quantizer quantizer, quant::Quantizer::open(request.model, settings));
  reads.push_back(request.model);
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(flags.output, reads));
  std::optional<AtomicFile> page;
  if (!flags.search.report.empty()) {
    reads.push_back(flags.output);
    TENON_ASSIGN(page, AtomicFile::create(flags.search.report, reads));
  }
  if (flags.search.isAsked()) {
    return searchAndWrite(flags, settings, file, page, terminal);
  }
  Calibration calibration;
  if (!request.data.empty()) {
    TENON_ASSIGN(calibration, calibrate(quantizer, request, terminal));
  }
  for (const std::string &warning : calibration.warnings) {
    terminal.note(warning);
  }
  quantizer.setGrams(std::move(calibration.grams));
  TENON_TRY(quantizer.chooseRanges(calibration.seen, calibration.runs));
  TENON_ASSIGN(std::string bytes, quantizer.write(kCalibrationKey, calibration.fingerprint));
  TENON_TRY(file.append(std::as_bytes(std::span(bytes))));
  TENON_TRY(file.commit());
  Outcome outcome{quantizer.info(), calibration, bytesOfModel(request.model), bytes.size()};
  TENON_TRY(writeReport(reportOf(flags), page, toJson(flags, outcome), terminal));
  if (terminal.json()) {
    terminal.printJson("quantize", toJson(flags, outcome));
  } else {
    terminal.print(toText(flags, outcome));
  }
  return Status::ok();
}

} // namespace

Action declareQuantize(CLI::App &command) {
  std::shared_ptr<QuantizeFlags> flags = std::make_shared<QuantizeFlags>();
  flags->request.threads = usableCpus();
  command.add_option("MODEL", flags->request.model, "A trained model (ONNX, FP32)")->required();
  command.add_option("--data", flags->request.data,
                     "Samples to calibrate with: x.npz with an array for each input, lines of "
                     "JSON, or a folder of "
                     "pictures");
  addOutput(command, flags->output,
            "Where to write the quantized model; by default the model's name with .int8.onnx, "
            ".fp8.onnx, .dynamic.onnx, or "
            ".w8.onnx or .w4.onnx for weights alone");
  std::vector<std::string> methods;
  for (quant::RangeMethod method : quant::kRangeMethods) {
    methods.emplace_back(quant::nameOf(method));
  }
  addChoice(command, "--ranges", flags->ranges, methods,
            "How ranges are estimated: mse has the least squared error; entropy is refused where "
            "its error exceeds "
            "that of minmax");
  command
      .add_option("--percentile", flags->percentile,
                  "Share of the values that --ranges percentile keeps, of 100")
      ->check(CLI::Range(50.0, 100.0));
  addNumber(
      command, "--samples", {1, uint64_t(1) << 40},
      [flags](uint64_t number) { flags->samples = number; },
      "Use only so many samples, the first ones");
  addChoice(command, "--precision", flags->precision, {"int8", "fp8"},
            "What narrow layers compute in: fp8 is E4M3 on both sides, for GPUs (opset 19)");
  command.add_flag("--dynamic", flags->dynamic,
                   "Products of int8 whose activations find a scale for each row when they run: "
                   "needs no samples");
  command.add_flag("--per-tensor", flags->perTensor,
                   "--dynamic with one scale for all rows of a run (DynamicQuantizeLinear), which "
                   "ONNX Runtime fuses");
  addChoice(command, "--weights-only", flags->weightsOnly, {"8", "4"},
            "Store weights in 8 bits, or those of products in 4, and compute wide: needs no "
            "samples, but 4 bits are "
            "rounded by them where --data gives some (GPTQ)");
  addChoice(command, "--int4-form", flags->int4Form, {"nbits", "qdq"},
            "Weights of 4 bits as MatMulNBits, or as DequantizeLinear with block_size (opset 21)");
  command
      .add_option("--keep", flags->keep,
                  "Leave the layer or embedding table of this node wide (repeat for more)")
      ->allow_extra_args(false);
  command
      .add_option("--narrow", flags->narrow,
                  "Make the layer of this node int8, against the first guess (repeat for more)")
      ->allow_extra_args(false);
  command.add_flag(
      "--reduce-range", flags->reduceRange,
      "Weights of 7 bits, for other programs that saturate on x86 without VNNI; Tenon does not");
  command.add_flag(
      "--no-smoothing", flags->noSmoothing,
      "Do not move outliers of activations into the weights of products (SmoothQuant)");
  command.add_flag("--no-bias-correction", flags->noBiasCorrection,
                   "Do not take off the mean error of rounded weights from biases");
  declareSearchFlags(command, flags->search);
  declareThreadsFlag(command, flags->request.threads, "Threads; all usable CPUs by default");
  command.add_flag("--no-cache", flags->noCache, "Do not use the compile cache");
  return [flags](Terminal &terminal) { return quantize(*flags, terminal); };
}

} // namespace tenon::tool
