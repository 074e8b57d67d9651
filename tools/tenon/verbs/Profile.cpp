// `tenon profile`: what the model's operators cost, what holds each back, and what would help.

#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/print/TextFile.h"
#include "tools/tenon/profile/Compare.h"
#include "tools/tenon/profile/MeasureProfile.h"
#include "tools/tenon/profile/Outputs.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenon::tool {
namespace {

constexpr double kShortestProfile = 0.01;
constexpr uint64_t kMaxRows = 1000;

struct ProfileFlags {
  std::string path;
  ProfileRequest request;
  size_t top = 5;
  bool noCache = false;
  bool counters = false;                       ///< whether a GPU's counters are read
  std::string other;                           ///< of --ab
  std::string page, trace, layers, layerTimes; ///< files; empty for none
};

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
    TENON_TRY(checkOutput(path, flags.path, others));
    if (!path.empty()) {
      others.push_back(path);
    }
  }
  return Status::ok();
}

Status runProfile(ProfileFlags &flags, Terminal &terminal) {
  flags.request.open.useCache = !flags.noCache;
  TENON_TRY(checkOutputs(flags));
  TENON_ASSIGN(flags.request.session.symbols, sessionSymbols(flags.request.inputs));
  std::vector<Child> counting;
  for (const std::string &path : {flags.path, flags.other}) {
    if (flags.counters && !path.empty()) {
      TENON_ASSIGN(Child child, startCounting(flags.request));
      counting.push_back(std::move(child));
    }
  }
  auto counter = [&](size_t engine) { return flags.counters ? &counting[engine] : nullptr; };
  TENON_ASSIGN(Profiled first, measureProfile(flags.request, flags.path, terminal, counter(0)));
  Json json = toJson(first.profile);
  std::string text = profileText(first.profile, flags.top);
  if (!flags.other.empty()) {
    TENON_ASSIGN(Profiled second, measureProfile(flags.request, flags.other, terminal, counter(1)));
    TENON_TRY(checkComparable(first.profile, second.profile));
    TENON_ASSIGN(ProfileDifference difference,
                 compareProfiles(first.profile, *first.runner, second.profile, *second.runner,
                                 flags.request.seconds));
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
      .add_option("MODEL", flags->path,
                  "An engine, or a model (ONNX, .pt2, .tflite) to compile first")
      ->required();
  addNumber(
      command, "--top", {1, kMaxRows},
      [flags](uint64_t number) { flags->top = static_cast<size_t>(number); },
      "Number of operators to show, the longest first; 5 by default");
  command.add_option(
      "--ab", flags->other,
      "A second engine or model: show which of its operators make it faster or slower");
  command.add_option(
      "--html", flags->page,
      "Also write a page for a browser: roofline, time by operator, module and source line");
  command.add_option("--trace", flags->trace, "Also write a trace for Perfetto and Chrome");
  command.add_option("--layers", flags->layers,
                     "Also write the layers in the format of trtexec --exportLayerInfo");
  command.add_option("--layer-times", flags->layerTimes,
                     "Also write their times in the format of trtexec --exportProfile");
  declareSeededFlags(command, flags->request.inputs);
  declareSessionFlag(command, flags->request.inputs);
  declareFileFlags(command, flags->request.inputs);
  declareThreadsFlag(command, flags->request.session.threads,
                     "Threads; all usable CPUs by default");
  declareOpenFlags(command, flags->request.open);
  addSeconds(command, "--seconds", {kShortestProfile, kLongestSeconds}, flags->request.seconds,
             "How long to measure runs; limits and experiments take a few seconds more");
  command.add_flag("--counters", flags->counters,
                   "On a GPU, also read its counters, by CUPTI, and classify by them");
  declareTargetFlags(command, flags->request.open.target);
  command.add_flag("--no-cache", flags->noCache, "Compile a model without the cache");
  return [flags](Terminal &terminal) { return runProfile(*flags, terminal); };
}

} // namespace tenon::tool
