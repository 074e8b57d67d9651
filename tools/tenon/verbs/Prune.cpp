// `tenon prune`: a model becomes a narrower one, whose channels, attention heads and FFN widths
// that matter least are gone; by a ratio, or by the latency that it is to have.

#include "compiler/prune/Prune.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "support/LikelySize.h"
#include "support/files/AtomicFile.h"
#include "support/files/OutputPath.h"
#include "support/files/ScratchFolder.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/prune/Report.h"
#include "tools/tenon/target/Target.h"
#include "tools/tenon/target/TargetFlags.h"
#include "tools/tenon/verbs/PruneArguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace tenon::tool {
namespace {

/// The search for a latency: how near it goes, how much it prunes at most, how often it compiles.
constexpr double kNearTarget = 0.95, kMaxRatio = 0.9;
constexpr int kMaxTries = 8;

struct PruneFlags {
  std::string model, output, recipe, scores, importance = "magnitude";
  std::optional<double> ratio, latency; ///< of 1, and ms
  std::vector<std::string> shapes, keep;
  uint64_t multiple = 0;
  TargetFlags target;
  runtime::SessionOptions session;
  double seconds = 1;
  bool noTiming = false, noCache = false;
};

Status refuse(std::string what, std::string next) {
  return Status::error(ErrorId::BadArgument, std::move(what), std::move(next));
}

Status checkFlags(const PruneFlags &flags) {
  if (flags.ratio.has_value() == flags.latency.has_value()) {
    return refuse("either --ratio or --latency says how narrow the model is to be",
                  "tenon prune model.onnx --ratio 30% -o narrow.onnx");
  }
  if (flags.ratio && (*flags.ratio <= 0 || *flags.ratio >= 1)) {
    return Status::error(
        ErrorId::BadPruneRatio,
        fmt::format("a ratio of {:g} % {}", *flags.ratio * 100,
                    *flags.ratio <= 0 ? "takes nothing away" : "leaves no channel"),
        "give the share of the channels that goes: --ratio 30%");
  }
  if (flags.latency && flags.noTiming) {
    return refuse("--latency is reached by measuring, and --no-timing forbids it",
                  "leave one of both out");
  }
  if (flags.scores.empty() != (flags.importance != "scores")) {
    return refuse("--importance scores and --scores belong together", "give both, or neither");
  }
  if (flags.model.ends_with(".pt2")) {
    return Status::error(
        ErrorId::PruneFormat, fmt::format("'{}' is a program of torch.export", flags.model),
        "export the module as ONNX, prune that with --recipe r.json, carry the recipe out with "
        "tenon.prune.apply(module, recipe), and export the module again");
  }
  return Status::ok();
}

/// What a kernel of the target computes at once: the cost of a convolution or product steps where
/// its width passes a multiple of it. Of several levels the widest decides, of all those of `cpu`
/// this machine's.
Result<uint32_t> multipleOf(const PruneFlags &flags) {
  constexpr int64_t kGpu = 8; ///< what a tensor core takes
  if (flags.multiple != 0) {
    return static_cast<uint32_t>(flags.multiple);
  }
  TENON_ASSIGN(Targets targets, parseTargets(flags.target.targets));
  std::optional<engine::CpuLevel> local = runtime::bestCpuLevel();
  if (targets.addsLevels && local) {
    targets.levels = {*local};
  }
  int64_t multiple = kGpu;
  for (engine::CpuLevel level : targets.levels) {
    multiple = std::max(multiple, engine::floatLanes(level));
  }
  return static_cast<uint32_t>(multiple);
}

using Dims = prune::ValueDims;

/// All inputs with constant dims: those of --shape, else those of the model, else likely ones.
Result<std::vector<ShapeArgument>> shapesOf(const PruneFlags &flags, const prune::Pruner &pruner,
                                            Dims &dims) {
  TENON_ASSIGN(std::vector<ShapeArgument> given, parseShapeArguments(flags.shapes));
  TENON_ASSIGN(dims, dimsOfValues(flags.model, given));
  std::vector<ShapeArgument> shapes;
  bool isFree = false;
  for (const std::string &name : pruner.inputNames()) {
    ShapeArgument shape{name, {}};
    for (uint32_t i = 0; i < dims[name].size(); ++i) {
      int64_t size = dims[name][i];
      isFree = isFree || size < 0;
      size = size < 0 ? likelySize(i, 1, 1 << 16) : size;
      shape.dims.push_back({size, size, false});
    }
    if (!shape.dims.empty()) {
      shapes.push_back(std::move(shape));
    }
  }
  if (isFree) {
    TENON_ASSIGN(dims, dimsOfValues(flags.model, shapes));
  }
  return shapes;
}

std::vector<std::string> textsOf(const std::vector<ShapeArgument> &shapes) {
  std::vector<std::string> texts;
  for (const ShapeArgument &shape : shapes) {
    std::vector<int64_t> sizes;
    for (const ShapeArgument::Dim &dim : shape.dims) {
      sizes.push_back(dim.min);
    }
    texts.push_back(fmt::format("{}:{}", shape.input, fmt::join(sizes, "x")));
  }
  return texts;
}

/// The work of one command.
class Work {
public:
  Work(const PruneFlags &flags, prune::Pruner &pruner, std::vector<ShapeArgument> shapes,
       ScratchFolder &folder, Terminal &terminal)
      : flags(flags), pruner(pruner), shapes(std::move(shapes)),
        path(folder.path() + "/pruned.onnx"), terminal(terminal) {}

