// Joins steps, regions and nodes: the steps are the plan's, the regions and nodes those of the
// engine's records, which are data and may not fit together.

#include "tools/tenon/profile/GpuModel.h"
#include "tools/tenon/profile/KernelWork.h"
#include "tools/tenon/profile/Profile.h"

#include "support/DType.h"
#include "tools/tenon/print/JsonFields.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace tenon::tool {
namespace {

Status unfit() {
  return Status::error(ErrorId::EngineBadRecord,
                       "records of the engine have another version or are damaged",
                       "compile the model again with this version of Tenon");
}

Result<Json> readRecord(const engine::EngineFile &file, const std::string &name) {
  TENON_ASSIGN(std::string_view text, file.record(name));
  Json json = parseJson(text);
  return json.is_object() ? Result<Json>(std::move(json)) : Result<Json>(unfit());
}

/// The records of the variant at the sizes of the run.
struct Records {
  view::Graph graph;
  Json fusion, placement;
  view::Sizes sizes;
};

Result<Records> readRecords(const engine::EngineFile &file, const Profile &profile) {
  view::InputDims dims(profile.inputs.begin(), profile.inputs.end());
  Records records;
  TENON_ASSIGN(records.graph, view::engineGraph(file, profile.level, dims));
  TENON_ASSIGN(std::string suffix, view::recordSuffix(file, profile.level));
  TENON_ASSIGN(records.fusion, view::fusionOf(file, profile.level, dims));
  TENON_ASSIGN(records.placement, readRecord(file, "placement" + suffix));
  records.sizes = view::sizesOf(records.graph, dims);
  return records;
}

double microsecondsAt(const Json &cost) { return cost.value("us", 0.0); }

std::vector<RegionFigures> regionsOf(const Records &records) {
  std::vector<RegionFigures> regions;
  const Json &rows = records.fusion.at("regions");
  for (size_t i = 0; i < records.graph.regions.size(); ++i) {
    const view::Region &known = records.graph.regions[i];
    const Json &row = rows.at(i);
    RegionFigures region;
    region.label = known.label;
    region.kernel = known.kernel;
    region.strategy = known.strategy;
    region.slow = textAt(row, "slow");
    region.computes = textAt(row, "computes");
    region.candidates = listAt(row, "candidates");
    region.apart = known.apart;
    region.converts = row.value("converts", false);
    region.predictedSeconds = microsecondsAt(row.at("cost")) * 1e-6;
    readParts(region.candidates, region);
    regions.push_back(std::move(region));
  }
  return regions;
}

/// The rows of the record "placement" by the plan's instructions; null for copies, which are of no
/// region. The record is of the general plan. One for known sizes has the same regions in the same
/// order, but perhaps other numbers of steps for them, and several regions may have one label, that
/// of the model's node: the rows of a label are spread evenly over the steps of that label, which
/// for the general plan gives each step its own row.
std::vector<const Json *> rowsOf(const engine::Plan &plan, const Json &placement) {
  std::map<std::string, std::vector<const Json *>> rows;
  for (const Json &row : placement.at("instructions")) {
    if (row.contains("region")) {
      rows[row.at("label").get<std::string>()].push_back(&row);
    }
  }
  std::map<std::string, std::vector<size_t>> steps;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    if (plan.instructions[i].kind != engine::InstructionKind::Copy) {
      steps[plan.instructions[i].label].push_back(i);
    }
  }
  std::vector<const Json *> found(plan.instructions.size(), nullptr);
  for (const auto &[label, own] : steps) {
    const std::vector<const Json *> &known = rows[label];
    for (size_t i = 0; i < own.size() && !known.empty(); ++i) {
      found[own[i]] = known[i * known.size() / own.size()];
    }
  }
  return found;
}

TensorFigures tensorOf(const Records &records, int64_t index) {
  const view::Value &value = records.graph.values.at(static_cast<size_t>(index));
  TensorFigures tensor = {value.name, value.dtype, {}};
  if (value.node >= 0) {
    tensor.name = records.graph.nodes.at(static_cast<size_t>(value.node)).name;
  }
  for (const std::string &dim : value.shape.value_or(std::vector<std::string>())) {
    tensor.dims.push_back(view::evaluate(dim, records.sizes).value_or(-1));
  }
  return tensor;
}

