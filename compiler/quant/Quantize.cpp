// The way in order: read and plan; ranges of what was observed; the changed model. One file: all
// steps work on what Impl holds of one model.
#include "compiler/quant/Quantize.h"

#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/quant/Branches.h"
#include "compiler/quant/Checks.h"
#include "compiler/quant/DepthwiseNoise.h"
#include "compiler/quant/Float8.h"
#include "compiler/quant/Layers.h"
#include "compiler/quant/Opset.h"
#include "compiler/quant/Prepare.h"
#include "compiler/quant/QdqWriter.h"
#include "support/files/MappedFile.h"
#include "support/text/Text.h"

#include <algorithm>
#include <set>

namespace tenon::quant {
namespace {

using std::string_view;

/// The least one that knows the scheme.
int64_t opsetOf(const Settings &settings) {
  constexpr int64_t kChannelScales = 13, kFloat8 = 19, kBlocks = 21;
  bool isBlocked = settings.weightBits == 4 && settings.blockForm == BlockForm::Dequantize;
  return isBlocked ? kBlocks : settings.scheme == Scheme::Float8 ? kFloat8 : kChannelScales;
}

} // namespace

struct Quantizer::Impl {
  std::string folder;
  MappedFile file;
  std::string prepared; ///< in place of the file, unless it is empty
  onnx::Model model;
  std::optional<Graph> graph;
  Settings settings;
  Plan plan;
  std::vector<opt::Observation> observations;
  std::vector<Affine> affines;
  std::map<string_view, Smoothing> smoothed;
  std::map<string_view, Channels> channels;
  std::vector<std::pair<std::string, std::string>> metadata; ///< of what is written
  QuantizationInfo info;
  Grams grams;
  StoredWeights stored;      ///< that graphs inside of nodes read
  QuantizationInfo branches; ///< of layers inside of nodes

