// `tenon quantize`: a model and samples become a model in 8 bits.

#include "support/threads/ThreadPool.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/inputs/Units.h"
#include "tools/tenon/quant/QuantizeModel.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace tenon::tool {
namespace {

constexpr uint64_t kMaxSamples = 4096;

struct QuantizeFlags {
  QuantizeRequest request;
  bool noCache = false;
};

void declareSearchFlags(CLI::App &command, SearchOptions &search) {
  command.add_option(
      "--accuracy-drop", search.drop,
      "Search for the fastest model that loses at most this: 0.5% is half a point of top1");
  command.add_option("--latency", search.latency,
                     "Search for the most accurate model that takes at most this time per sample "
                     "on this machine: 4ms");
  command.add_option("--report", search.report,
                     "Also write a page, r.html: ranges and clipping, error of each layer, the "
                     "front of a search, and accuracy, latency, file and memory before and after");
  command.add_option("--test", search.test,
                     "For the search and the report: samples, with labels if any, to measure the "
                     "loss on; by default those of --data");
  command.add_option("--metric", search.metric,
                     "For the search and the report: a metric of tenon accuracy; by default top1 "
                     "if samples have a class, else cosine to the model's outputs");
  command
      .add_option_function<std::string>(
          "--budget",
          [&search](const std::string &text) {
            constexpr Unit kUnits[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"", 1}};
            search.budget = numberWithUnit(text, kUnits);
            if (!search.budget) {
              throw CLI::ValidationError("--budget", text + ": give seconds, as 120s or 5m");
            }
          },
          "For the search: its time limit; 300s by default")
      ->type_name("SECONDS");
  addNumber(
      command, "--error-samples", {1, kMaxSamples},
      [&search](uint64_t number) { search.samples = number; },
      "For the search: samples, spread over --data, for the error of one layer; 32 by default");
  command.add_option(
      "--state", search.state,
      "For the search: its state file, from which a repeated call continues, and which is kept; by "
      "default the output's name with .search.json, removed on success");
}

Status quantize(QuantizeFlags &flags, Terminal &terminal) {
  flags.request.calibration.useCache = !flags.noCache;
  TENON_ASSIGN(QuantizedModel made, quantizeModel(flags.request, terminal));
  terminal.json() ? terminal.printJson("quantize", std::move(made.json))
                  : terminal.print(made.text);
  return made.verdict;
}

} // namespace

Action declareQuantize(CLI::App &command) {
  std::shared_ptr<QuantizeFlags> flags = std::make_shared<QuantizeFlags>();
  flags->request.calibration.threads = usableCpus();
  command
      .add_option(
          "MODEL", flags->request.calibration.model,
          "A trained model (ONNX, FP32), or a language model: a GGUF file or a Hugging Face "
          "folder")
      ->required();
  command.add_option("--data", flags->request.calibration.data,
                     "Calibration samples: x.npz with an array for each input, JSON lines, or a "
                     "folder of pictures");
  addOutput(command, flags->request.output,
            "Where to write the quantized model; by default the model's name with .int8.onnx, "
            ".fp8.onnx, .dynamic.onnx, or "
            ".w8.onnx or .w4.onnx for weights alone; of a language model .int8.gguf or "
            ".int4.gguf");
  std::vector<std::string> methods;
  for (quant::RangeMethod method : quant::kRangeMethods) {
    methods.emplace_back(quant::nameOf(method));
  }
  addChoice(command, "--ranges", flags->request.ranges, methods,
            "How ranges are estimated: mse minimizes the squared error; entropy is refused if its "
            "error exceeds that of minmax");
  command
      .add_option("--percentile", flags->request.percentile,
                  "Percentage of the values that --ranges percentile keeps")
      ->check(CLI::Range(50.0, 100.0));
  addNumber(
      command, "--samples", {1, uint64_t(1) << 40},
      [flags](uint64_t number) { flags->request.calibration.mostSamples = number; },
      "Use only the first N samples");
  addChoice(command, "--precision", flags->request.precision, {"int8", "fp8"},
            "Type of quantized layers: fp8 is E4M3 on both sides, for GPUs (opset 19)");
  command.add_flag("--dynamic", flags->request.dynamic,
                   "Matmuls in int8 with a scale for each row of an activation, computed at run "
                   "time: needs no samples");
  command.add_flag("--per-tensor", flags->request.perTensor,
                   "--dynamic with one scale for all rows of a run (DynamicQuantizeLinear), which "
                   "ONNX Runtime fuses");
  addChoice(command, "--weights-only", flags->request.weightsOnly, {"8", "4"},
            "Store weights in 8 bits, or those of matmuls in 4, and compute in FP32: needs no "
            "samples; with --data, 4 bits are rounded by them (GPTQ)");
  command
      .add_option_function<std::string>(
          "--weights",
          [flags](const std::string &text) { flags->request.weightsOnly = text.substr(3); },
          "The same as --weights-only, by the names of types; of a language model the blocks of "
          "GGUF: Q4_K or Q4_1, or Q8_0")
      ->check(CLI::IsMember({"int8", "int4"}));
  command.add_option("--text", flags->request.text,
                     "For a language model: a text, in UTF-8, to measure the loss on: perplexity "
                     "and divergence");
  addChoice(command, "--int4-form", flags->request.int4Form, {"nbits", "qdq"},
            "Weights of 4 bits as MatMulNBits, or as DequantizeLinear with block_size (opset 21)");
  command
      .add_option("--keep", flags->request.keep,
                  "Keep the layer or embedding table of this node in FP32 (repeat for more)")
      ->allow_extra_args(false);
  command
      .add_option(
          "--narrow", flags->request.narrow,
          "Quantize the layer of this node although the default would not (repeat for more)")
      ->allow_extra_args(false);
  command.add_flag(
      "--reduce-range", flags->request.reduceRange,
      "Weights of 7 bits, for other runtimes that saturate on x86 without VNNI; Tenon does not");
  command.add_flag("--no-smoothing", flags->request.noSmoothing,
                   "Do not move outliers of activations into the weights of matmuls (SmoothQuant)");
  command.add_flag("--no-bias-correction", flags->request.noBiasCorrection,
                   "Do not correct biases for the mean error of rounded weights");
  declareSearchFlags(command, flags->request.search);
  declareThreadsFlag(command, flags->request.calibration.threads,
                     "Threads; all usable CPUs by default");
  command.add_flag("--no-cache", flags->noCache, "Do not use the compile cache");
  return [flags](Terminal &terminal) { return quantize(*flags, terminal); };
}

} // namespace tenon::tool
