// `tenon check`: of a model every gap in one report, and what runs but not fast; of an engine
// whether each byte is what was written and which of its variants this machine runs, without
// loading any of its code.

#include "engine/Reader.h"
#include "runtime/core/Engine.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/target/Target.h"
#include "tools/view/Escape.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

namespace tenon::tool {
namespace {

struct CheckFlags {
  std::string path;
  std::vector<std::string> targets = {"cpu"};
  std::vector<std::string> shapes;
};

Json describeGap(const ModelGap &gap) {
  return {{"op", gap.op},     {"domain", gap.domain}, {"opset", gap.opset},
          {"node", gap.node}, {"source", gap.source}, {"dtype", gap.dtype},
          {"rank", gap.rank}, {"why", gap.why},       {"workaround", gap.workaround}};
}

std::string gapText(const ModelGap &gap) {
  std::string domain = view::visible(gap.domain.empty() ? "" : gap.domain + ".");
  std::string rank = gap.rank < 0 ? "" : fmt::format(" of rank {}", gap.rank);
  std::string text =
      fmt::format("{}{}  opset {}  {}{}  node '{}'\n  why: {}\n", domain, view::visible(gap.op),
                  gap.opset, gap.dtype.empty() ? "type unknown" : gap.dtype, rank,
                  view::visible(gap.node), view::visible(gap.why));
  if (!gap.workaround.empty()) {
    text += fmt::format("  workaround: {}\n", view::visible(gap.workaround));
  }
  return text;
}

/// The flags that give the sizes which some gap asks for; empty where none does.
std::string flagsForShapes(const ModelInfo &info) {
  bool isAsked = std::ranges::any_of(info.gaps, [](const ModelGap &gap) {
    return gap.workaround.find("--shape") != std::string::npos;
  });
  std::string flags;
  for (const std::string &shape : info.freeShapes) {
    flags += fmt::format("{}--shape '{}'", flags.empty() ? "" : " ", shape);
  }
  return isAsked ? flags : "";
}

/// The regions that no kernel computes fast, as compiling for the targets forms them.
Result<std::vector<pipeline::SlowRegion>> slowRegions(const CheckFlags &flags,
                                                      const Targets &targets) {
  pipeline::CompileOptions request;
  request.model = flags.path;
  TENON_ASSIGN(request.shapes, parseShapeArguments(flags.shapes));
  request.levels = targets.levels;
  request.cpu = targets.cpu;
  request.gpus = targets.gpus;
  request.stopAfter = pipeline::Phase::Dispatch;
  TENON_ASSIGN(pipeline::CompileSummary summary, compileModel(request));
  return summary.slow;
}

Status checkModel(const CheckFlags &flags, Terminal &terminal) {
  TENON_ASSIGN(std::vector<ShapeArgument> shapes, parseShapeArguments(flags.shapes));
  TENON_ASSIGN(Targets targets, parseTargets(flags.targets));
  TENON_ASSIGN(ModelInfo info, importModel(flags.path, shapes));
  std::string target = fmt::format("{}", fmt::join(flags.targets, ","));
  std::set<std::string> operators;
  Json gaps = Json::array();
  for (const ModelGap &gap : info.gaps) {
    operators.insert(gap.domain + "." + gap.op);
    gaps.push_back(describeGap(gap));
    if (!terminal.json()) {
      terminal.print(gapText(gap));
    }
  }
  if (info.gaps.empty()) {
    TENON_ASSIGN(std::vector<pipeline::SlowRegion> regions, slowRegions(flags, targets));
    Json slow = Json::array();
    std::string text =
        fmt::format("{}: everything is supported for {}: {} operations, {} inputs, {} outputs",
                    flags.path, target, info.nodes.size(), info.inputs.size(), info.outputs.size());
    for (const pipeline::SlowRegion &region : regions) {
      slow.push_back({{"target", region.target},
                      {"region", region.label},
                      {"kernel", region.kernel},
                      {"why", region.why}});
      text += fmt::format("\nslow on {}: {}\n  {}: {}", region.target, view::visible(region.label),
                          region.kernel, view::visible(region.why));
    }
    if (terminal.json()) {
      terminal.printJson(
          "check", {{"model", flags.path}, {"target", target}, {"gaps", gaps}, {"slow", slow}});
    } else {
      terminal.print(text);
    }
    return Status::ok();
  }
  if (terminal.json()) {
    terminal.printJson("check", {{"model", flags.path}, {"target", target}, {"gaps", gaps}});
  }
  std::string shapeFlags = flagsForShapes(info);
  std::string_view hint = "the report gives the reason and a workaround for each";
  return Status::error(
      ErrorId::ModelHasGaps,
      fmt::format("{}: {} node{} not supported ({} different operator{})", flags.path,
                  info.gaps.size(), info.gaps.size() == 1 ? " is" : "s are", operators.size(),
                  operators.size() == 1 ? "" : "s"),
      shapeFlags.empty() ? std::string(hint)
                         : fmt::format("{}; sizes are declared by {}, with a number or a range "
                                       "such as [1..64] in place of each ?",
                                       hint, shapeFlags));
}

Status checkEngine(const CheckFlags &flags, Terminal &terminal) {
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(flags.path));
  TENON_TRY(file->verifyWeights());
  for (const std::string &name : file->recordNames()) {
    TENON_TRY(file->record(name).takeStatus());
  }
  Json variants = Json::array();
  std::string text = fmt::format("{}: every byte is as it was written ({})\n", flags.path,
                                 formatBytes(file->fileBytes()));
  for (const engine::Variant &variant : file->variants()) {
    Status status = runtime::Engine::checkRuns(*file, variant.level);
    variants.push_back(
        {{"level", variant.level}, {"runs_here", status.isOk()}, {"why", status.message()}});
    text += fmt::format("  {:<18} {}\n", variant.level,
                        status.isOk() ? "runs on this machine" : std::string(status.message()));
  }
  if (terminal.json()) {
    terminal.printJson("check", {{"engine", flags.path}, {"variants", variants}});
  } else {
    terminal.print(text);
  }
  return Status::ok();
}

Status check(const CheckFlags &flags, Terminal &terminal) {
  TENON_TRY(parseTargets(flags.targets).takeStatus());
  TENON_ASSIGN(bool model, isModel(flags.path, Takes::OnnxOrEngine));
  return model ? checkModel(flags, terminal) : checkEngine(flags, terminal);
}

} // namespace

Action declareCheck(CLI::App &command) {
  std::shared_ptr<CheckFlags> flags = std::make_shared<CheckFlags>();
  command.add_option("FILE", flags->path, "A model (ONNX, .pt2) or an engine")->required();
  command.add_option("--target", flags->targets, "Check for this target, as for compile")
      ->allow_extra_args(false);
  command.add_option("--shape", flags->shapes, "Dimensions of an input, as for compile")
      ->allow_extra_args(false);
  return [flags](Terminal &terminal) { return check(*flags, terminal); };
}

} // namespace tenon::tool
