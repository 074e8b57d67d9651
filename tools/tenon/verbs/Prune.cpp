// `tenon prune`: a model becomes a narrower one.

#include "support/threads/ThreadPool.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/inputs/Units.h"
#include "tools/tenon/prune/PruneModel.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <memory>

namespace tenon::tool {
namespace {

struct PruneFlags {
  PruneRequest request;
  bool noTiming = false, noCache = false;
};

/// "30%" or "0.3"; any number, of which pruneModel says what it would do.
double parseRatio(const std::string &text) {
  size_t end = 0;
  double value = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception &) {
    throw CLI::ValidationError("--ratio",
                               fmt::format("'{}' is not a share: write 30% or 0.3", text));
  }
  bool isPercent = text.substr(end) == "%";
  if ((!isPercent && end != text.size()) || !std::isfinite(value)) {
    throw CLI::ValidationError("--ratio",
                               fmt::format("'{}' is not a share: write 30% or 0.3", text));
  }
  return isPercent ? value / 100 : value;
}

/// "3ms", "500us", "1s" in ms.
double parseLatency(const std::string &text) {
  std::optional<double> milliseconds = numberWithUnit(text, kTimes);
  if (!milliseconds || *milliseconds == 0) {
    throw CLI::ValidationError("--latency",
                               fmt::format("'{}' is not a time: write 3ms, 500us or 1s", text));
  }
  return *milliseconds;
}

Status prune(PruneFlags &flags, Terminal &terminal) {
  PruneRequest &request = flags.request;
  request.isTimed = !flags.noTiming;
  request.useCache = !flags.noCache;
  if (request.output.empty()) {
    request.output =
        fmt::format("{}.pruned.onnx", request.model.ends_with(".onnx")
                                          ? request.model.substr(0, request.model.size() - 5)
                                          : request.model);
  }
  TENON_ASSIGN(PruneOutcome outcome, pruneModel(request, terminal));
  terminal.json() ? terminal.printJson("prune", pruneJson(outcome))
                  : terminal.print(pruneText(outcome));
  return Status::ok();
}

} // namespace

Action declarePrune(CLI::App &command) {
  std::shared_ptr<PruneFlags> flags = std::make_shared<PruneFlags>();
  flags->request.session.threads = usableCpus();
  flags->request.target.targets = {"cpu:native"};
  command.add_option("MODEL", flags->request.model, "A trained model (ONNX, of floats)")
      ->required();
  command.add_option_function<std::string>(
      "--ratio", [flags](const std::string &text) { flags->request.ratio = parseRatio(text); },
      "Share of the channels, heads and FFN widths to remove: 30%");
  command.add_option_function<std::string>(
      "--latency",
      [flags](const std::string &text) { flags->request.latency = parseLatency(text); },
      "Remove as little as needed to reach this time, measured on this machine: 3ms");
  addOutput(command, flags->request.output,
            "Where to write the pruned model; by default the model's name with .pruned.onnx");
  command
      .add_option(
          "--recipe", flags->request.recipe,
          "Also write what each tensor keeps, as JSON: for tenon.prune.apply(module, recipe)")
      ->check(CLI::Validator(
          [](const std::string &text) { return text.empty() ? "give a file name" : ""; }, ""));
  addChoice(command, "--importance", flags->request.importance, {"magnitude", "bn-scale", "scores"},
            "What to remove first from a group: the smallest weights, the smallest scales of "
            "BatchNormalization, or the smallest --scores");
  command.add_option("--scores", flags->request.scores,
                     "With --importance scores: an npz with an array for each parameter, as "
                     "tenon.prune.taylor makes it");
  command
      .add_option("--keep", flags->request.keep,
                  "Keep the width of this node's layer (repeat for more)")
      ->allow_extra_args(false);
  addNumber(
      command, "--multiple", {1, 1024},
      [flags](uint64_t number) { flags->request.multiple = number; },
      "Widths become multiples of this; by default the width that a kernel of the target computes "
      "at once");
  command
      .add_option("--shape", flags->request.shapes,
                  "Dims of an input with free sizes: x:1x3x224x224 (repeat for more)")
      ->allow_extra_args(false);
  addSeconds(command, "--seconds", {0.01, kLongestSeconds}, flags->request.seconds,
             "How long to measure each model");
  command.add_flag("--no-timing", flags->noTiming, "Do not compile and measure the models");
  declareThreadsFlag(command, flags->request.session.threads,
                     "Threads; all usable CPUs by default");
  declareTargetFlags(command, flags->request.target);
  command.add_flag("--no-cache", flags->noCache, "Do not use the compile cache");
  return [flags](Terminal &terminal) { return prune(*flags, terminal); };
}

} // namespace tenon::tool