  Bytes bytes() const {
    return prepared.empty() ? file.bytes() : std::as_bytes(std::span(prepared));
  }
  Status read();
  Status shrinkBranches();
  void observe(string_view tensor, bool hasHistogram, std::optional<int64_t> axis);
  void listObservations();
  void leaveRows(const std::vector<Observed> &seen, size_t runs);
  Status leaveNoisy(const std::map<string_view, const Histogram *> &histograms);
  Status smooth(size_t group, double error, TensorInfo &tensorInfo);
  bool canSmooth(const Group &group) const;
  bool hasFixedBatch() const;
};

Quantizer::Quantizer(std::unique_ptr<Impl> implementation) : impl(std::move(implementation)) {}
Quantizer::Quantizer(Quantizer &&) noexcept = default;
Quantizer &Quantizer::operator=(Quantizer &&) noexcept = default;
Quantizer::~Quantizer() = default;

Result<Quantizer> Quantizer::open(const std::string &path, const Settings &settings) {
  std::unique_ptr<Impl> impl = std::make_unique<Impl>();
  size_t slash = path.rfind('/');
  impl->folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  TENON_ASSIGN(impl->file, MappedFile::open(path));
  impl->settings = settings;
  TENON_TRY(impl->read());
  TENON_TRY(refuseQuantized(*impl->graph));
  TENON_ASSIGN(impl->prepared,
               prepareModel(impl->file.bytes(), impl->folder, opsetOf(settings), false));
  TENON_TRY(impl->read());
  TENON_TRY(impl->shrinkBranches());
  impl->plan = makePlan(*impl->graph, settings.overrides,
                        settings.weightBits != 0     ? Mode::WeightsOnly
                        : isDynamic(settings.scheme) ? Mode::Dynamic
                                                     : Mode::Narrow);
  TENON_TRY(checkPlan(*impl->graph, impl->plan, impl->branches, settings));
  impl->listObservations();
  return Quantizer(std::move(impl));
}

Status Quantizer::Impl::read() {
  TENON_ASSIGN(model, onnx::readModel(bytes()));
  TENON_TRY(checkNodes(model.graph.nodes));
  graph.emplace(model);
  return Status::ok();
}

/// A search decides about the main graph alone, so that it measures what it decides.
Status Quantizer::Impl::shrinkBranches() {
  if (settings.mayBeNone) {
    branches = leftInside(*graph);
    return Status::ok();
  }
  int64_t opset = 0;
  for (const onnx::OpsetImport &own : model.opsets) {
    opset = own.domain.empty() ? own.version : opset;
  }
  onnx::ExternalFiles files(folder);
  ModelEdit edit(bytes(), model, *graph);
  edit.keepExternal();
  TENON_TRY(quantizeBranches(model, *graph, settings, opset, edit, files, stored, branches));
  if (branches.layers.empty() && branches.tables.empty()) {
    return Status::ok();
  }
  TENON_ASSIGN(prepared, edit.write(files, "export it with its weights beside the file"));
  return read();
}

Result<std::vector<InputInfo>> Quantizer::inputs() const {
  std::vector<InputInfo> result;
  for (const onnx::ValueInfo &info : impl->model.graph.inputs) {
    if (!impl->graph->isInput(info.name)) {
      continue;
    }
    std::optional<DType> dtype = onnx::toDType(info.type);
    if (info.kind != onnx::ValueInfo::Kind::Tensor || !dtype || !info.hasShape) {
      return Status::error(ErrorId::BadArgument,
                           strCat("input '", info.name, "' is not a tensor of known rank"),
                           "'tenon check MODEL' shows what Tenon needs of inputs");
    }
    InputInfo port{std::string(info.name), *dtype, {}};
    for (const onnx::Dimension &dim : info.dims) {
      port.dims.push_back(dim.kind == onnx::Dimension::Kind::Value ? dim.value : -1);
    }
    result.push_back(std::move(port));
  }
  return result;
}

void Quantizer::Impl::observe(string_view tensor, bool hasHistogram, std::optional<int64_t> axis) {
  for (opt::Observation &observation : observations) {
    if (observation.name == tensor) {
      observation.hasHistogram = observation.hasHistogram || hasHistogram;
      observation.channels = axis ? axis : observation.channels;
      return;
    }
  }
  observations.push_back({std::string(tensor), hasHistogram, axis});
}

/// Histograms of what others are taken from, and the channels of what convolutions and products
/// with weights read.
void Quantizer::Impl::listObservations() {
  for (const Group &group : plan.groups) {
    for (string_view source : group.sources) {
      observe(source, true, std::nullopt);
    }
  }
  if (settings.scheme != Scheme::Static) {
    return;
  }
  for (const Layer &layer : plan.layers) {
    const onnx::Node &node = graph->node(layer.node);
    bool isRows = graph->isOp(layer.node, "MatMul") ||
                  (graph->isOp(layer.node, "Gemm") && integerOf(node, "transA", 0) == 0);
    bool isConv = graph->isOp(layer.node, "Conv");
    if (layer.treatment == Treatment::Narrow && layer.weight && (isRows || isConv)) {
      observe(node.inputs.front(), false, isConv ? 1 : -1);
    }
    std::optional<string_view> judged = judgedBy(*graph, layer);
    if (judged && !graph->isKept(*judged)) {
      observe(*judged, false, 1);
    }
  }
}

std::string Quantizer::metadata(string_view key) const {
  for (const onnx::KeyValue &entry : impl->model.metadata) {
    if (entry.key == key) {
      return std::string(entry.value);
    }
  }
  return "";
}

const Graph &Quantizer::graph() const { return *impl->graph; }

const Plan &Quantizer::plan() const { return impl->plan; }

void Quantizer::addMetadata(std::string key, std::string text) {
  impl->metadata.emplace_back(std::move(key), std::move(text));
}

const std::vector<opt::Observation> &Quantizer::observations() const { return impl->observations; }

std::vector<std::string> Quantizer::innerObserved() const {
  std::vector<std::string> names;
  for (const opt::Observation &observation : impl->observations) {
    if (!impl->graph->isInput(observation.name)) {
      names.push_back(observation.name);
    }
  }
  return names;
}

bool Quantizer::Impl::hasFixedBatch() const {
  return std::all_of(
      model.graph.inputs.begin(), model.graph.inputs.end(), [](const onnx::ValueInfo &info) {
        return !info.dims.empty() && info.dims[0].kind == onnx::Dimension::Kind::Value;
      });
}

/// Products of one row, which reading weights bounds, keep wide activations: known once their
/// operands were counted.
void Quantizer::Impl::leaveRows(const std::vector<Observed> &seen, size_t runs) {
  if (!hasFixedBatch() || settings.weightBits != 0 || isDynamic(settings.scheme)) {
    return;
  }
  std::map<string_view, uint64_t> elements;
  for (size_t i = 0; i < observations.size(); ++i) {
    elements[observations[i].name] = seen[i].histogram.elements();
  }
  for (const Layer &layer : plan.layers) {
    const onnx::Node &node = graph->node(layer.node);
    bool isProduct = graph->isOp(layer.node, "MatMul") || graph->isOp(layer.node, "Gemm");
    auto counted = elements.find(node.inputs.front());
    if (layer.treatment != Treatment::Narrow || !isProduct || !layer.weight ||
        counted == elements.end()) {
      continue;
    }
    const std::vector<int64_t> &dims = layer.weight->tensor->dims;
    size_t depth = static_cast<size_t>(layer.weight->axis) + 1 == dims.size() ? 0 : dims.size() - 1;
    if (counted->second == runs * static_cast<uint64_t>(dims[depth])) {
      settings.overrides.emplace(nameOf(node),
                                 std::pair(Treatment::WeightsOnly, "one row: a GEMV"));
    }
  }
  plan = makePlan(*graph, settings.overrides);
}

/// Depthwise convolutions whose noise would decide what the model loses, unless the user decided.
Status Quantizer::Impl::leaveNoisy(const std::map<string_view, const Histogram *> &histograms) {
  if (settings.scheme != Scheme::Static || settings.weightBits != 0) {
    return Status::ok();
  }
  onnx::ExternalFiles files(folder);
  auto errorOf = [&](const Group &group) {
    Histogram all;
    for (string_view source : group.sources) {
      all.merge(*histograms.at(source));
    }
    return squaredError(all, estimateRange(all, settings.method, settings.percentile));
  };
  TENON_ASSIGN(Overrides noisy, findNoisyDepthwise(*graph, plan, channels, errorOf, files));
  settings.overrides.insert(noisy.begin(), noisy.end());
  plan = noisy.empty() ? std::move(plan) : makePlan(*graph, settings.overrides);
  return Status::ok();
}

/// Whether the only tensor of a group is read by products with weights of rank 2 alone.
bool Quantizer::Impl::canSmooth(const Group &group) const {
  if (group.tensors.size() != 1 || !channels.contains(group.tensors.front())) {
    return false;
  }
  return std::all_of(plan.uses.begin(), plan.uses.end(), [&](const Use &use) {
    if (graph->node(use.node).inputs[use.operand] != group.tensors.front()) {
      return true;
    }
    auto reader = std::find_if(plan.layers.begin(), plan.layers.end(),
                               [&](const Layer &layer) { return layer.node == use.node; });
    return reader != plan.layers.end() && reader->weight && !graph->isOp(use.node, "Conv") &&
           reader->weight->tensor->dims.size() == 2 && use.operand == 0;
  });
}

/// Divides a tensor by factors of its channels where the products of its readers gain by it.
Status Quantizer::Impl::smooth(size_t group, double error, TensorInfo &tensorInfo) {
  string_view tensor = plan.groups[group].tensors.front();
  onnx::ExternalFiles files(folder);
  std::vector<Reader> readers;
  for (const Layer &layer : plan.layers) {
    if (layer.treatment == Treatment::Narrow && graph->node(layer.node).inputs.front() == tensor) {
      TENON_ASSIGN(Floats weight, loadFloats(*layer.weight->tensor, files));
      readers.push_back({std::move(weight), 1 - static_cast<size_t>(layer.weight->axis)});
      if (static_cast<size_t>(readers.back().weight.dims[readers.back().axis]) !=
          channels.at(tensor).means.size()) {
        return Status::ok();
      }
    }
  }
  std::optional<Smoothing> found = findSmoothing(channels.at(tensor), readers, error);
  if (found) {
    tensorInfo.alpha = found->alpha;
    tensorInfo.gain = found->after - found->before;
    tensorInfo.range = found->range;
    affines[group] = affineOf(found->range);
    smoothed[tensor] = std::move(*found);
  }
  return Status::ok();
}

std::map<std::string, size_t> Quantizer::gramTensors() const {
  std::map<std::string, size_t> result;
  for (const Layer &layer : impl->plan.layers) {
    if (impl->settings.weightBits == 4 && layer.treatment == Treatment::WeightsOnly &&
        isRowsByMatrix(*impl->graph, layer)) {
      size_t axis = static_cast<size_t>(layer.weight->axis);
      result[std::string(impl->graph->node(layer.node).inputs.front())] =
          static_cast<size_t>(layer.weight->tensor->dims[1 - axis]);
    }
  }
  return result;
}

void Quantizer::setGrams(Grams known) { impl->grams = std::move(known); }

Status Quantizer::chooseRanges(const std::vector<Observed> &seen, size_t runs) {
  std::map<string_view, const Histogram *> histograms;
  for (size_t i = 0; i < impl->observations.size(); ++i) {
    const opt::Observation &observation = impl->observations[i];
    if (observation.channels) {
      impl->channels[observation.name] = seen[i].channels;
    }
    if (!observation.hasHistogram) {
      continue;
    }
    histograms[observation.name] = &seen[i].histogram;
    if (uint64_t count = seen[i].histogram.notFinite(); count != 0) {
      return Status::error(
          ErrorId::BadArgument,
          strCat("'", observation.name, "' has ", count,
                 " values that are not finite for these samples"),
          "check the samples and the model: tenon compare --layers shows where such values begin");
    }
  }
  impl->leaveRows(seen, runs);
  TENON_TRY(impl->leaveNoisy(histograms));
  impl->affines.clear();
  for (size_t i = 0; i < impl->plan.groups.size(); ++i) {
    const Group &group = impl->plan.groups[i];
    Histogram histogram;
    for (string_view source : group.sources) {
      histogram.merge(*histograms.at(source));
    }
    TensorInfo info;
    info.name = group.sources.front();
    info.tensors = group.tensors.size();
    info.seen = {histogram.low(), histogram.high()};
    RangeMethod method = impl->settings.method;
    info.range = estimateRange(histogram, method, impl->settings.percentile);
    if (method == RangeMethod::Entropy) {
      Range whole = estimateRange(histogram, RangeMethod::MinMax, 0);
      info.isRefused = squaredError(histogram, info.range) > squaredError(histogram, whole);
      info.range = info.isRefused ? whole : info.range;
    }
    info.affine = affineOf(info.range);
    info.decibels = signalToNoise(histogram, info.range);
    info.levels = levelsOfMost(histogram, info.range);
    info.clipped = shareOutside(histogram, info.range);
    if (impl->settings.scheme == Scheme::Float8) {
      info.range = info.seen;
      info.affine = {scaleOfFloat8(histogram), 0};
      info.decibels = signalToNoiseFloat8(histogram, info.affine.scale);
      info.levels = 256; // all: their distances are relative to the value
      info.clipped = 0;
    }
    for (const Layer &layer : impl->plan.layers) {
      const onnx::Node &node = impl->graph->node(layer.node);
      bool reads = std::any_of(group.tensors.begin(), group.tensors.end(), [&](string_view tensor) {
        return node.inputs[0] == tensor || node.inputs[1] == tensor;
      });
      if (reads && layer.treatment == Treatment::Narrow) {
        info.readers.emplace_back(nameOf(node));
      }
    }
    impl->affines.push_back(info.affine);
    bool canSmooth = impl->settings.smooths && impl->settings.scheme == Scheme::Static;
    if (canSmooth && impl->canSmooth(group)) {
      TENON_TRY(impl->smooth(i, squaredError(histogram, info.range), info));
      info.affine = impl->affines.back();
    }
    impl->info.tensors.push_back(std::move(info));
  }
  return Status::ok();
}

Result<std::string> Quantizer::write(string_view key, const std::string &text, ConstantSink *sink) {
  onnx::ExternalFiles files(impl->folder);
  ModelEdit edit(impl->bytes(), impl->model, *impl->graph);
  TENON_ASSIGN(int64_t opset, raiseOpset(impl->model, *impl->graph, edit, opsetOf(impl->settings)));
  std::map<string_view, const Channels *> channels;
  for (const auto &[name, known] : impl->channels) {
    if (impl->settings.correctsBias) {
      channels[name] = &known;
    }
  }
  QdqWriter writer(*impl->graph, impl->plan, impl->affines, impl->smoothed, channels, edit, files,
                   impl->stored);
  writer.useScheme(impl->settings.scheme, opset);
  writer.useSettings(impl->settings, impl->grams);
  writer.limitWeights(impl->settings.reducesRange ? kMaxReduced : kMaxWeight);
  TENON_TRY(writer.run(impl->info));
  for (const LayerInfo &layer : impl->branches.layers) {
    impl->info.layers.push_back(layer);
  }
  for (const LayerInfo &table : impl->branches.tables) {
    impl->info.tables.push_back(table);
  }
  if (!text.empty()) {
    edit.addMetadata(key, text);
  }
  for (const auto &[ownKey, ownText] : impl->metadata) {
    edit.addMetadata(ownKey, ownText);
  }
  return edit.write(files, "quantize more of it: weights that stay in FP32 are stored in the file",
                    sink);
}

const QuantizationInfo &Quantizer::info() const { return impl->info; }

} // namespace tenon::quant
