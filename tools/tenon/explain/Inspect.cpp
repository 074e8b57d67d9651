// Relies on view for the graph in all its forms.

#include "tools/tenon/explain/Inspect.h"

#include "support/files/MappedFile.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/generate/Fitting.h"
#include "tools/tenon/generate/LanguageText.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/inputs/Limits.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/print/EngineInfo.h"
#include "tools/tenon/print/FigureSizes.h"
#include "tools/tenon/print/Format.h"
#include "tools/tenon/print/SizeNeeds.h"
#include "tools/tenon/print/TextFile.h"
#include "tools/view/EngineGraph.h"
#include "tools/view/Escape.h"
#include "tools/view/Render.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

namespace tenon::tool {
namespace {

/// The file's own name, without folders.
std::string titleOf(const std::string &path) {
  return std::filesystem::path(path).filename().string();
}

Json describePorts(const std::vector<ModelValue> &values) {
  Json list = Json::array();
  for (const ModelValue &value : values) {
    list.push_back({{"name", value.name}, {"type", value.type}});
  }
  return list;
}

std::string opsetText(const ModelOpset &opset) {
  return fmt::format("{} {}", opset.domain.empty() ? "ai.onnx" : opset.domain, opset.version);
}

Json describeGaps(const std::vector<ModelGap> &gaps) {
  Json list = Json::array();
  for (const ModelGap &gap : gaps) {
    list.push_back({{"op", gap.op}, {"node", gap.node}, {"why", gap.why}});
  }
  return list;
}

Json describeModel(const std::string &path, const ModelInfo &info) {
  Json symbols = Json::array();
  for (const ModelSymbol &symbol : info.symbols) {
    symbols.push_back({{"name", symbol.name}, {"min", symbol.min}, {"max", symbol.max}});
  }
  Json nodes = Json::array();
  for (const ModelNode &node : info.nodes) {
    nodes.push_back(
        {{"op", node.op}, {"name", node.name}, {"type", node.type}, {"reads", node.producers}});
  }
  Json opsets = Json::object();
  for (const ModelOpset &opset : info.opsets) {
    opsets[opset.domain.empty() ? "ai.onnx" : opset.domain] = opset.version;
  }
  return {{"model", path},
          {"supported", info.gaps.empty()},
          {"opsets", opsets},
          {"inputs", describePorts(info.inputs)},
          {"overridable", describePorts(info.overridable)},
          {"outputs", describePorts(info.outputs)},
          {"symbols", symbols},
          {"constraints", needsJson(info.needs)},
          {"weights", info.weightCount},
          {"weights_bytes", info.weightBytes},
          {"operations", info.opCounts},
          {"missing", describeGaps(info.gaps)},
          {"nodes", nodes}};
}

Json recordIn(const std::map<std::string, std::string> &records, const char *name) {
  auto found = records.find(name);
  return found == records.end() ? Json() : parseJson(found->second);
}

/// Models of other kinds have no such member.
void addLanguage(Json &json, const LanguageInfo &info) {
  Json language = languageJson(info);
  if (!language.is_null()) {
    json["language"] = std::move(language);
  }
}

LanguageInfo languageOf(const ModelInfo &info) {
  return {recordIn(info.records, "language"), recordIn(info.records, "tokenizer"), {}, {}};
}

Result<LanguageInfo> languageOf(const engine::EngineFile &file, const std::string &variant,
                                const UsersRequest &users) {
  LanguageInfo info;
  for (auto [name, value] :
       {std::pair("language", &info.language), {"tokenizer", &info.tokenizer}}) {
    Result<std::string_view> record = file.record(name);
    *value = record ? parseJson(*record) : Json();
  }
  TENON_ASSIGN(info.fit, fitOfEngine(file, {.variant = variant}));
  TENON_ASSIGN(info.users, serviceFitOfEngine(file, variant, users));
  return info;
}

std::string modelText(const std::string &path, const ModelInfo &info, const view::Graph &graph) {
  std::string text = fmt::format("{}\n", view::visible(path)) + languageText(languageOf(info));
  for (const ModelOpset &opset : info.opsets) {
    text += fmt::format("  opset   {}\n", opsetText(opset));
  }
  for (const ModelValue &input : info.inputs) {
    text += fmt::format("  input   {}  {}\n", view::visible(input.name), view::visible(input.type));
  }
  for (const ModelValue &value : info.overridable) {
    text += fmt::format("  default {}  {}  an input where --shape names it\n",
                        view::visible(value.name), view::visible(value.type));
  }
  for (const ModelValue &output : info.outputs) {
    text +=
        fmt::format("  output  {}  {}\n", view::visible(output.name), view::visible(output.type));
  }
  for (const ModelSymbol &symbol : info.symbols) {
    text += fmt::format("  symbol  {} from {} to {}\n", view::visible(symbol.name), symbol.min,
                        symbol.max);
  }
  for (const SizeNeed &need : info.needs) {
    text += "  " + needText(need) + "\n";
  }
  text += fmt::format("  weights {} in {}\n", info.weightCount, formatBytes(info.weightBytes));
  text += fmt::format("  {} operations:", info.nodes.size());
  for (const auto &[op, count] : info.opCounts) {
    text += fmt::format(" {} {},", count, view::visible(op));
  }
  text.back() = '\n';
  text += view::renderText(graph);
  if (!info.gaps.empty()) {
    text += fmt::format("  {} gaps; tenon check suggests workarounds:\n", info.gaps.size());
  }
  for (const ModelGap &gap : info.gaps) {
    text += fmt::format("    {:<14} {}: {}\n", view::visible(gap.op), view::visible(gap.node),
                        view::visible(gap.why));
  }
  return text;
}

/// A model that Tenon cannot compile: its nodes as the file has them, without counts.
view::Graph declaredGraph(const ModelInfo &info) {
  view::Graph graph;
  std::vector<int64_t> results;
  auto add = [&](view::Value value) {
    graph.values.push_back(std::move(value));
    return static_cast<int64_t>(graph.values.size()) - 1;
  };
  for (const ModelValue &input : info.inputs) {
    graph.inputs.push_back({input.name, add({.kind = "input",
                                             .name = input.name,
                                             .dtype = input.type,
                                             .shape = std::nullopt,
                                             .bytes = {}})});
  }
  for (const ModelNode &declared : info.nodes) {
    view::Node node;
    node.op = declared.op;
    node.name = declared.name;
    for (int64_t producer : declared.producers) {
      node.inputs.push_back(producer < 0 ? graph.inputs[-1 - producer].value : results[producer]);
    }
    int64_t id = static_cast<int64_t>(graph.nodes.size());
    results.push_back(add({.kind = "node",
                           .name = "",
                           .dtype = declared.type,
                           .shape = std::nullopt,
                           .node = id,
                           .bytes = {}}));
    node.outputs.push_back(results.back());
    graph.nodes.push_back(std::move(node));
  }
  for (const ModelValue &output : info.outputs) {
    graph.outputs.push_back({output.name, -1});
  }
  return graph;
}

/// The drawings and the other forms that are the same for models and engines.
std::string rendered(const std::string &format, view::Graph graph) {
  return format == "svg"    ? view::renderSvg(graph)
         : format == "html" ? view::renderHtml(graph)
         : format == "onnx" ? view::renderOnnx(graph)
                            : view::renderDot(graph);
}

Result<Inspection> inspectModel(const InspectRequest &request) {
  if (request.users.users > 0) {
    return Status::error(ErrorId::BadArgument,
                         "--users: what a model takes of memory is known once it is compiled",
                         "give an engine, or take tenon check, which compiles");
  }
  TENON_ASSIGN(std::vector<ShapeArgument> shapes, parseShapeArguments(request.shapes));
  TENON_ASSIGN(ModelInfo info, importModel(request.path, shapes, request.format != "text"));
  view::Graph graph = declaredGraph(info);
  if (!info.graph.empty()) {
    TENON_ASSIGN(graph, view::readGraph(info.graph));
  }
  graph.source = "model";
  graph.title = titleOf(request.path);
  view::addGroups(graph);
  if (request.format == "json") {
    Json json = describeModel(request.path, info);
    addLanguage(json, languageOf(info));
    json["graph"] = view::toJson(graph);
    return Inspection{"inspect-model", std::move(json), ""};
  }
  if (request.format == "text") {
    return Inspection{"", {}, modelText(request.path, info, graph)};
  }
  return Inspection{"", {}, rendered(request.format, std::move(graph))};
}

/// The graph of an engine: of the variant and for the sizes that are asked for, else those of the
/// profile, else this machine's and the likely ones.
Result<view::Graph> graphOfEngine(const InspectRequest &request, const engine::EngineFile &file) {
  std::string profile;
  if (!request.profile.empty()) {
    TENON_ASSIGN(MappedFile times, MappedFile::open(request.profile));
    profile.assign(reinterpret_cast<const char *>(times.bytes().data()), times.bytes().size());
  }
  ProfileOrigin origin = originOf(profile);
  if (!origin.shapes.empty() && !request.shapes.empty()) {
    return Status::error(ErrorId::BadArgument,
                         "--shape and --profile conflict: times belong to the measured sizes",
                         "leave out --shape, or measure these sizes with tenon bench --shape");
  }
  std::string level = !request.level.empty()  ? request.level
                      : !origin.level.empty() ? origin.level
                                              : variantOfThisMachine(file);
  TENON_ASSIGN(view::InputDims dims,
               figureDims(file, request.shapes.empty() ? origin.shapes : request.shapes));
  TENON_ASSIGN(view::Graph graph, view::engineGraph(file, level, dims));
  graph.title = titleOf(request.path);
  view::addGroups(graph);
  if (!request.profile.empty()) {
    TENON_TRY(view::addTimes(graph, profile));
  }
  return graph;
}

Result<Inspection> inspectEngine(const InspectRequest &request) {
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(request.path));
  if (request.format == "dot") {
    return Inspection{"", {}, engineDot(*file)};
  }
  // Engines of earlier versions have no such record: their information is shown without nodes.
  bool hasGraph = file->record("graph").isOk();
  bool needsGraph = hasGraph || !request.level.empty() || !request.profile.empty() ||
                    !request.shapes.empty() ||
                    (request.format != "json" && request.format != "text");
  view::Graph graph;
  if (needsGraph) {
    TENON_ASSIGN(graph, graphOfEngine(request, *file));
  }
  LanguageInfo language;
  if (request.format == "json" || request.format == "text") {
    TENON_ASSIGN(language, languageOf(*file, request.level, request.users));
  }
  if (request.format == "json") {
    Json json = describeEngine(request.path, *file);
    addLanguage(json, language);
    if (hasGraph) {
      json["graph"] = view::toJson(graph);
    }
    return Inspection{"inspect-engine", std::move(json), ""};
  }
  if (request.format == "text") {
    return Inspection{"",
                      {},
                      engineText(request.path, *file, languageText(language)) +
                          (hasGraph ? view::renderText(graph) : "")};
  }
  return Inspection{"", {}, rendered(request.format, std::move(graph))};
}

/// The first lines of a text.
std::string firstLines(const std::string &text, size_t count) {
  size_t end = 0;
  for (size_t i = 0; i < count && end < text.size(); ++i) {
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  }
  return text.substr(0, end);
}

} // namespace