/// What goes from region to region.
void addTensors(const Records &records, Profile &profile) {
  const view::Graph &graph = records.graph;
  std::set<int64_t> leaving;
  std::set<std::pair<int64_t, int64_t>> read;
  for (const view::Port &output : graph.outputs) {
    leaving.insert(output.value);
  }
  for (const view::Node &node : graph.nodes) {
    for (int64_t input : node.inputs) {
      int64_t producer = input < 0 ? -1 : graph.values.at(static_cast<size_t>(input)).node;
      bool isOther =
          producer < 0 || graph.nodes.at(static_cast<size_t>(producer)).region != node.region;
      if (input >= 0 && node.region >= 0 && isOther && read.emplace(node.region, input).second) {
        profile.regions.at(static_cast<size_t>(node.region))
            .reads.push_back(tensorOf(records, input));
        leaving.insert(input);
      }
    }
  }
  for (const view::Node &node : graph.nodes) {
    for (int64_t output : node.outputs) {
      if (node.region >= 0 && leaving.contains(output)) {
        profile.regions.at(static_cast<size_t>(node.region))
            .writes.push_back(tensorOf(records, output));
      }
    }
  }
  for (const std::vector<view::Port> *ports : {&graph.inputs, &graph.outputs}) {
    for (const view::Port &port : *ports) {
      profile.ports.push_back(port.name);
    }
  }
}

double bytesOf(const TensorFigures &tensor) {
  std::optional<DType> dtype = parseDType(tensor.dtype);
  double bytes = dtype ? bitWidth(*dtype) / 8.0 : 0;
  for (int64_t dim : tensor.dims) {
    bytes *= static_cast<double>(std::max<int64_t>(dim, 0));
  }
  return bytes;
}

/// What --tap makes outputs. Of `--tap all`, which engines record as "*", these are the outputs
/// that nodes read: the record does not tell them from outputs of the model, which are seldom read
/// within it.
void addExtraOutputs(const Records &records, Profile &profile) {
  const view::Graph &graph = records.graph;
  Json extraOutputs = listAt(profile.options, "taps");
  auto isNamed = [&](const std::string &name) {
    return std::ranges::find(extraOutputs, Json(name)) != extraOutputs.end();
  };
  std::set<int64_t> read, readElsewhere;
  for (const view::Node &node : graph.nodes) {
    for (int64_t input : node.inputs) {
      int64_t producer = input < 0 ? -1 : graph.values.at(static_cast<size_t>(input)).node;
      bool isElsewhere =
          producer >= 0 && graph.nodes.at(static_cast<size_t>(producer)).region != node.region;
      read.insert(input);
      readElsewhere.insert(isElsewhere ? input : -1);
    }
  }
  for (const view::Port &output : graph.outputs) {
    int64_t producer = graph.values.at(static_cast<size_t>(output.value)).node;
    bool isExtraOutput = isNamed(output.name) || (isNamed("*") && read.contains(output.value));
    if (!isExtraOutput || producer < 0) {
      continue;
    }
    const view::Node &node = graph.nodes.at(static_cast<size_t>(producer));
    profile.extraOutputs.push_back(node.name);
    if (node.region >= 0 && !readElsewhere.contains(output.value)) {
      profile.regions.at(static_cast<size_t>(node.region)).extraOutputBytes +=
          bytesOf(tensorOf(records, output.value));
    }
  }
}

void addOperators(const Records &records, Profile &profile) {
  for (const view::Node &node : records.graph.nodes) {
    if (node.region < 0) {
      continue;
    }
    size_t region = static_cast<size_t>(node.region);
    profile.regions.at(region).operators.push_back(profile.operators.size());
    profile.operators.push_back({.name = node.name.empty() ? node.op : node.name,
                                 .names = node.names,
                                 .kind = node.op,
                                 .from = node.from,
                                 .module = node.module,
                                 .source = node.source,
                                 .region = region,
                                 .flops = static_cast<double>(node.flops.typical.value_or(0)),
                                 .bytes = static_cast<double>(node.bytes.typical.value_or(0))});
  }
}

