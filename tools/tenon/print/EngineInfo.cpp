// Implements the three forms of an engine's contents.

#include "tools/tenon/print/EngineInfo.h"

#include "tools/tenon/print/JsonFields.h"
#include "tools/tenon/print/RowsText.h"
#include "tools/tenon/print/SizeNeeds.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace tenon::tool {
namespace {

using engine::Instruction;
using engine::Plan;
using engine::Port;
using engine::Variant;
using view::visible;

std::vector<std::string> symbolNames(const Plan &plan) {
  std::vector<std::string> names;
  for (const engine::Symbol &symbol : plan.symbols) {
    names.push_back(symbol.name);
  }
  return names;
}

std::string portType(const Plan &plan, const Port &port) {
  std::vector<std::string> names = symbolNames(plan);
  std::vector<std::string> dims;
  for (engine::ExprId dim : port.dims) {
    dims.push_back(plan.exprs.format(dim, names));
  }
  return fmt::format("{} [{}]", nameOf(port.dtype), fmt::join(dims, ", "));
}

Json describePorts(const Plan &plan, const std::vector<Port> &ports) {
  Json list = Json::array();
  for (const Port &port : ports) {
    list.push_back({{"name", port.name}, {"type", portType(plan, port)}});
  }
  return list;
}

/// The inputs' types of a variant that knows sizes which the first of its level leaves free; empty
/// of that one.
std::string knownSizes(const engine::EngineFile &file, size_t index) {
  std::span<const Variant> variants = file.variants();
  const Variant &variant = variants[index];
  if (&*std::ranges::find(variants, variant.level, &Variant::level) == &variant) {
    return "";
  }
  std::vector<std::string> inputs;
  for (const Port &port : variant.plan.inputs) {
    inputs.push_back(
        fmt::format("{} {}", visible(port.name), visible(portType(variant.plan, port))));
  }
  return fmt::format("{}", fmt::join(inputs, ", "));
}

Json describeVariant(const engine::EngineFile &file, size_t index) {
  const Variant &variant = file.variants()[index];
  const Plan &plan = variant.plan;
  Json instructions = Json::array();
  for (const Instruction &instruction : plan.instructions) {
    instructions.push_back(
        {{"kind", engine::nameOf(instruction.kind)}, {"label", instruction.label}});
  }
  return {{"level", variant.level},
          {"architecture", nameOf(variant.architecture)},
          {"features", engine::featureText(variant.architecture, variant.features)},
          {"code_bytes", file.code(index).size()},
          {"cubin_bytes", file.cubin(index).size()},
          {"cubin_by", file.cubinBy(index)},
          {"sizes", knownSizes(file, index)},
          {"kernels", variant.kernels.size()},
          {"buffers", plan.buffers.size()},
          {"arena_bytes", plan.arenaBytes},
          {"instructions", instructions}};
}

/// The root of a buffer: where a chain of views ends.
uint32_t rootOf(const Plan &plan, uint32_t buffer) {
  while (plan.buffers[buffer].aliasOf != engine::kNone) {
    buffer = plan.buffers[buffer].aliasOf;
  }
  return buffer;
}

/// Empty of an engine without it.
std::string rowsRecordOf(const engine::EngineFile &file) {
  Result<std::string_view> text = file.record("rows");
  return text ? std::string(*text) : "";
}

/// A region that no kernel computes fast, with the record that says so.
struct SlowRegion {
  std::string record, label, kernel, why;
};

std::vector<SlowRegion> slowRegions(const engine::EngineFile &file) {
  std::vector<SlowRegion> slow;
  for (const std::string &name : file.recordNames()) {
    Result<std::string_view> text = file.record(name);
    if (!name.starts_with("fusion") || !text) {
      continue;
    }
    // A record that does not read is `explain`'s to report.
    Json record = parseJson(*text);
    for (const Json &region : listAt(record, "regions")) {
      std::string why = textAt(region, "slow");
      if (!why.empty()) {
        slow.push_back({name, textAt(region, "label"), textAt(region, "kernel"), why});
      }
    }
  }
  return slow;
}

/// Ranks that run the engine together.
uint32_t ranksOf(const engine::EngineFile &file) {
  return file.variants().empty() ? 1 : file.variants()[0].plan.ranks;
}

/// By stage of the first plan: what a rank of it reads; those of all plans where there is one
/// stage.
std::vector<uint64_t> weightBytesOfRanks(const engine::EngineFile &file) {
  if (file.variants().empty() || file.variants()[0].plan.stages == 1) {
    uint64_t bytes = 0;
    for (const engine::Weight &weight : file.weights()) {
      bytes += weight.bytes;
    }
    return {bytes};
  }
  const Plan &plan = file.variants()[0].plan;
  std::vector<uint64_t> all;
  for (uint32_t stage = 0; stage < plan.stages; ++stage) {
    std::vector<bool> isOfStage = engine::buffersOfStage(plan, stage);
    std::set<uint32_t> read;
    for (size_t i = 0; i < plan.buffers.size(); ++i) {
      if (isOfStage[i] && plan.buffers[i].weight != engine::kNone) {
        read.insert(plan.buffers[i].weight);
      }
    }
    uint64_t bytes = 0;
    for (uint32_t weight : read) {
      bytes += file.weights()[weight].bytes;
    }
    all.push_back(bytes);
  }
  return all;
}

/// "2, of which each reads 1.0 MB", or by stage.
std::string ranksText(const engine::EngineFile &file) {
  std::vector<uint64_t> bytes = weightBytesOfRanks(file);
  if (bytes.size() == 1) {
    return fmt::format("{}, of which each reads {} of the weights", ranksOf(file),
                       formatBytes(bytes.front()));
  }
  std::string text =
      fmt::format("{} in {} stages, of which each rank reads", ranksOf(file), bytes.size());
  for (size_t stage = 0; stage < bytes.size(); ++stage) {
    text += fmt::format("{}{}", stage == 0 ? " " : ", ", formatBytes(bytes[stage]));
  }
  return text + " of the weights";
}

} // namespace

