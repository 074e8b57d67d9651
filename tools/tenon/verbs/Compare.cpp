// `tenon compare A B`: how far two ways to compute a model are apart, output by output or layer by
// layer.

#include "runtime/tensors/Npy.h"
#include "support/Shape.h"
#include "support/text/NearestName.h"
#include "support/text/Text.h"
#include "support/threads/ThreadPool.h"
#include "tools/debug/Layers.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/inputs/Inputs.h"
#include "tools/tenon/target/TargetFlags.h"
#include "tools/view/Escape.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

namespace tenon::tool {
namespace {

using debug::LayerError;
using debug::LayerReport;
using debug::Side;

constexpr Range<double> kTolerances = {0, 1e9};
constexpr std::string_view kCompiled = "compiled:";

struct CompareFlags {
  std::string a, b;
  debug::CompareRequest request;
  InputFlags inputs;
  TargetFlags target;
  std::vector<double> relative, absolute; ///< one or none
  std::vector<std::string> map;
};

/// An engine, MODEL for the reference, or compiled:MODEL.
Result<Side> parseSide(const std::string &text) {
  bool isCompiled = text.starts_with(kCompiled);
  std::string path = isCompiled ? text.substr(kCompiled.size()) : text;
  TENON_ASSIGN(bool model, isModel(path, isCompiled ? Takes::Model : Takes::OnnxOrEngine));
  return Side{!model       ? Side::Kind::Engine
              : isCompiled ? Side::Kind::Compiled
                           : Side::Kind::Reference,
              path};
}

/// Of an engine if there is one, which knows its inputs; else models make their own.
Status takeInputs(CompareFlags &flags) {
  for (const Side *side : {&flags.request.a, &flags.request.b}) {
    if (side->kind == Side::Kind::Engine) {
      TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine,
                   runtime::Engine::open(side->path, {}));
      TENON_ASSIGN(flags.request.base.inputs, makeInputs(flags.inputs, *engine));
      return Status::ok();
    }
  }
  for (const std::string &path : inputPaths(flags.inputs)) {
    TENON_ASSIGN(
        std::vector<Tensor> arrays,
        readNpz(path, [](const std::string &, const NpyHeader &) { return Status::ok(); }));
    std::move(arrays.begin(), arrays.end(), std::back_inserter(flags.request.base.inputs));
  }
  return Status::ok();
}

bool isBeyond(const LayerError &layer) { return layer.beyond > 0 || !layer.mismatch.empty(); }

const LayerError *firstBeyond(const LayerReport &report) {
  for (const LayerError &layer : report.layers) {
    if (isBeyond(layer)) {
      return &layer;
    }
  }
  return nullptr;
}

Json describe(const LayerError &layer) {
  return {{"name", layer.name},
          {"name_in_a", layer.nameInA.empty() ? layer.name : layer.nameInA},
          {"node", layer.node},
          {"dtype", layer.dtype},
          {"dims", layer.dims},
          {"max_abs", layer.absolute},
          {"max_rel", layer.relative},
          {"max_ulp", layer.ulps},
          {"largest", layer.largest},
          {"beyond", layer.beyond},
          {"mismatch", layer.mismatch}};
}

/// Both names where they differ.
std::string labelOf(const LayerError &layer) {
  return view::visible(layer.nameInA.empty() ? layer.name
                                             : fmt::format("{} ({})", layer.name, layer.nameInA));
}

std::string lineOf(const LayerError &layer, size_t width) {
  std::string text = fmt::format("{:<{}}  {:<5} {:<16}", labelOf(layer), width, layer.dtype,
                                 formatDims(layer.dims));
  text += !layer.mismatch.empty() ? "  " + layer.mismatch
                                  : fmt::format("  {:>9.3g}  {:>9.3g}  {:>9.3g}", layer.absolute,
                                                layer.relative, layer.ulps);
  return text + (isBeyond(layer) ? "  beyond\n" : "\n");
}

void report(const CompareFlags &flags, const LayerReport &result, Terminal &terminal) {
  const LayerError *first = firstBeyond(result);
  if (first) {
    terminal.fail();
  }
  if (terminal.json()) {
    Json layers = Json::array();
    for (const LayerError &layer : result.layers) {
      layers.push_back(describe(layer));
    }
    terminal.printJson("compare", {{"layers", layers},
                                   {"first_beyond", first ? describe(*first) : Json()},
                                   {"only_in_a", result.onlyInA},
                                   {"only_in_b", result.onlyInB},
                                   {"taps_change_outputs", result.tapsChangeOutputs}});
    return;
  }
  size_t width = 4;
  for (const LayerError &layer : result.layers) {
    width = std::max(width, labelOf(layer).size());
  }
  std::string text = fmt::format("{:<{}}  {:<5} {:<16}  {:>9}  {:>9}  {:>9}\n", "name", width,
                                 "type", "dims", "max abs", "max rel", "max ulp");
  for (const LayerError &layer : result.layers) {
    text += lineOf(layer, width);
  }
  text += first ? fmt::format("first beyond the tolerance: {}{}, {} elements\n", labelOf(*first),
                              first->node.empty() ? "" : " of " + view::visible(first->node),
                              first->beyond)
                : fmt::format("all {} tensors are within the tolerance\n", result.layers.size());
  if (result.tapsChangeOutputs) {
    text += "the outputs are not bit for bit those without inner values: fusion rounds elsewhere\n";
  }
  terminal.print(text);
  if (!result.onlyInA.empty() || !result.onlyInB.empty()) {
    std::vector<std::string> names = result.onlyInA;
    names.insert(names.end(), result.onlyInB.begin(), result.onlyInB.end());
    terminal.note(
        flags.request.wantsLayers
            ? fmt::format("only one of both has {} more; compile engines with --tap all",
                          names.size())
            : fmt::format(
                  "not compared, since only one of both has them: {}; match them with --map",
                  fmt::join(names, ", ")));
  }
}

Status compare(CompareFlags &flags, Terminal &terminal) {
  debug::CompareRequest &request = flags.request;
  TENON_ASSIGN(request.a, parseSide(flags.a));
  TENON_ASSIGN(request.b, parseSide(flags.b));
  TENON_ASSIGN(request.base.compile.shapes, parseShapeArguments(flags.inputs.shapes));
  TENON_TRY(applyTarget(flags.target, request.base.compile, terminal.notice()));
  TENON_TRY(takeInputs(flags));
  request.base.seed = flags.inputs.seed;
  for (const std::string &text : flags.map) {
    size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return Status::error(ErrorId::BadArgument,
                           strCat("--map takes NAME_IN_A=NAME_IN_B, not '", text, "'"),
                           "'tenon inspect' lists the outputs");
    }
    request.map.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  if (!flags.relative.empty()) {
    request.relative = flags.relative.front();
  }
  if (!flags.absolute.empty()) {
    request.absolute = flags.absolute.front();
  }
  TENON_ASSIGN(LayerReport result, debug::compareLayers(request));
  report(flags, result, terminal);
  return Status::ok();
}

} // namespace