/// For a region that no node of the graph belongs to, so that its time is somebody's.
void addOwnOperator(size_t index, Profile &profile) {
  RegionFigures &region = profile.regions[index];
  region.operators = {profile.operators.size()};
  profile.operators.push_back({.name = region.label.empty() ? region.kernel : region.label,
                               .names = {},
                               .kind = region.strategy,
                               .from = {},
                               .module = "",
                               .source = "",
                               .region = index,
                               .flops = region.flops,
                               .bytes = region.bytes});
}

/// A step that no record knows is a region of its own: a copy of the plan.
RegionFigures &regionOfStep(const engine::Instruction &instruction, Profile &profile) {
  RegionFigures region;
  region.label = instruction.label;
  region.kernel = engine::nameOf(instruction.kind);
  region.strategy = region.kernel;
  region.isParallel = false;
  profile.regions.push_back(std::move(region));
  return profile.regions.back();
}

void add(std::optional<double> &sum, const std::optional<double> &more, bool isFirst) {
  sum = isFirst ? more : sum && more ? std::optional(*sum + *more) : std::nullopt;
}

void addStep(const StepFigures &step, const Json *row, const view::Sizes &sizes,
             RegionFigures &region) {
  bool isFirst = region.instructions.empty();
  region.instructions.push_back(step.instruction);
  region.seconds += step.seconds;
  region.medianSeconds += step.medianSeconds;
  region.busySeconds += step.busySeconds;
  region.flops += step.flops;
  region.bytes += step.bytes;
  add(region.oneThreadSeconds, step.oneThreadSeconds, isFirst);
  add(region.inARowSeconds, step.inARowSeconds, isFirst);
  if (row) {
    region.weightBytes += static_cast<double>(numberAt(*row, "weights_bytes"));
    std::optional<int64_t> grid = view::evaluate(textAt(*row, "grid"), sizes);
    region.grid = std::max(region.grid, grid.value_or(0));
    region.isParallel = isFirst ? grid.value_or(2) > 1 : region.isParallel || grid.value_or(2) > 1;
  }
}

/// Those of the step that takes longest of its region.
void addCounters(const std::vector<StepCounters> &counters, const StepFigures &step,
                 RegionFigures &region) {
  std::vector<StepCounters>::const_iterator own =
      std::ranges::find(counters, step.instruction, &StepCounters::instruction);
  if (own != counters.end() && step.seconds > region.countedSeconds) {
    region.countedSeconds = step.seconds;
    region.counters = *own;
  }
}

/// A gather or a slice touches what it takes of a table, which the plan counts as a whole.
void limitBytes(const Profile &profile, RegionFigures &region) {
  double ofNodes = 0;
  for (size_t node : region.operators) {
    ofNodes += profile.operators[node].bytes;
  }
  if (ofNodes > 0 && ofNodes < region.bytes) {
    region.weightBytes *= ofNodes / region.bytes;
    region.bytes = ofNodes;
  }
  region.weightBytes = std::min(region.weightBytes, region.bytes);
}

} // namespace

Status joinRecords(const engine::EngineFile &file, const engine::Plan &plan, Profile &profile) {
  try {
    TENON_ASSIGN(Records records, readRecords(file, profile));
    profile.sizes = view::sizesText(records.graph);
    profile.regions = regionsOf(records);
    if (profile.isGpu && profile.options.value("allow_tf32", false)) {
      for (RegionFigures &region : profile.regions) {
        region.computes = region.computes == "f32" ? "tf32" : region.computes;
      }
    }
    addOperators(records, profile);
    addTensors(records, profile);
    addExtraOutputs(records, profile);
    std::vector<const Json *> rows = rowsOf(plan, records.placement);
    for (const StepFigures &step : profile.measured.steps) {
      const Json *row = rows.at(step.instruction);
      RegionFigures &region = row ? profile.regions.at(row->at("region").get<size_t>())
                                  : regionOfStep(plan.instructions[step.instruction], profile);
      addStep(step, row, records.sizes, region);
      addCounters(profile.counters, step, region);
    }
    countKernelWork(records.graph, records.sizes, profile);
  } catch (const Json::exception &) {
    return unfit();
  } catch (const std::out_of_range &) {
    return unfit();
  }
  for (size_t i = 0; i < profile.regions.size(); ++i) {
    if (profile.regions[i].operators.empty() && !profile.regions[i].instructions.empty()) {
      addOwnOperator(i, profile);
    }
    limitBytes(profile, profile.regions[i]);
  }
  return Status::ok();
}

} // namespace tenon::tool
