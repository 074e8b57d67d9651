// Relies on the importer for gaps and on dispatch for slow regions.

#include "tools/tenon/compile/CheckFile.h"

#include "compiler/kernels/Library.h"
#include "compiler/pipeline/CompileToC.h"
#include "engine/Reader.h"
#include "runtime/core/Engine.h"
#include "runtime/core/RankDevices.h"
#include "tools/tenon/compile/CompileToFolder.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/print/Format.h"
#include "tools/tenon/print/Narrowings.h"
#include "tools/tenon/print/RowsText.h"
#include "tools/tenon/print/SizeNeeds.h"
#include "tools/tenon/target/Target.h"
#include "tools/tenon/task/TaskListener.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>

namespace tenon::tool {
namespace {

using Libraries = std::vector<std::shared_ptr<const kernels::Library>>;

/// The operators of the model that kernels of the user's compute.
void addKernels(const ModelInfo &info, const Libraries &libraries, CheckReport &report) {
  report.json["kernels"] = Json::array();
  for (const std::shared_ptr<const kernels::Library> &library : libraries) {
    for (const kernels::Kernel &kernel : library->kernels) {
      bool isUsed = std::ranges::any_of(
          info.nodes, [&](const ModelNode &node) { return node.op == kernel.op; });
      if (isUsed) {
        report.json["kernels"].push_back({{"operator", kernel.op},
                                          {"backend", kernel.backend},
                                          {"symbol", kernel.symbol},
                                          {"library", library->path}});
        report.text +=
            fmt::format("\n{} on {}: the kernel {} of {}", view::visible(kernel.op), kernel.backend,
                        view::visible(kernel.symbol), view::visible(library->path));
      }
    }
  }
}

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

/// What compiling for the targets finds before it makes code.
Result<pipeline::CompileSummary> firstPhases(const CheckRequest &request, const Targets &targets,
                                             const Libraries &libraries) {
  pipeline::CompileOptions options;
  options.model = request.path;
  TENON_ASSIGN(options.shapes, parseShapeArguments(request.shapes));
  options.levels = targets.levels;
  options.cpu = targets.cpu;
  options.gpus = targets.gpus;
  options.kernelLibraries = libraries;
  options.stopAfter = pipeline::Phase::Dispatch;
  return compileModel(options);
}

Status gapsFound(const CheckRequest &request, const ModelInfo &info) {
  std::set<std::string> operators;
  for (const ModelGap &gap : info.gaps) {
    operators.insert(gap.domain + "." + gap.op);
  }
  std::string shapeFlags = flagsForShapes(info);
  std::string_view hint = "the report gives the reason and a workaround for each";
  return Status::error(
      ErrorId::ModelHasGaps,
      fmt::format("{}: {} node{} not supported ({} different operator{})", request.path,
                  info.gaps.size(), info.gaps.size() == 1 ? " is" : "s are", operators.size(),
                  operators.size() == 1 ? "" : "s"),
      shapeFlags.empty()
          ? std::string(hint)
          : fmt::format("{}; declare sizes with {}: a number or a range such as [1..64] for each ?",
                        hint, shapeFlags));
}

/// What has no kernel for --target c, as gaps of the model; what it takes where there are none.
Status addBoard(const CheckRequest &request, const pipeline::BoardTarget &target, ModelInfo &info,
                CheckReport &report) {
  pipeline::CompileOptions options;
  options.model = request.path;
  TENON_ASSIGN(options.shapes, parseShapeArguments(request.shapes));
  pipeline::BoardPlan plan = planOf(request.board);
  plan.wantsChoices = true;
  TENON_ASSIGN(pipeline::CompiledToC compiled,
               pipeline::compileToC(options, "model", target, plan));
  int64_t opset = 0;
  for (const ModelOpset &each : info.opsets) {
    opset = each.domain.empty() ? each.version : opset;
  }
  for (codegen::edge::Gap &gap : compiled.gaps) {
    ModelGap missing;
    missing.op = std::move(gap.op);
    missing.opset = opset;
    missing.node = std::move(gap.node);
    missing.dtype = std::move(gap.dtype);
    missing.rank = gap.rank;
    missing.why = std::move(gap.why);
    missing.workaround = std::move(gap.workaround);
    info.gaps.push_back(std::move(missing));
  }
  if (info.gaps.empty()) {
    report.json["arena_bytes"] = compiled.arenaBytes;
    report.json["stack_bytes"] = compiled.stackBytes;
    report.json["weight_bytes"] = compiled.folder.weightBytes;
    report.json["scale_bytes"] = compiled.folder.scaleBytes;
    report.json["row_bytes"] = compiled.folder.rowBytes;
    report.json["choices"] = Json::array();
    report.text =
        fmt::format("{}: everything is supported for {}: {} layers; {}", request.path,
                    fmt::join(request.targets, ","), compiled.layers, takenText(compiled));
    for (const pipeline::BoardChoice &choice : compiled.choices) {
      report.json["choices"].push_back({{"flags", choice.flags},
                                        {"arena_bytes", choice.arenaBytes},
                                        {"row_bytes", choice.rowBytes}});
      report.text += fmt::format("\n  with {}: arena {} bytes, tables of rows {} bytes",
                                 choice.flags, choice.arenaBytes, choice.rowBytes);
    }
    report.verdict = checkLimits(request.path, request.board, compiled);
  }
  return Status::ok();
}

/// What the users take, where somebody asks.
Status addUsers(const std::string &engine, const UsersRequest &users, CheckReport &report) {
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(engine));
  TENON_ASSIGN(std::optional<generate::ServiceFit> fit, serviceFitOfEngine(*file, "", users));
  if (!fit) {
    return Status::error(ErrorId::NotALanguageModel, "--users is for language models",
                         "leave it out");
  }
  report.json["users"] = serviceFitJson(*fit);
  report.text += fmt::format("\nmemory  {}", serviceFitText(*fit));
  report.verdict = generate::checkFit(*fit);
  return Status::ok();
}

Result<CheckReport> checkModelFile(const CheckRequest &request) {
  TENON_ASSIGN(std::vector<ShapeArgument> shapes, parseShapeArguments(request.shapes));
  TENON_ASSIGN(std::optional<pipeline::BoardTarget> board, boardTarget(request.targets));
  TENON_TRY(checkBoardFlags(request.board, board.has_value()));
  TENON_ASSIGN(Targets targets, board ? Result<Targets>(Targets()) : parseTargets(request.targets));
  pipeline::CompileOptions own;
  TENON_TRY(applyKernels(request.ownKernels, own));
  const Libraries &libraries = own.kernelLibraries;
  TENON_ASSIGN(ModelInfo info, importModel(request.path, shapes, /*withRanges=*/false, libraries));
  std::string target = fmt::format("{}", fmt::join(request.targets, ","));
  CheckReport report;
  report.json = {{"model", request.path}, {"target", target}, {"gaps", Json::array()}};
  if (board && info.gaps.empty()) {
    TENON_TRY(addBoard(request, *board, info, report));
  }
  for (const ModelGap &gap : info.gaps) {
    report.json["gaps"].push_back(describeGap(gap));
    report.text += gapText(gap);
  }
  if (!info.gaps.empty()) {
    report.verdict = gapsFound(request, info);
    return report;
  }
  if (board) {
    return report;
  }
  TENON_ASSIGN(pipeline::CompileSummary found, firstPhases(request, targets, libraries));
  report.text =
      fmt::format("{}: everything is supported for {}: {} operations, {} inputs, {} outputs",
                  request.path, target, info.nodes.size(), info.inputs.size(), info.outputs.size());
  if (!libraries.empty()) {
    addKernels(info, libraries, report);
  }
  report.json["constraints"] = needsJson(info.needs);
  report.json["narrowed"] = narrowedJson(found.narrowed);
  for (const pipeline::Narrowing &narrowing : found.narrowed) {
    report.text += "\n" + narrowingText(narrowing);
  }
  for (const SizeNeed &need : info.needs) {
    report.text += need.unchecked.empty() ? "" : "\n" + needText(need);
  }
  addRows(report.json, found.rows);
  std::string rows = rowsText(found.rows, "");
  report.text += rows.empty() ? "" : "\n" + rows.substr(0, rows.size() - 1);
  if (request.strict && !found.narrowed.empty()) {
    report.verdict = Status::error(
        ErrorId::SizesNarrowed, fmt::format("{} accepts fewer sizes than declared", request.path),
        "declare sizes that all nodes accept with --shape, or leave out --strict");
  }
  report.json["slow"] = Json::array();
  for (const pipeline::SlowRegion &region : found.slow) {
    report.json["slow"].push_back({{"target", region.target},
                                   {"region", region.label},
                                   {"kernel", region.kernel},
                                   {"why", region.why}});
    report.text +=
        fmt::format("\nslow on {}: {}\n  {}: {}", region.target, view::visible(region.label),
                    region.kernel, view::visible(region.why));
  }
  if (request.users.users > 0 && report.verdict.isOk()) {
    OpenRequest open;
    open.path = request.path;
    open.shapes = request.shapes;
    open.target.targets = request.targets;
    TaskListener silent;
    TENON_ASSIGN(EngineSource source, EngineSource::prepare(open, silent));
    TENON_TRY(addUsers(source.path(), request.users, report));
  }
  return report;
}

Result<CheckReport> checkEngineFile(const CheckRequest &request) {
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(request.path));
  TENON_TRY(file->verifyWeights());
  for (const std::string &name : file->recordNames()) {
    TENON_TRY(file->record(name).takeStatus());
  }
  CheckReport report;
  report.json = {{"engine", request.path}, {"variants", Json::array()}};
  report.text = fmt::format("{}: every byte is as it was written ({})\n", request.path,
                            formatBytes(file->fileBytes()));
  for (size_t i = 0; i < file->variants().size(); ++i) {
    const engine::Variant &variant = file->variants()[i];
    Status status = runtime::Engine::checkRuns(*file, variant.level);
    bool isOfGpus = variant.architecture == engine::Architecture::Nvptx && variant.plan.ranks > 1;
    if (status.isOk() && isOfGpus) {
      status = runtime::checkRankDevices(*file, i, {});
    }
    report.json["variants"].push_back(
        {{"level", variant.level}, {"runs_here", status.isOk()}, {"why", status.message()}});
    report.text +=
        fmt::format("  {:<18} {}\n", variant.level,
                    status.isOk() ? "runs on this machine" : std::string(status.message()));
  }
  if (request.users.users > 0) {
    report.text.pop_back(); // the last line's end, as addUsers begins one
    TENON_TRY(addUsers(request.path, request.users, report));
  }
  return report;
}

} // namespace

Result<CheckReport> checkFile(const CheckRequest &request) {
  TENON_ASSIGN(std::optional<pipeline::BoardTarget> board, boardTarget(request.targets));
  TENON_TRY(checkBoardFlags(request.board, board.has_value()));
  if (!board) {
    TENON_TRY(parseTargets(request.targets).takeStatus());
  }
  TENON_ASSIGN(bool model, isModel(request.path, Takes::OnnxOrEngine));
  return model ? checkModelFile(request) : checkEngineFile(request);
}

} // namespace tenon::tool
