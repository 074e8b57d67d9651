// The way in order: read; axes, rules and groups; widths by the ratio; the changed model.
#include "compiler/prune/Prune.h"

#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/quant/Prepare.h"
#include "support/files/MappedFile.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon::prune {
namespace {

using std::string_view;

/// Rules and edits are of the forms from here on: sizes are operands.
constexpr int64_t kOldestOpset = 13;

Status refuseQuantized(const quant::Graph &graph) {
  for (size_t i = 0; i < graph.all().size(); ++i) {
    string_view op = graph.node(i).opType;
    if (op.starts_with("QLinear") || op.ends_with("QuantizeLinear") || op == "DequantizeLinear" ||
        op == "MatMulNBits" || op == "MatMulInteger" || op == "ConvInteger") {
      return Status::error(
          ErrorId::BadArgument,
          strCat("the model is quantized: it has ", op, " '", quant::nameOf(graph.node(i)), "'"),
          "prune the FP32 model that it was made from, then quantize");
    }
  }
  return Status::ok();
}

/// What is computed of stored tensors alone, and of which.
std::map<std::string, std::vector<std::string>> sourcesOf(const quant::Graph &graph) {
  std::map<std::string, std::vector<std::string>> result;
  for (const onnx::Node &node : graph.all()) {
    std::vector<std::string> sources;
    bool isComputed = !node.inputs.empty() && node.outputs.size() == 1;
    for (string_view input : node.inputs) {
      auto known = result.find(std::string(input));
      bool isConstant = graph.constant(input) != nullptr;
      isComputed = isComputed && (input.empty() || isConstant || known != result.end());
      if (known != result.end()) {
        sources.insert(sources.end(), known->second.begin(), known->second.end());
      } else if (isConstant && !graph.producer(input)) {
        sources.emplace_back(input);
      }
    }
    if (isComputed) {
      std::sort(sources.begin(), sources.end());
      sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
      result.emplace(node.outputs[0], std::move(sources));
    }
  }
  return result;
}

} // namespace

struct Pruner::Impl {
  std::string folder;
  MappedFile file;
  std::string prepared; ///< in place of the file, unless it is empty
  onnx::Model model;
  std::optional<quant::Graph> graph;
  SampledDims samples;
  Settings settings;
  AxisClasses axisClasses;
  std::optional<Values> values;
  std::optional<Sizes> sizes;
  CountedAxes counted;
  std::vector<Parameter> parameters;
  Groups groups;
  std::vector<Ranking> rankings;
  std::optional<PruneMask> mask;
  std::map<std::string, std::vector<std::string>> sources; ///< of the file
  PruneInfo info;

  Bytes bytes() const {
    return prepared.empty() ? file.bytes() : std::as_bytes(std::span(prepared));
  }
  Status read();
  Status describe();
  Result<std::vector<uint32_t>> widthsOf(double ratio) const;
  std::vector<uint32_t> smallest(size_t group, size_t count) const;
  void describeGroup(const Group &group);
  Status keepNamed();
};

Pruner::Pruner(std::unique_ptr<Impl> implementation) : impl(std::move(implementation)) {}
Pruner::Pruner(Pruner &&) noexcept = default;
Pruner &Pruner::operator=(Pruner &&) noexcept = default;
Pruner::~Pruner() = default;

Status Pruner::Impl::read() {
  TENON_ASSIGN(model, onnx::readModel(bytes()));
  TENON_TRY(quant::checkNodes(model.graph.nodes));
  graph.emplace(model);
  return Status::ok();
}

Result<Pruner> Pruner::open(const std::string &path) {
  std::unique_ptr<Impl> impl = std::make_unique<Impl>();
  size_t slash = path.rfind('/');
  impl->folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  TENON_ASSIGN(impl->file, MappedFile::open(path));
  TENON_TRY(impl->read());
  TENON_TRY(refuseQuantized(*impl->graph));
  impl->sources = sourcesOf(*impl->graph);
  TENON_ASSIGN(impl->prepared,
               quant::prepareModel(impl->file.bytes(), impl->folder, kOldestOpset, true));
  TENON_TRY(impl->read());
  return Pruner(std::move(impl));
}

std::vector<std::string> Pruner::inputNames() const {
  std::vector<std::string> names;
  for (const onnx::ValueInfo &input : impl->model.graph.inputs) {
    if (impl->graph->isInput(input.name)) {
      names.emplace_back(input.name);
    }
  }
  return names;
}

std::vector<std::optional<std::string>> Pruner::freeDims(std::string_view input) const {
  std::vector<std::optional<std::string>> names;
  for (const onnx::ValueInfo &own : impl->model.graph.inputs) {
    for (size_t i = 0; own.name == input && i < own.dims.size(); ++i) {
      bool isFree = own.dims[i].kind != onnx::Dimension::Kind::Value;
      names.push_back(isFree ? std::optional<std::string>(own.dims[i].parameter) : std::nullopt);
    }
  }
  return names;
}