  Status byRatio(double share);
  Status byLatency(double target);

  double ratio = 0;
  std::string bytes;
  std::optional<Timing> timing;

private:
  Status make(double share);
  Status check();
  Status startTiming();

  const PruneFlags &flags;
  prune::Pruner &pruner;
  std::vector<ShapeArgument> shapes;
  std::string path;
  Terminal &terminal;
  std::optional<Stopwatch> watch;
};

/// Every value has the dims that were planned: what a rule and the edit of a node disagree on shows
/// here.
Status Work::check() {
  auto failed = [](std::string what) {
    return Status::error(ErrorId::PruneCheckFailed, std::move(what),
                         "report this with the model; --keep leaves a layer as it is");
  };
  Result<Dims> dims = dimsOfValues(path, shapes);
  if (!dims) {
    return failed(fmt::format("the pruned model cannot be read: {}", dims.status().message()));
  }
  for (const auto &[name, planned] : pruner.dimsAfter()) {
    auto own = dims->find(name);
    if (own != dims->end() && own->second != planned) {
      return failed(fmt::format("'{}' has dims {} in the pruned model, planned were {}", name,
                                own->second, planned));
    }
  }
  return Status::ok();
}

Status Work::make(double share) {
  TENON_TRY(pruner.choose(share));
  TENON_ASSIGN(bytes, pruner.write());
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TENON_TRY(file.append(std::as_bytes(std::span(bytes))));
  TENON_TRY(file.commit());
  ratio = share;
  return check();
}

Status Work::startTiming() {
  TimingRequest request{textsOf(shapes), flags.target, flags.session, !flags.noCache,
                        flags.seconds};
  TENON_ASSIGN(Stopwatch started, Stopwatch::start(flags.model, request, terminal));
  watch.emplace(std::move(started));
  return Status::ok();
}

Status Work::byRatio(double share) {
  TENON_TRY(make(share));
  if (!flags.noTiming) {
    TENON_TRY(startTiming());
    TENON_ASSIGN(timing, watch->measure(path, terminal));
  }
  return Status::ok();
}

/// The least ratio whose time is within the target: halves the interval, and begins where the
/// square of what is kept, which the operations go with, says.
Status Work::byLatency(double target) {
  TENON_TRY(startTiming());
  TENON_ASSIGN(double before, watch->before(terminal));
  if (before <= target) {
    return refuse(fmt::format("the model takes {:.3g} ms as it is, which is within {:.3g} ms",
                              before, target),
                  "give a shorter --latency, or a --ratio");
  }
  double low = 0, high = kMaxRatio, next = std::min(1 - std::sqrt(target / before), kMaxRatio);
  double least = before, leastRatio = 0;
  std::map<double, double, std::greater<>> within; ///< ratios by their times, the slowest first
  for (int i = 0; i < kMaxTries && high - low > 0.01; ++i) {
    Status made = make(next);
    double time = before;
    if (made.isOk()) {
      TENON_ASSIGN(timing, watch->measure(path, terminal));
      time = timing->after;
    } else if (made.id() != ErrorId::BadPruneRatio) {
      return made;
    }
    bool isTooMuch = !made.isOk() && next > 0.5;
    if (made.isOk() && time < least) {
      least = time;
      leastRatio = next;
    }
    if (!isTooMuch && time > target) {
      low = next;
    } else {
      high = next;
      if (!isTooMuch) {
        within.emplace(time, next);
      }
      if (!isTooMuch && time >= kNearTarget * target) {
        break;
      }
    }
    next = (low + high) / 2;
  }
  // A form that is made again is measured again, and may take longer than it did.
  for (const auto &[time, share] : within) {
    if (ratio != share) {
      TENON_TRY(make(share));
      TENON_ASSIGN(timing, watch->measure(path, terminal));
    }
    least = timing->after;
    leastRatio = share;
    if (least <= target) {
      return Status::ok();
    }
  }
  return Status::error(
      ErrorId::PruneTargetMissed,
      fmt::format(
          "{:.3g} ms is not reached: the model takes {:.3g} ms, and {:.3g} ms with {:.0f} % "
          "of its channels removed",
          target, before, least, leastRatio * 100),
      "allow more, or quantize the pruned model: tenon quantize");
}

Status prune(PruneFlags &flags, Terminal &terminal) {
  if (flags.output.empty()) {
    flags.output = fmt::format("{}.pruned.onnx", flags.model.ends_with(".onnx")
                                                     ? flags.model.substr(0, flags.model.size() - 5)
                                                     : flags.model);
  }
  TENON_TRY(checkFlags(flags));
  TENON_TRY(isModel(flags.model, Takes::Model).takeStatus());
  std::vector<std::string> reads = {flags.model};
  prune::Settings settings;
  TENON_ASSIGN(settings.multiple, multipleOf(flags));
  settings.keep = flags.keep;
  settings.importance = flags.importance == "scores"     ? prune::Importance::Scores
                        : flags.importance == "bn-scale" ? prune::Importance::NormScale
                                                         : prune::Importance::Magnitude;
  if (!flags.scores.empty()) {
    reads.push_back(flags.scores);
    TENON_ASSIGN(settings.scores, readScores(flags.scores));
  }
  TENON_TRY(checkOutput(flags.output, flags.model, reads));
  TENON_TRY(checkOutput(flags.recipe, flags.model, reads));
  if (!flags.recipe.empty()) {
    TENON_ASSIGN(std::string output, resolveOutput(flags.output, reads));
    TENON_ASSIGN(std::string recipe, resolveOutput(flags.recipe, reads));
    auto placeOf = [](const std::string &path) {
      std::error_code ignored; // what cannot be looked up is refused where it is made
      return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
    };
    if (placeOf(output) == placeOf(recipe)) {
      return refuse(fmt::format("the model and its recipe would both be '{}'", flags.recipe),
                    "name another file with --recipe");
    }
  }
  TENON_ASSIGN(prune::Pruner pruner, prune::Pruner::open(flags.model));
  Dims dims;
  TENON_ASSIGN(std::vector<ShapeArgument> shapes, shapesOf(flags, pruner, dims));
  TENON_TRY(pruner.analyze(dims, std::move(settings)));
  if (flags.ratio) {
    TENON_TRY(pruner.choose(*flags.ratio));
  }
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(flags.output, reads));
  std::optional<AtomicFile> recipe;
  if (!flags.recipe.empty()) {
    TENON_ASSIGN(recipe, AtomicFile::create(flags.recipe, reads));
  }
  TENON_ASSIGN(ScratchFolder folder, ScratchFolder::create("tenon-prune"));
  Work work(flags, pruner, std::move(shapes), folder, terminal);
  TENON_TRY(flags.ratio ? work.byRatio(*flags.ratio) : work.byLatency(*flags.latency));
  PruneOutcome outcome{pruner.info(),     flags.model, flags.output,
                       flags.importance,  work.ratio,  bytesOfModel(flags.model),
                       work.bytes.size(), work.timing};
  if (!flags.recipe.empty()) {
    std::string text = recipeOf(outcome).dump(1) + "\n";
    TENON_TRY(recipe->append(std::as_bytes(std::span(text))));
  }
  TENON_TRY(file.append(std::as_bytes(std::span(work.bytes))));
  TENON_TRY(file.commit());
  if (recipe) {
    TENON_TRY(recipe->commit());
  }
  if (terminal.json()) {
    terminal.printJson("prune", pruneJson(outcome));
  } else {
    terminal.print(pruneText(outcome));
  }
  return Status::ok();
}

} // namespace

