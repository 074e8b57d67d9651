// `tenon profile`: what the model's operators cost, what holds each back, and what would help. It
// opens and measures; the parts in tools/tenon/profile find out and say.

#include "engine/Expr.h"
#include "runtime/tensors/Seeded.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/inputs/Inputs.h"
#include "tools/tenon/print/FigureSizes.h"
#include "tools/tenon/print/TextFile.h"
#include "tools/tenon/profile/Compare.h"
#include "tools/tenon/profile/Outputs.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

namespace tenon::tool {
namespace {

constexpr double kShortestProfile = 0.01;
constexpr uint64_t kMaxRows = 1000;

struct ProfileFlags {
  OpenRequest open;
  InputFlags inputs;
  runtime::SessionOptions session;
  double seconds = 2; ///< for passes; experiments take about as much again
  size_t top = 5;
  bool noCache = false;
  std::string other;                           ///< of --ab
  std::string page, trace, layers, layerTimes; ///< files; empty for none
};

/// A profile with what it was measured on.
struct Profiled {
  Profile profile;
  std::optional<EngineSource> source;
  std::unique_ptr<Runner> runner;
};

/// Of an engine, the model beside it, by whose name compile calls engines.
std::string modelBeside(const std::string &engine) {
  for (const char *ending : {".onnx", ".pt2"}) {
    std::filesystem::path model = std::filesystem::path(engine).replace_extension(ending);
    std::error_code error;
    if (std::filesystem::is_regular_file(model, error)) {
      return model.string();
    }
  }
  return "MODEL";
}

void describeInputs(const ProfileFlags &flags, const Runner &runner, Profile &profile) {
  for (const Tensor &input : runner.inputs()) {
    profile.inputs.emplace_back(input.name, input.dims);
  }
  profile.areSizesLikely =
      flags.inputs.shapes.empty() && flags.inputs.files.empty() && flags.inputs.batch == 0;
}

/// What advice would run at once: the other dims stay, and follow the batch where the model says
/// so.
void chooseBatch(const engine::Plan &plan, Profile &profile) {
  constexpr int64_t kBatch = 8;
  std::vector<int64_t> sizes(plan.symbols.size(), 0);
  for (size_t i = 0; i < plan.symbols.size(); ++i) {
    const engine::Symbol &symbol = plan.symbols[i];
    if (symbol.isDataDependent()) {
      continue;
    }
    bool isBatch = symbol.input == 0 && symbol.dim == 0;
    sizes[i] =
        isBatch ? std::min(kBatch, symbol.max) : profile.inputs[symbol.input].second[symbol.dim];
    profile.batch = isBatch ? sizes[i] : profile.batch;
  }
  for (uint32_t input = 0; profile.batch > 1 && input < plan.inputs.size(); ++input) {
    const engine::Port &port = plan.inputs[input];
    std::vector<int64_t> dims = profile.inputs[input].second;
    for (uint32_t dim = 0; dim < dims.size(); ++dim) {
      std::optional<uint32_t> symbol = symbolAt(plan, input, dim);
      dims[dim] =
          symbol ? sizes[*symbol]
                 : engine::evaluate(plan.exprs.program(port.dims[dim]), sizes).value_or(dims[dim]);
    }
    profile.batchInputs.emplace_back(port.name, std::move(dims));
  }
}

Result<Profiled> profileOf(const ProfileFlags &flags, const std::string &path, Terminal &terminal) {
  OpenRequest open = flags.open;
  open.path = path;
  open.shapes = flags.inputs.shapes;
  open.useCache = !flags.noCache;
  TENON_ASSIGN(bool isOfModel, isModel(open.path, Takes::Either));
  TENON_ASSIGN(EngineSource source, EngineSource::prepare(open, terminal));
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine, source.open());
  MakeRunner make = [&](unsigned threads) -> Result<Runner> {
    runtime::SessionOptions session = flags.session;
    session.threads = threads;
    TENON_ASSIGN(std::vector<Tensor> inputs, makeInputs(flags.inputs, *engine));
    return Runner::create(engine, std::move(inputs), session);
  };
  TENON_ASSIGN(Runner runner, make(flags.session.threads));