void Pruner::Impl::describeGroup(const Group &group) {
  GroupInfo own;
  for (const Producer &producer : group.producers) {
    own.nodes.emplace_back(quant::nameOf(graph->node(producer.node)));
  }
  own.width = own.kept = static_cast<uint32_t>(group.classes.size());
  own.unit = group.unit;
  own.step = settings.multiple / std::gcd(settings.multiple, own.unit);
  if (own.width <= own.step) {
    own.reason = "it is as narrow as the unit that a kernel computes at once";
  }
  info.groups.push_back(std::move(own));
}

Status Pruner::Impl::keepNamed() {
  for (const std::string &name : settings.keep) {
    bool isKnown = std::any_of(info.fixed.begin(), info.fixed.end(),
                               [&](const FixedInfo &own) { return own.node == name; });
    for (GroupInfo &group : info.groups) {
      if (std::find(group.nodes.begin(), group.nodes.end(), name) != group.nodes.end()) {
        group.reason = "--keep";
        isKnown = true;
      }
    }
    if (!isKnown) {
      return Status::error(ErrorId::BadArgument,
                           strCat("no convolution or matmul with weights is called '", name, "'"),
                           "'tenon inspect MODEL' lists the nodes");
    }
  }
  return Status::ok();
}

Status Pruner::Impl::describe() {
  for (const Group &group : groups.groups) {
    describeGroup(group);
  }
  for (const Producer &producer : groups.fixed) {
    const onnx::Node &node = graph->node(producer.node);
    std::string reason =
        producer.axis.size == 0 ? "its size is unknown" : axisClasses.reasonOf(producer.axis.first);
    info.fixed.push_back(
        {std::string(quant::nameOf(node)), std::string(node.opType), reason, producer.axis.size});
  }
  TENON_TRY(keepNamed());
  bool isAny = std::any_of(info.groups.begin(), info.groups.end(),
                           [](const GroupInfo &own) { return own.reason.empty(); });
  if (isAny) {
    return Status::ok();
  }
  std::string why =
      !info.groups.empty()  ? strCat("of '", info.groups[0].nodes[0], "': ", info.groups[0].reason)
      : !info.fixed.empty() ? strCat("of '", info.fixed[0].node, "': ", info.fixed[0].reason)
                            : std::string("it has no convolution or matmul with weights");
  return Status::error(ErrorId::NothingToPrune, strCat("nothing in the model can be pruned: ", why),
                       "'tenon help TN0130' lists what keeps a width");
}

Status Pruner::analyze(SampledDims samples, Settings settings) {
  impl->samples = std::move(samples);
  impl->settings = std::move(settings);
  impl->values.emplace(*impl->graph, impl->samples, impl->axisClasses);
  onnx::ExternalFiles files(impl->folder);
  impl->sizes.emplace(*impl->graph, *impl->values, files);
  impl->counted =
      applyRules(impl->model, *impl->graph, *impl->values, impl->axisClasses, *impl->sizes);
  impl->parameters = parametersOf(*impl->graph, *impl->values);
  impl->groups = groupsOf(*impl->graph, *impl->values, impl->axisClasses, impl->settings.multiple);
  TENON_TRY(impl->describe());
  TENON_ASSIGN(impl->rankings,
               rank(*impl->graph, impl->axisClasses, impl->groups.groups, impl->parameters,
                    impl->settings.importance, impl->settings.scores, files));
  for (size_t i = 0; i < impl->rankings.size(); ++i) {
    GroupInfo &own = impl->info.groups[i];
    own.isFallback = impl->rankings[i].isFallback;
    if (own.reason.empty() && !impl->rankings[i].isKnown) {
      return Status::error(
          ErrorId::BadImportance,
          strCat("no weights determine which channels of '", own.nodes[0], "' matter"),
          "leave the layer unchanged with --keep, or give --scores for it");
    }
  }
  for (const Parameter &parameter : impl->parameters) {
    uint64_t elements = 1;
    for (int64_t dim : parameter.tensor->dims) {
      elements *= static_cast<uint64_t>(dim);
    }
    impl->info.parametersBefore += elements;
  }
  return Status::ok();
}