Json describeEngine(const std::string &path, const engine::EngineFile &file) {
  Json variants = Json::array();
  for (size_t i = 0; i < file.variants().size(); ++i) {
    variants.push_back(describeVariant(file, i));
  }
  Json result = {{"engine", path},
                 {"engine_bytes", file.fileBytes()},
                 {"compiler", file.provenance().compiler},
                 {"model_hash", file.provenance().model},
                 {"options", file.provenance().options},
                 {"weights", file.weights().size()},
                 {"weights_bytes", file.weightsSection().size()},
                 {"ranks", ranksOf(file)},
                 {"stages", weightBytesOfRanks(file).size()},
                 {"weights_bytes_of_rank", std::ranges::max(weightBytesOfRanks(file))},
                 {"weights_bytes_of_stages", weightBytesOfRanks(file)},
                 {"records", file.recordNames()}};
  if (!file.variants().empty()) {
    const Plan &plan = file.variants()[0].plan;
    result["inputs"] = describePorts(plan, plan.inputs);
    result["outputs"] = describePorts(plan, plan.outputs);
    result["symbols"] = Json::array();
    for (const engine::Symbol &symbol : plan.symbols) {
      Json entry = {{"name", symbol.name}, {"min", symbol.min}, {"max", symbol.max}};
      if (symbol.isDataDependent()) {
        entry["bound"] = plan.exprs.format(symbol.bound, symbolNames(plan));
      }
      if (symbol.isOfSession) {
        entry["of_session"] = true;
        entry["preset"] = symbol.preset;
      }
      result["symbols"].push_back(entry);
    }
    result["constraints"] = needsJson(needsOf(plan));
  }
  addRows(result, rowsRecordOf(file));
  result["variants"] = variants;
  result["slow"] = Json::array();
  for (const SlowRegion &region : slowRegions(file)) {
    result["slow"].push_back({{"record", region.record},
                              {"region", region.label},
                              {"kernel", region.kernel},
                              {"why", region.why}});
  }
  return result;
}

