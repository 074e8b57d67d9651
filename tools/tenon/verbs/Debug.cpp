// `tenon debug reduce` and `tenon debug bisect`: what to do with a model whose compiled answer is
// wrong.

#include "tools/debug/Debug.h"

#include "runtime/tensors/Npy.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/KernelFlags.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/target/TargetFlags.h"
#include "tools/view/Escape.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

namespace tenon::tool {
namespace {

using debug::Bisection;
using debug::Outcome;
using debug::Reduction;

struct DebugFlags {
  std::string task;
  debug::DebugRequest request;
  std::string inputs;
  std::vector<std::string> shapes;
  TargetFlags target;
  std::string output;
  KernelFlags kernels;
};

/// "small.npz" beside "small.onnx".
std::string arraysBeside(const std::string &model) {
  return (model.ends_with(".onnx") ? model.substr(0, model.size() - 5) : model) + ".npz";
}

/// The command that shows the failure of a part again.
std::string reproduction(const DebugFlags &flags, const Reduction &reduction) {
  std::string what =
      fmt::format("{} --target {}", flags.output, fmt::join(flags.target.targets, ","));
  for (const std::string &shape : reduction.shapes) {
    what += fmt::format(" --shape '{}'", shape);
  }
  if (reduction.smallest.kind == Outcome::Kind::Fault) {
    return "tenon compile " + what;
  }
  return fmt::format("tenon debug bisect {} --inputs {}", what, arraysBeside(flags.output));
}

Json describeOutcome(const Outcome &outcome) {
  return {{"fails", outcome.isFailure()},
          {"failure", debug::describe(outcome)},
          {"text", outcome.text}};
}

/// Of a model that does not fail: there is nothing to look for, which is exit code 1.
void reportSound(const DebugFlags &flags, Json json, const Outcome &outcome, Terminal &terminal) {
  terminal.fail();
  if (terminal.json()) {
    terminal.printJson("debug-" + flags.task, std::move(json));
    return;
  }
  terminal.print(
      outcome.kind == Outcome::Kind::Refused
          ? fmt::format("{} cannot be compared: {}\n", flags.request.compile.model, outcome.text)
          : fmt::format(
                "{} does not fail: compiled and in the reference it gives the same results\n",
                flags.request.compile.model));
}

void report(const DebugFlags &flags, const Reduction &reduction, Terminal &terminal) {
  Json json = describeOutcome(reduction.outcome);
  json.update({{"nodes_before", reduction.nodesBefore},
               {"nodes_after", reduction.nodesAfter},
               {"trials", reduction.trials},
               {"in_time", reduction.isInTime},
               {"reduced", reduction.isReduced},
               {"nodes", reduction.nodes}});
  if (!reduction.outcome.isFailure()) {
    reportSound(flags, std::move(json), reduction.outcome, terminal);
    return;
  }
  std::string command = reduction.isReduced ? reproduction(flags, reduction) : "";
  if (terminal.json()) {
    json.update({{"model", reduction.isReduced ? flags.output : ""},
                 {"smallest", reduction.smallest.text},
                 {"reproduce", command}});
    terminal.printJson("debug-reduce", std::move(json));
    return;
  }
  std::string text =
      fmt::format("fails: {}\n  {}\n", debug::describe(reduction.outcome), reduction.outcome.text);
  if (!reduction.isReduced) {
    terminal.print(text + "no part of the model fails on its own\n");
    return;
  }
  text += fmt::format("{} of {} nodes fail in the same way, after {} trials{}:\n",
                      reduction.nodesAfter, reduction.nodesBefore, reduction.trials,
                      reduction.isInTime ? "" : " (time limit reached: fewer may suffice)");
  for (const std::string &node : reduction.nodes) {
    text += fmt::format("  {}\n", view::visible(node));
  }
  terminal.print(text + fmt::format("  {}\nwrote {} and {}; to see it again:\n  {}\n",
                                    reduction.smallest.text, flags.output,
                                    arraysBeside(flags.output), command));
}

void report(const DebugFlags &flags, const Bisection &bisection, Terminal &terminal) {
  Json json = describeOutcome(bisection.outcome);
  if (!bisection.outcome.isFailure()) {
    reportSound(flags, std::move(json), bisection.outcome, terminal);
    return;
  }
  if (terminal.json()) {
    json.update({{"phase", bisection.phase},
                 {"pass", bisection.pass},
                 {"site", bisection.site},
                 {"pattern", bisection.pattern},
                 {"why", bisection.why},
                 {"in_time", bisection.isInTime}});
    terminal.printJson("debug-bisect", std::move(json));
    return;
  }
  std::string text =
      fmt::format("fails: {}\n  {}\n", debug::describe(bisection.outcome), bisection.outcome.text);
  const std::pair<const char *, const std::string &> lines[] = {{"phase", bisection.phase},
                                                                {"pass", bisection.pass},
                                                                {"pattern", bisection.pattern},
                                                                {"site", bisection.site},
                                                                {"why", bisection.why}};
  for (const auto &[name, value] : lines) {
    text += value.empty() ? "" : fmt::format("{:<8} {}\n", name, view::visible(value));
  }
  terminal.print(
      text + (bisection.isInTime ? "" : "time limit reached: a longer --seconds may find more"));
}

Status reduce(DebugFlags &flags, Terminal &terminal) {
  if (flags.output.empty()) {
    return Status::error(ErrorId::BadArgument, "debug reduce needs a file name for the small model",
                         "give it with -o");
  }
  std::vector<std::string> read;
  if (!flags.inputs.empty()) {
    read.push_back(flags.inputs);
  }
  for (const std::string &path : {flags.output, arraysBeside(flags.output)}) {
    TENON_TRY(checkOutput(path, flags.request.compile.model, read));
  }
  TENON_ASSIGN(Reduction reduction,
               debug::reduceModel(flags.request, flags.output, arraysBeside(flags.output)));
  terminal.clearProgress();
  report(flags, reduction, terminal);
  return Status::ok();
}

Status run(DebugFlags &flags, Terminal &terminal) {
  pipeline::CompileOptions &compile = flags.request.compile;
  TENON_ASSIGN(compile.shapes, parseShapeArguments(flags.shapes));
  TENON_TRY(applyTarget(flags.target, compile, terminal.notice()));
  TENON_TRY(applyKernels(flags.kernels, compile));
  TENON_TRY(isModel(compile.model, Takes::Model).takeStatus());
  if (!flags.inputs.empty()) {
    TENON_ASSIGN(
        flags.request.inputs,
        readNpz(flags.inputs, [](const std::string &, const NpyHeader &) { return Status::ok(); }));
  }
  flags.request.progress = [&](std::string_view what, double fraction) {
    terminal.progress(what, fraction);
  };
  if (flags.task == "reduce") {
    return reduce(flags, terminal);
  }
  TENON_ASSIGN(Bisection bisection, debug::bisectModel(flags.request));
  report(flags, bisection, terminal);
  return Status::ok();
}

} // namespace

Action declareDebug(CLI::App &command) {
  std::shared_ptr<DebugFlags> flags = std::make_shared<DebugFlags>();
  pipeline::CompileOptions &compile = flags->request.compile;
  compile.threads = usableCpus();
  addChoice(command, "TASK", flags->task, {"reduce", "bisect"},
            "reduce: find a small part of the model that still fails; bisect: find the pass and "
            "the operation where the numbers first go wrong")
      ->required();
  command
      .add_option("MODEL", compile.model,
                  "A model (ONNX) whose compiled results are wrong, or that does not compile")
      ->required();
  addOutput(command, flags->output,
            "reduce: where to write the small model; its inputs go beside it as .npz");
  command.add_option("--inputs", flags->inputs,
                     "x.npz with an array for each input; by default seeded inputs of small sizes");
  command.add_option("--shape", flags->shapes, "Dimensions of an input, as for compile")
      ->allow_extra_args(false);
  addNumber(
      command, "--seed", {0, UINT64_MAX},
      [flags](uint64_t number) { flags->request.seed = number; }, "Seed of the inputs");
  addSeconds(command, "--seconds", {0.01, kLongestSeconds}, flags->request.seconds,
             "Stop after this time (60s, 2m) with the best result so far; by default 60s");
  command
      .add_option("--target", flags->target.targets,
                  "As for compile; with several CPU levels, the best one that this machine runs")
      ->allow_extra_args(false);
  declareKernelFlags(command, flags->kernels);
  declareThreadsFlag(command, compile.threads, "Threads; all usable CPUs by default");
  return [flags](Terminal &terminal) { return run(*flags, terminal); };
}

} // namespace tenon::tool
