// Relies on tools/debug for running both sides.

#include "tools/tenon/accuracy/CompareModels.h"

#include "runtime/core/Engine.h"
#include "runtime/tensors/Npy.h"
#include "runtime/tensors/ShapeText.h"
#include "support/Shape.h"
#include "support/text/Text.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

namespace tenon::tool {
namespace {

using debug::LayerError;
using debug::LayerReport;
using debug::Side;

constexpr std::string_view kCompiledSide = "compiled:";

/// An engine, MODEL for the reference, or compiled:MODEL.
Result<Side> parseSide(const std::string &text) {
  bool isCompiled = text.starts_with(kCompiledSide);
  std::string path = isCompiled ? text.substr(kCompiledSide.size()) : text;
  TENON_ASSIGN(bool model, isModel(path, isCompiled ? Takes::Model : Takes::OnnxOrEngine));
  return Side{!model       ? Side::Kind::Engine
              : isCompiled ? Side::Kind::Compiled
                           : Side::Kind::Reference,
              path};
}

/// Of an engine if there is one, which knows its inputs; else models make their own.
Status takeInputs(const InputFlags &flags, debug::CompareRequest &request) {
  for (const Side *side : {&request.a, &request.b}) {
    if (side->kind == Side::Kind::Engine) {
      TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine,
                   runtime::Engine::open(side->path, {}));
      TENON_ASSIGN(request.base.inputs, makeInputs(flags, *engine));
      return Status::ok();
    }
  }
  for (const std::string &path : inputPaths(flags)) {
    TENON_ASSIGN(
        std::vector<Tensor> arrays,
        readNpz(path, [](const std::string &, const NpyHeader &) { return Status::ok(); }));
    std::move(arrays.begin(), arrays.end(), std::back_inserter(request.base.inputs));
  }
  return Status::ok();
}

bool isBeyond(const LayerError &layer) { return layer.beyond > 0 || !layer.mismatch.empty(); }

Json describeLayer(const LayerError &layer) {
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

} // namespace

const LayerError *firstBeyond(const LayerReport &report) {
  for (const LayerError &layer : report.layers) {
    if (isBeyond(layer)) {
      return &layer;
    }
  }
  return nullptr;
}

Json describeLayers(const LayerReport &report) {
  const LayerError *first = firstBeyond(report);
  Json layers = Json::array();
  for (const LayerError &layer : report.layers) {
    layers.push_back(describeLayer(layer));
  }
  return {{"layers", layers},
          {"first_beyond", first ? describeLayer(*first) : Json()},
          {"only_in_a", report.onlyInA},
          {"only_in_b", report.onlyInB},
          {"taps_change_outputs", report.tapsChangeOutputs}};
}

std::string layersText(const LayerReport &report) {
  const LayerError *first = firstBeyond(report);
  size_t width = 4;
  for (const LayerError &layer : report.layers) {
    width = std::max(width, labelOf(layer).size());
  }
  std::string text = fmt::format("{:<{}}  {:<5} {:<16}  {:>9}  {:>9}  {:>9}\n", "name", width,
                                 "type", "dims", "max abs", "max rel", "max ulp");
  for (const LayerError &layer : report.layers) {
    text += lineOf(layer, width);
  }
  text += first ? fmt::format("first beyond the tolerance: {}{}, {} elements\n", labelOf(*first),
                              first->node.empty() ? "" : " of " + view::visible(first->node),
                              first->beyond)
                : fmt::format("all {} tensors are within the tolerance\n", report.layers.size());
  if (report.tapsChangeOutputs) {
    text += "the outputs are not bitwise those without inner values: fusion rounds elsewhere\n";
  }
  return text;
}

Result<LayerReport> compareModels(const CompareModelsRequest &request, TaskListener &listener) {
  debug::CompareRequest sides;
  sides.wantsLayers = request.wantsLayers;
  sides.relative = request.relative;
  sides.absolute = request.absolute;
  sides.base.compile.threads = request.threads != 0 ? request.threads : usableCpus();
  TENON_ASSIGN(sides.a, parseSide(request.a));
  TENON_ASSIGN(sides.b, parseSide(request.b));
  TENON_ASSIGN(sides.base.compile.shapes, parseShapeArguments(request.inputs.shapes));
  TENON_TRY(applyTarget(request.target, sides.base.compile, listener.notice()));
  TENON_TRY(applyKernels(request.kernels, sides.base.compile));
  TENON_TRY(takeInputs(request.inputs, sides));
  sides.base.seed = request.inputs.seed;
  for (const std::string &text : request.map) {
    size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return Status::error(ErrorId::BadArgument,
                           strCat("--map must be NAME_IN_A=NAME_IN_B, not '", text, "'"),
                           "'tenon inspect' lists the outputs");
    }
    sides.map.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return debug::compareLayers(sides);
}

} // namespace tenon::tool