std::string engineText(const std::string &path, const engine::EngineFile &file,
                       std::string_view model) {
  std::string text =
      fmt::format("{}  {}\n  made by {} from model {}\n  options {}\n", visible(path),
                  formatBytes(file.fileBytes()), file.provenance().compiler,
                  file.provenance().model, visible(file.provenance().options));
  text += model;
  if (!file.variants().empty()) {
    const Plan &plan = file.variants()[0].plan;
    for (const Port &port : plan.inputs) {
      text += fmt::format("  input   {}  {}\n", visible(port.name), visible(portType(plan, port)));
    }
    for (const Port &port : plan.outputs) {
      text += fmt::format("  output  {}  {}\n", visible(port.name), visible(portType(plan, port)));
    }
    for (const engine::Symbol &symbol : plan.symbols) {
      text +=
          fmt::format("  symbol  {} from {} to {}", visible(symbol.name), symbol.min, symbol.max);
      text += symbol.isOfSession ? fmt::format(" in a session, {} by default\n", symbol.preset)
              : symbol.isDataDependent()
                  ? fmt::format(", decided by data, at most {}\n",
                                visible(plan.exprs.format(symbol.bound, symbolNames(plan))))
                  : "\n";
    }
    for (const SizeNeed &need : needsOf(plan)) {
      text += "  " + needText(need) + "\n";
    }
  }
  text += rowsText(rowsRecordOf(file), "  ");
  text += fmt::format("  weights {} in {}\n", file.weights().size(),
                      formatBytes(file.weightsSection().size()));
  if (ranksOf(file) > 1) {
    text += fmt::format("  ranks   {}\n", ranksText(file));
  }
  for (size_t i = 0; i < file.variants().size(); ++i) {
    const Variant &variant = file.variants()[i];
    std::string arena = variant.plan.arenaBytes > 0
                            ? formatBytes(static_cast<uint64_t>(variant.plan.arenaBytes))
                            : std::string("laid out when the shapes are known");
    text += fmt::format("  variant {:<18} {} instructions, {} kernels in {}, arena {}\n",
                        variant.level, variant.plan.instructions.size(), variant.kernels.size(),
                        formatBytes(file.code(i).size()), arena);
    if (std::string sizes = knownSizes(file, i); !sizes.empty()) {
      text += fmt::format("          {:<18} where sizes are {}\n", "", sizes);
      continue;
    }
    text += fmt::format("          {:<18} for {} with {}\n", "", nameOf(variant.architecture),
                        engine::featureText(variant.architecture, variant.features));
    if (!file.cubin(i).empty()) {
      text += fmt::format("          {:<18} machine code of {} by {}\n", "",
                          formatBytes(file.cubin(i).size()), file.cubinBy(i));
    }
  }
  for (const SlowRegion &region : slowRegions(file)) {
    text += fmt::format("  slow    {}  {}: {}\n", visible(region.label), visible(region.kernel),
                        visible(region.why));
  }
  text += fmt::format("  records {}\n", fmt::join(file.recordNames(), ", "));
  return text;
}

std::string engineDot(const engine::EngineFile &file) {
  std::string text = "digraph engine {\n  rankdir=TB; node [shape=box];\n";
  if (file.variants().empty()) {
    return text + "}\n";
  }
  const Plan &plan = file.variants().back().plan;
  std::map<uint32_t, std::string> writers;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    std::string name = fmt::format("in{}", i);
    text += fmt::format("  {} [label={}, shape=ellipse];\n", name,
                        dumpJson(visible(plan.inputs[i].name)));
    writers[plan.inputs[i].buffer] = name;
  }
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction &instruction = plan.instructions[i];
    std::string name = fmt::format("n{}", i);
    std::string label =
        instruction.label.empty() ? engine::nameOf(instruction.kind) : instruction.label;
    text += fmt::format("  {} [label={}];\n", name, dumpJson(visible(label)));
    for (size_t j = 0; j < instruction.buffers.size(); ++j) {
      uint32_t root = rootOf(plan, instruction.buffers[j]);
      std::map<uint32_t, std::string>::iterator writer = writers.find(root);
      if (j < instruction.reads && writer != writers.end()) {
        text += fmt::format("  {} -> {};\n", writer->second, name);
      }
      if (j >= instruction.reads) {
        writers[root] = name;
      }
    }
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    text += fmt::format("  out{} [label={}, shape=ellipse];\n", i,
                        dumpJson(visible(plan.outputs[i].name)));
    std::map<uint32_t, std::string>::iterator writer = writers.find(plan.outputs[i].buffer);
    if (writer != writers.end()) {
      text += fmt::format("  {} -> out{};\n", writer->second, i);
    }
  }
  return text + "}\n";
}

} // namespace tenon::tool