Action declareCompare(CLI::App &command) {
  std::shared_ptr<CompareFlags> flags = std::make_shared<CompareFlags>();
  flags->request.base.compile.threads = usableCpus();
  command
      .add_option("A", flags->a,
                  "An engine, a model (ONNX, .pt2) to be interpreted, or compiled:MODEL")
      ->required();
  command.add_option("B", flags->b, "The same, as the reference for A")->required();
  command.add_flag(
      "--layers", flags->request.wantsLayers,
      "Also compare inner values: all those of models, of engines those that compile --tap added");
  addNumbers(command, "--rtol", kTolerances, flags->relative,
             "Relative tolerance; by default that of the element type");
  addNumbers(command, "--atol", kTolerances, flags->absolute,
             "Absolute tolerance; by default that of the element type");
  command.add_option("--map", flags->map,
                     "NAME_IN_A=NAME_IN_B: the same value under two names; repeat for more");
  declareFileFlags(command, flags->inputs);
  declareSeededFlags(command, flags->inputs);
  declareTargetFlags(command, flags->target);
  declareThreadsFlag(command, flags->request.base.compile.threads,
                     "Threads; all usable CPUs by default");
  return [flags](Terminal &terminal) { return compare(*flags, terminal); };
}

} // namespace tenon::tool