/// Every group gets the steps that fit in its share; those with the largest remainders get one
/// more, until the share of all together is the ratio.
Result<std::vector<uint32_t>> Pruner::Impl::widthsOf(double ratio) const {
  std::vector<uint32_t> kept;
  double missing = 0;
  std::vector<std::pair<double, size_t>> remainders;
  for (size_t g = 0; g < info.groups.size(); ++g) {
    const GroupInfo &own = info.groups[g];
    kept.push_back(own.width);
    if (!own.reason.empty()) {
      continue;
    }
    double asked = own.width * (1 - ratio);
    if (asked < 0.5) {
      return Status::error(
          ErrorId::BadPruneRatio,
          strCat("this ratio leaves no channel of '", own.nodes[0], "', which has ", own.width),
          "use a smaller ratio, or --keep the layer");
    }
    double steps = std::max(1.0, std::floor(asked / own.step));
    kept[g] = static_cast<uint32_t>(steps) * own.step;
    remainders.push_back({kept[g] / double(own.step) - asked / own.step, g});
    missing += asked - kept[g];
  }
  std::sort(remainders.begin(), remainders.end());
  for (const auto &[negative, g] : remainders) {
    const GroupInfo &own = info.groups[g];
    if (negative < 0 && missing >= own.step / 2.0) {
      kept[g] = std::min(own.width, kept[g] + own.step);
      missing -= own.step;
    }
  }
  return kept;
}

/// The classes of the smallest scores: as many as asked, or fewer, since of each part as much stays
/// as a kernel computes at once.
std::vector<uint32_t> Pruner::Impl::smallest(size_t group, size_t count) const {
  const Group &own = groups.groups[group];
  std::map<uint32_t, size_t> partOf;
  std::vector<size_t> spare;
  for (size_t part = 0; part < own.parts.size(); ++part) {
    size_t size = own.parts[part].size();
    spare.push_back(size - std::min<size_t>(size, info.groups[group].step));
    for (uint32_t index : own.parts[part]) {
      partOf[index] = part;
    }
  }
  const std::vector<double> &scores = rankings[group].scores;
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::pair(scores[a], a) < std::pair(scores[b], b); });
  std::vector<uint32_t> result;
  for (size_t i : order) {
    size_t &left = spare[partOf.at(own.classes[i])];
    if (result.size() < count && left > 0) {
      result.push_back(own.classes[i]);
      --left;
    }
  }
  return result;
}

Status Pruner::choose(double ratio) {
  // Taken over only where it succeeds: a search goes on from what was chosen before.
  TENON_ASSIGN(std::vector<uint32_t> kept, impl->widthsOf(ratio));
  PruneMask mask(impl->axisClasses);
  bool removesAny = false;
  for (size_t g = 0; g < kept.size(); ++g) {
    uint32_t width = impl->info.groups[g].width;
    std::vector<uint32_t> gone = impl->smallest(g, width - kept[g]);
    kept[g] = width - static_cast<uint32_t>(gone.size());
    for (uint32_t index : gone) {
      mask.remove(index);
      removesAny = true;
    }
  }
  if (!removesAny) {
    return Status::error(ErrorId::BadPruneRatio,
                         "this ratio removes nothing: widths change in steps that fill a kernel",
                         "use a larger ratio, or allow any width: --multiple 1");
  }
  impl->mask.emplace(std::move(mask));
  for (size_t g = 0; g < kept.size(); ++g) {
    impl->info.groups[g].kept = kept[g];
  }
  return Status::ok();
}

Result<std::string> Pruner::write(quant::ConstantSink *sink) {
  onnx::ExternalFiles files(impl->folder);
  quant::ModelEdit edit(impl->bytes(), impl->model, *impl->graph);
  ChannelRemover remover(*impl->graph, *impl->values, *impl->sizes, *impl->mask, impl->counted,
                         edit, files);
  TENON_ASSIGN(impl->info.tensors, remover.run());
  impl->info.sizes = remover.takeSizes();
  for (ShrunkTensor &tensor : impl->info.tensors) {
    auto computed = impl->sources.find(tensor.name);
    bool isOther = computed != impl->sources.end() && !impl->graph->producer(tensor.name);
    tensor.sources = isOther ? computed->second : std::vector<std::string>();
  }
  impl->info.parametersAfter = 0;
  for (const Parameter &parameter : impl->parameters) {
    uint64_t elements = 1;
    for (size_t i = 0; i < parameter.axes->size(); ++i) {
      Axis axis = (*parameter.axes)[i];
      int64_t dim = parameter.tensor->dims[i];
      elements *= static_cast<uint64_t>(impl->mask->touches(axis) ? impl->mask->size(axis) : dim);
    }
    impl->info.parametersAfter += elements;
  }
  return edit.write(files, "prune more of it: all remaining weights are stored in the file", sink);
}

SampledDims Pruner::dimsAfter() const {
  SampledDims result = impl->samples;
  for (ValueDims &sample : result) {
    for (auto &[name, dims] : sample) {
      const Axes *axes = impl->values->named(name);
      for (size_t i = 0; axes && i < dims.size() && i < axes->size(); ++i) {
        Axis axis = (*axes)[i];
        if (impl->mask->touches(axis)) {
          // One that follows free dims is so many times the part that shrinks.
          dims[i] = dims[i] / axis.size * impl->mask->size(axis);
        }
      }
    }
  }
  return result;
}

const PruneInfo &Pruner::info() const { return impl->info; }

} // namespace tenon::prune
