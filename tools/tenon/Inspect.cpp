// `tenon inspect`: what a model asks for or what an engine holds, as text, JSON or a dot graph. A model
// that Tenon cannot compile is shown as its file declares it.

#include "tools/tenon/CompilerBridge.h"
#include "tools/tenon/EngineFacts.h"
#include "tools/tenon/FileKind.h"
#include "tools/tenon/Options.h"
#include "tools/tenon/Terminal.h"
#include "tools/tenon/Verb.h"

#include <fmt/format.h>

#include <memory>

namespace tenon::tool {
namespace {

struct InspectFlags {
  std::string path;
  std::string format = "text";
  std::vector<std::string> shapes;
};

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

Json describeModel(const std::string &path, const ModelFacts &facts) {
  Json symbols = Json::array();
  for (const ModelSymbol &symbol : facts.symbols) {
    symbols.push_back({{"name", symbol.name}, {"min", symbol.min}, {"max", symbol.max}});
  }
  Json nodes = Json::array();
  for (const ModelNode &node : facts.nodes) {
    nodes.push_back(
        {{"op", node.op}, {"name", node.name}, {"type", node.type}, {"reads", node.producers}});
  }
  Json opsets = Json::object();
  for (const ModelOpset &opset : facts.opsets) {
    opsets[opset.domain.empty() ? "ai.onnx" : opset.domain] = opset.version;
  }
  return {{"model", path},
          {"supported", facts.gaps.empty()},
          {"opsets", opsets},
          {"inputs", describePorts(facts.inputs)},
          {"outputs", describePorts(facts.outputs)},
          {"symbols", symbols},
          {"weights", facts.weightCount},
          {"weights_bytes", facts.weightBytes},
          {"operations", facts.opCounts},
          {"missing", describeGaps(facts.gaps)},
          {"nodes", nodes}};
}

std::string modelText(const std::string &path, const ModelFacts &facts) {
  std::string text = fmt::format("{}\n", path);
  for (const ModelOpset &opset : facts.opsets) {
    text += fmt::format("  opset   {}\n", opsetText(opset));
  }
  for (const ModelValue &input : facts.inputs) {
    text += fmt::format("  input   {}  {}\n", input.name, input.type);
  }
  for (const ModelValue &output : facts.outputs) {
    text += fmt::format("  output  {}  {}\n", output.name, output.type);
  }
  for (const ModelSymbol &symbol : facts.symbols) {
    text += fmt::format("  symbol  {} from {} to {}\n", symbol.name, symbol.min, symbol.max);
  }
  text += fmt::format("  weights {} in {}\n", facts.weightCount, formatBytes(facts.weightBytes));
  text += fmt::format("  {} operations:", facts.nodes.size());
  for (const auto &[op, count] : facts.opCounts) {
    text += fmt::format(" {} {},", count, op);
  }
  text.back() = '\n';
  for (const ModelNode &node : facts.nodes) {
    text += fmt::format("    {:<14} {}  {}\n", node.op, node.type, node.name);
  }
  if (!facts.gaps.empty()) {
    text += fmt::format("  {} gaps; tenon check names ways round them:\n", facts.gaps.size());
  }
  for (const ModelGap &gap : facts.gaps) {
    text += fmt::format("    {:<14} {}: {}\n", gap.op, gap.node, gap.why);
  }
  return text;
}

std::string modelDot(const ModelFacts &facts) {
  std::string text = "digraph model {\n  rankdir=TB; node [shape=box];\n";
  for (size_t i = 0; i < facts.inputs.size(); ++i) {
    text += fmt::format("  i{} [label={}, shape=ellipse];\n", i, dumpJson(facts.inputs[i].name));
  }
  for (size_t i = 0; i < facts.nodes.size(); ++i) {
    const ModelNode &node = facts.nodes[i];
    text += fmt::format("  n{} [label={}];\n", i,
                        dumpJson(fmt::format("{}\n{}\n{}", node.op, node.name, node.type)));
    for (int64_t producer : node.producers) {
      text += producer < 0 ? fmt::format("  i{} -> n{};\n", -1 - producer, i)
                           : fmt::format("  n{} -> n{};\n", producer, i);
    }
  }
  return text + "}\n";
}

Status inspectModel(const InspectFlags &flags, Terminal &terminal) {
  TENON_ASSIGN(std::vector<ShapeArgument> shapes, parseShapeArguments(flags.shapes));
  TENON_ASSIGN(ModelFacts facts, importModel(flags.path, shapes));
  if (flags.format == "json") {
    terminal.printJson("inspect-model", describeModel(flags.path, facts));
  } else {
    terminal.print(flags.format == "dot" ? modelDot(facts) : modelText(flags.path, facts));
  }
  return Status::ok();
}

Status inspectEngine(const InspectFlags &flags, Terminal &terminal) {
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(flags.path));
  if (flags.format == "json") {
    terminal.printJson("inspect-engine", describeEngine(flags.path, *file));
  } else {
    terminal.print(flags.format == "dot" ? engineDot(*file) : engineText(flags.path, *file));
  }
  return Status::ok();
}

Status inspect(InspectFlags &flags, Terminal &terminal) {
  if (terminal.json()) {
    flags.format = "json";
  }
  TENON_ASSIGN(bool model, isModel(flags.path, Takes::OnnxOrEngine));
  return model ? inspectModel(flags, terminal) : inspectEngine(flags, terminal);
}

} // namespace

Action declareInspect(CLI::App &command) {
  std::shared_ptr<InspectFlags> flags = std::make_shared<InspectFlags>();
  command.add_option("FILE", flags->path, "A model (ONNX) or an engine")->required();
  addChoice(command, "--format", flags->format, {"text", "json", "dot"}, "How it is shown");
  command.add_option("--shape", flags->shapes, "Dimensions of a model's input, as for compile")
      ->allow_extra_args(false);
  return [flags](Terminal &terminal) { return inspect(*flags, terminal); };
}

} // namespace tenon::tool