  Profile profile;
  profile.path = open.path;
  profile.model = isOfModel ? open.path : modelBeside(open.path);
  profile.engine = open.path;
  profile.level = engine->variant().level;
  profile.features = engine->variant().features;
  profile.isGpu = engine->gpu().has_value();
  profile.options = Json::parse(engine->file().provenance().options, nullptr, false);
  if (!profile.options.is_object()) {
    profile.options = Json::object();
  }
  describeInputs(flags, runner, profile);
  chooseBatch(runner.plan(), profile);
  terminal.progress("limits", 0);
  TENON_ASSIGN(profile.limits, profile.isGpu ? measureGpuLimits(*engine->gpu())
                                             : measureCpuLimits(runner.session().threads()));
  TENON_ASSIGN(profile.measured, measureSteps(runner, make, flags.seconds, terminal));
  if (!profile.isGpu) {
    // Again, as a neighbour may have disturbed the first time.
    TENON_ASSIGN(Limits again, measureCpuLimits(runner.session().threads()));
    profile.limits.take(again);
  }
  TENON_TRY(joinRecords(engine->file(), runner.session().activePlan(), profile));
  classify(profile);
  splitOperators(profile);
  advise(profile);
  terminal.clearProgress();
  return Profiled{std::move(profile), std::move(source),
                  std::make_unique<Runner>(std::move(runner))};
}

Status writeFiles(const ProfileFlags &flags, const Profile &profile, Terminal &terminal) {
  struct Output {
    const std::string &path;
    std::string (*textOf)(const Profile &profile);
  };
  for (const auto &[path, textOf] :
       {Output{flags.page, pageOf}, Output{flags.trace, traceOf}, Output{flags.layers, layersOf},
        Output{flags.layerTimes, layerTimesOf}}) {
    if (!path.empty()) {
      TENON_TRY(writeTextFile(path, textOf(profile)));
      terminal.note(fmt::format("wrote {}", path));
    }
  }
  return Status::ok();
}

Status checkOutputs(const ProfileFlags &flags) {
  std::vector<std::string> others;
  if (!flags.other.empty()) {
    others.push_back(flags.other);
  }
  for (const std::string &path : {flags.page, flags.trace, flags.layers, flags.layerTimes}) {
    TENON_TRY(checkOutput(path, flags.open.path, others));
    if (!path.empty()) {
      others.push_back(path);
    }
  }
  return Status::ok();
}

Status runProfile(const ProfileFlags &flags, Terminal &terminal) {
  TENON_TRY(checkOutputs(flags));
  TENON_ASSIGN(Profiled first, profileOf(flags, flags.open.path, terminal));
  Json json = toJson(first.profile);
  std::string text = profileText(first.profile, flags.top);
  if (!flags.other.empty()) {
    TENON_ASSIGN(Profiled second, profileOf(flags, flags.other, terminal));
    TENON_TRY(checkComparable(first.profile, second.profile));
    TENON_ASSIGN(ProfileDifference difference,
                 compareProfiles(first.profile, *first.runner, second.profile, *second.runner,
                                 flags.seconds));
    json["ab"] = toJson(difference, second.profile);
    text += differenceText(difference, second.profile, flags.top);
  }
  TENON_TRY(writeFiles(flags, first.profile, terminal));
  terminal.json() ? terminal.printJson("profile", std::move(json)) : terminal.print(text);
  return Status::ok();
}

} // namespace

Action declareProfile(CLI::App &command) {
  std::shared_ptr<ProfileFlags> flags = std::make_shared<ProfileFlags>();
  command
      .add_option("MODEL", flags->open.path, "An engine, or a model (ONNX, .pt2) to compile first")
      ->required();
  addNumber(
      command, "--top", {1, kMaxRows},
      [flags](uint64_t number) { flags->top = static_cast<size_t>(number); },
      "How many operators are shown, the longest first; 5 by default");
  command.add_option("--ab", flags->other,
                     "A second engine or model: which of its operators make it faster or slower");
  command.add_option(
      "--html", flags->page,
      "Also a page for a browser: roofline, time by operator, module and source line");
  command.add_option("--trace", flags->trace, "Also a trace for Perfetto and Chrome");
  command.add_option("--layers", flags->layers,
                     "Also the layers as trtexec --exportLayerInfo writes them");
  command.add_option("--layer-times", flags->layerTimes,
                     "Also their times as trtexec --exportProfile writes them");
  declareSeededFlags(command, flags->inputs);
  declareFileFlags(command, flags->inputs);
  declareThreadsFlag(command, flags->session.threads, "Threads; all usable CPUs by default");
  declareOpenFlags(command, flags->open);
  addSeconds(command, "--seconds", {kShortestProfile, kLongestSeconds}, flags->seconds,
             "How long runs are measured; limits and experiments take a few seconds more");
  declareTargetFlags(command, flags->open.target);
  command.add_flag("--no-cache", flags->noCache, "Compile a model without the cache");
  return [flags](Terminal &terminal) { return runProfile(*flags, terminal); };
}

} // namespace tenon::tool