Action declarePrune(CLI::App &command) {
  std::shared_ptr<PruneFlags> flags = std::make_shared<PruneFlags>();
  flags->session.threads = usableCpus();
  flags->target.targets = {"cpu:native"};
  command.add_option("MODEL", flags->model, "A trained model (ONNX, of floats)")->required();
  command.add_option_function<std::string>(
      "--ratio", [flags](const std::string &text) { flags->ratio = parseRatio(text); },
      "How many of the channels, heads and FFN widths go: 30%");
  command.add_option_function<std::string>(
      "--latency", [flags](const std::string &text) { flags->latency = parseLatency(text); },
      "Remove as few as the model needs to take so long, measured here: 3ms");
  addOutput(command, flags->output,
            "Where to write the pruned model; by default the model's name with .pruned.onnx");
  command
      .add_option(
          "--recipe", flags->recipe,
          "Also write what is kept of each tensor, as JSON: for tenon.prune.apply(module, recipe)")
      ->check(CLI::Validator(
          [](const std::string &text) { return text.empty() ? "give the name of a file" : ""; },
          ""));
  addChoice(command, "--importance", flags->importance, {"magnitude", "bn-scale", "scores"},
            "What of a group goes first: that of the smallest weights, of the smallest scales of "
            "BatchNormalization, or "
            "of the smallest --scores");
  command.add_option("--scores", flags->scores,
                     "With --importance scores: an npz with an array for each parameter, as "
                     "tenon.prune.taylor makes it");
  command
      .add_option("--keep", flags->keep, "Leave the width of this node's layer (repeat for more)")
      ->allow_extra_args(false);
  addNumber(
      command, "--multiple", {1, 1024}, [flags](uint64_t number) { flags->multiple = number; },
      "Widths become multiples of this; by default of what a kernel of the target computes at "
      "once");
  command
      .add_option("--shape", flags->shapes,
                  "Dims of an input with free sizes: x:1x3x224x224 (repeat for more)")
      ->allow_extra_args(false);
  addSeconds(command, "--seconds", {0.01, kLongestSeconds}, flags->seconds,
             "How long to measure each model");
  command.add_flag("--no-timing", flags->noTiming, "Do not compile and measure the models");
  declareThreadsFlag(command, flags->session.threads, "Threads; all usable CPUs by default");
  declareTargetFlags(command, flags->target);
  command.add_flag("--no-cache", flags->noCache, "Do not use the compile cache");
  return [flags](Terminal &terminal) { return prune(*flags, terminal); };
}

} // namespace tenon::tool
