// `tenon accuracy`: how well models do on labelled data, how sure that is, and what they cost.

#include "tools/tenon/Verb.h"
#include "tools/tenon/accuracy/MeasureAccuracy.h"
#include "tools/tenon/accuracy/Report.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace tenon::tool {
namespace {

constexpr double kShortestAccuracyRun = 0.001;
constexpr uint64_t kMaxBatch = 1 << 16;

struct AccuracyFlags {
  AccuracyRequest request;
  bool noCache = false;
};

Status accuracy(AccuracyFlags &flags, Terminal &terminal) {
  flags.request.open.useCache = !flags.noCache;
  TENON_ASSIGN(Json result, measureAccuracy(flags.request, terminal));
  terminal.json() ? terminal.printJson("accuracy", std::move(result))
                  : terminal.print(accuracyText(result));
  return Status::ok();
}

} // namespace

Action declareAccuracy(CLI::App &command) {
  std::shared_ptr<AccuracyFlags> flags = std::make_shared<AccuracyFlags>();
  command
      .add_option(
          "MODEL", flags->request.models,
          "Engines, or models (ONNX, .pt2, .tflite) to compile first; the others are compared with "
          "the first")
      ->required();
  command
      .add_option("--data", flags->request.data,
                  "Samples and labels: an npz with an array for each input and 'labels', a .jsonl, "
                  "or a folder of "
                  "pictures; docs/guides/accuracy.md")
      ->required();
  command
      .add_option("--metric", flags->request.metrics,
                  "top1, top5, f1, perplexity, mse, mae; cosine or relative (to --reference); "
                  "cmd:PROGRAM, which gets the "
                  "outputs as an npz and prints a number (repeat for more; top1 by default)")
      ->allow_extra_args(false);
  command.add_option("--reference", flags->request.reference,
                     "For cosine and relative: the model to compare with; the first by default");
  command.add_option("--output", flags->request.output,
                     "The output to score; the first by default");
  addNumber(
      command, "--batch", {1, kMaxBatch},
      [flags](uint64_t number) { flags->request.batch = number; },
      "Samples per run if the batch is free; 32 by default");
  command
      .add_option(
          "--shape", flags->request.open.shapes,
          "Dimensions of an input when a model is compiled: name:[1..32]x128 (repeat for more)")
      ->allow_extra_args(false);
  addSeconds(command, "--seconds", {kShortestAccuracyRun, kLongestSeconds},
             flags->request.budget.seconds, "How long to measure latency");
  declareThreadsFlag(command, flags->request.session.threads,
                     "Threads; all usable CPUs by default");
  declareOpenFlags(command, flags->request.open);
  declareTargetFlags(command, flags->request.open.target);
  command.add_flag("--no-cache", flags->noCache, "Compile a model without the cache");
  return [flags](Terminal &terminal) { return accuracy(*flags, terminal); };
}

} // namespace tenon::tool
