// `tenon run`: one run of an engine or a model on files or seeded inputs; writes the outputs or
// shows what they look like.

#include "runtime/tensors/Npy.h"
#include "support/Shape.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/bench/Runner.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/inputs/Inputs.h"
#include "tools/view/Escape.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

namespace tenon::tool {
namespace {

constexpr size_t kTopValues = 5;

struct RunFlags {
  OpenRequest open;
  InputFlags inputs;
  std::string output;
  runtime::SessionOptions session;
  bool noCache = false;
};

struct TensorSummary {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  int64_t notFinite = 0;
  /// Positions along the last dim of the largest values in the first row.
  std::vector<int64_t> top;
};

TensorSummary summarize(const Tensor &tensor) {
  TensorSummary summary;
  int64_t count = tensor.elements();
  for (int64_t i = 0; i < count; ++i) {
    double value = elementAsDouble(tensor, i);
    if (std::isfinite(value)) {
      summary.low = std::min(summary.low, value);
      summary.high = std::max(summary.high, value);
    } else {
      ++summary.notFinite;
    }
  }
  int64_t row = tensor.dims.empty() ? count : std::min(count, tensor.dims.back());
  std::vector<int64_t> order(static_cast<size_t>(row));
  std::iota(order.begin(), order.end(), 0);
  size_t shown = std::min(kTopValues, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](int64_t a, int64_t b) {
                      double left = elementAsDouble(tensor, a);
                      double right = elementAsDouble(tensor, b);
                      return left > right || (left == right && a < b);
                    });
  order.resize(shown);
  summary.top = std::move(order);
  return summary;
}

/// Names of the classes that the model carries, when they fit the last dim.
std::vector<std::string> classNames(const runtime::Engine &engine, const Tensor &tensor) {
  std::vector<std::string> names;
  Json list = parseJson(metadataOf(engine.file())["classes"]);
  bool fits = list.is_array() && !tensor.dims.empty() &&
              static_cast<int64_t>(list.size()) == tensor.dims.back();
  for (size_t i = 0; fits && i < list.size(); ++i) {
    names.push_back(list[i].is_string() ? list[i].get<std::string>() : "");
  }
  return names;
}

Json describeTensor(const Tensor &tensor) {
  return {{"name", tensor.name}, {"dtype", nameOf(tensor.dtype)}, {"dims", tensor.dims}};
}

Json describeOutput(const Tensor &tensor, const std::vector<std::string> &classes) {
  Json json = describeTensor(tensor);
  if (!isNumeric(tensor.dtype) || tensor.elements() == 0) {
    return json;
  }
  TensorSummary summary = summarize(tensor);
  json["min"] = summary.low;
  json["max"] = summary.high;
  json["not_finite"] = summary.notFinite;
  json["top"] = Json::array();
  for (int64_t index : summary.top) {
    Json row = {{"index", index}, {"value", elementAsDouble(tensor, index)}};
    if (!classes.empty()) {
      row["class"] = classes[static_cast<size_t>(index)];
    }
    json["top"].push_back(row);
  }
  return json;
}

std::string outputText(const Json &output) {
  std::vector<int64_t> dims = output["dims"];
  std::string text = fmt::format("{}  {} {}", view::visible(output["name"].get<std::string>()),
                                 output["dtype"].get<std::string>(), formatDims(dims));
  if (!output.contains("min")) {
    return text + "\n";
  }
  text +=
      fmt::format("  range {:g} .. {:g}", output["min"].get<double>(), output["max"].get<double>());
  if (output["not_finite"] != 0) {
    text += fmt::format("  {} not finite", output["not_finite"].get<int64_t>());
  }
  text += "\n  top:";
  for (const Json &row : output["top"]) {
    text += fmt::format(" {}{} {:.5g};", row["index"].get<int64_t>(),
                        row.contains("class")
                            ? fmt::format(" ({})", view::visible(row["class"].get<std::string>()))
                            : "",
                        row["value"].get<double>());
  }
  text.back() = '\n';
  return text;
}

/// Whether so many outputs can be written under this name, the only one by which a format is
/// chosen.
Status checkFormat(const std::string &path, size_t outputs) {
  if (path.empty() || path.ends_with(".npz") || (path.ends_with(".npy") && outputs == 1)) {
    return Status::ok();
  }
  return Status::error(
      ErrorId::BadArgument,
      fmt::format("-o {}: outputs are written as npz, or as npy if there is only one", path),
      "choose a name that ends in .npz");
}

Status writeOutputs(const std::string &path, const std::vector<Tensor> &outputs) {
  return path.ends_with(".npz") ? writeNpz(path, outputs) : writeNpy(path, outputs[0]);
}

void report(const RunFlags &flags, Runner &runner, Terminal &terminal) {
  const runtime::Engine &engine = runner.session().engine();
  Json inputs = Json::array();
  for (const Tensor &input : runner.inputs()) {
    inputs.push_back(describeTensor(input));
    if (flags.inputs.files.empty() && !terminal.json()) {
      terminal.note(fmt::format("seeded input {}  {} {}", view::visible(input.name),
                                nameOf(input.dtype), formatDims(input.dims)));
    }
  }
  Json outputs = Json::array();
  for (const Tensor &output : runner.outputs()) {
    outputs.push_back(describeOutput(output, classNames(engine, output)));
  }
  if (terminal.json()) {
    terminal.printJson("run", {{"isa", engine.variant().level},
                               {"seeded", flags.inputs.files.empty()},
                               {"inputs", inputs},
                               {"outputs", outputs},
                               {"written", flags.output}});
  } else if (!flags.output.empty()) {
    terminal.note(fmt::format("wrote {}", flags.output));
  } else {
    for (const Json &output : outputs) {
      terminal.print(outputText(output));
    }
  }
}

Status run(RunFlags &flags, Terminal &terminal) {
  flags.open.useCache = !flags.noCache;
  flags.open.shapes = flags.inputs.shapes;
  TENON_TRY(checkOutput(flags.output, flags.open.path, inputPaths(flags.inputs)));
  TENON_TRY(checkFormat(flags.output, 1));
  TENON_ASSIGN(EngineSource source, EngineSource::prepare(flags.open, terminal));
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine, source.open());
  TENON_TRY(checkFormat(flags.output, engine->plan().outputs.size()));
  TENON_ASSIGN(std::vector<Tensor> inputs, makeInputs(flags.inputs, *engine));
  TENON_ASSIGN(flags.session.symbols, sessionSymbols(flags.inputs));
  TENON_ASSIGN(Runner runner, Runner::create(engine, std::move(inputs), flags.session));
  TENON_TRY(runner.run());
  if (!flags.output.empty()) {
    TENON_TRY(writeOutputs(flags.output, runner.outputs()));
  }
  report(flags, runner, terminal);
  return Status::ok();
}

} // namespace

Action declareRun(CLI::App &command) {
  std::shared_ptr<RunFlags> flags = std::make_shared<RunFlags>();
  command
      .add_option("MODEL", flags->open.path,
                  "An engine, or a model (ONNX, .pt2, .tflite) to compile first")
      ->required();
  addOutput(command, flags->output, "Write the outputs: out.npz, or out.npy for one");
  declareFileFlags(command, flags->inputs);
  declareSeededFlags(command, flags->inputs);
  declareSessionFlag(command, flags->inputs);
  declareThreadsFlag(command, flags->session.threads, "Threads; all usable CPUs by default");
  declareOpenFlags(command, flags->open);
  declareBudgetFlag(command, flags->session.measureSeconds);
  declareTargetFlags(command, flags->open.target);
  command.add_flag("--no-cache", flags->noCache, "Do not use the compile cache");
  return [flags](Terminal &terminal) { return run(*flags, terminal); };
}

} // namespace tenon::tool