std::string inspectionScreen(const std::string &text, const std::string &path) {
  constexpr size_t most = 40, ofTotals = 4, besides = 6;
  size_t lines = static_cast<size_t>(std::ranges::count(text, '\n'));
  if (lines <= most) {
    return text;
  }
  size_t totals = std::min(text.rfind("\n  total:") + 1, text.size());
  std::string ending = firstLines(text.substr(totals), ofTotals);
  std::string beginning = firstLines(text.substr(0, totals), most - ofTotals - besides);
  return fmt::format(
      "{}    and {} more lines\n{}\n"
      "next  tenon inspect {} --all\n"
      "      tenon inspect {} --format html -o graph.html\n"
      "      tenon {}\n",
      beginning, lines - static_cast<size_t>(std::ranges::count(beginning + ending, '\n')), ending,
      path, path, path.ends_with(".tenon") ? "explain fusion " + path : "check " + path);
}

std::string Inspection::contents() const { return schema.empty() ? text : jsonText(schema, json); }

Result<Inspection> inspectFile(const InspectRequest &request) {
  std::string problem = choiceProblem(request.format, kInspectFormats);
  if (!problem.empty()) {
    return Status::error(ErrorId::BadArgument, "--format: " + problem,
                         "tenon inspect --help shows the usage");
  }
  TENON_TRY(checkOutput(request.output, request.path,
                        request.profile.empty() ? std::vector<std::string>()
                                                : std::vector{request.profile}));
  TENON_ASSIGN(bool model, isModel(request.path, Takes::OnnxOrEngine));
  if (model && !(request.profile.empty() && request.level.empty())) {
    return Status::error(
        ErrorId::BadArgument,
        fmt::format("{} is a model, which has no variants and no times", request.path),
        "compile it and inspect the engine");
  }
  TENON_ASSIGN(Inspection shown, model ? inspectModel(request) : inspectEngine(request));
  if (!request.output.empty()) {
    TENON_TRY(writeTextFile(request.output, shown.contents()));
  }
  return shown;
}

} // namespace tenon::tool
