// The way in order: read and plan; ranges of what was observed; the changed model.
#include "compiler/quant/Quantize.h"

#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/quant/Opset.h"
#include "compiler/quant/QdqWriter.h"
#include "support/files/MappedFile.h"
#include "support/text/Text.h"

#include <algorithm>
#include <set>

namespace tenon::quant {
namespace {

using std::string_view;

Status refuseQuantized(const Graph &graph) {
  constexpr string_view kinds[] = {"QuantizeLinear",       "DequantizeLinear", "QLinearConv",
                                   "QLinearMatMul",        "MatMulInteger",    "ConvInteger",
                                   "DynamicQuantizeLinear"};
  for (size_t i = 0; i < graph.all().size(); ++i) {
    const onnx::Node &node = graph.node(i);
    if (graph.isOneOf(i, kinds) || node.opType == "MatMulNBits" ||
        node.opType.starts_with("QLinear")) {
      return Status::error(
          ErrorId::BadArgument,
          strCat("the model is quantized already: it has ", node.opType, " '", nameOf(node), "'"),
          "quantize the FP32 model that it was made from");
    }
  }
  return Status::ok();
}

} // namespace

struct Quantizer::Impl {
  std::string folder;
  MappedFile file;
  onnx::Model model;
  std::optional<Graph> graph;
  Settings settings;
  Plan plan;
  std::vector<string_view> observed;
  std::vector<Affine> affines;
  Facts facts;

  Status checkPlan() const;
  void leaveRows(const std::vector<Histogram> &histograms, size_t runs);
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
  TENON_ASSIGN(impl->model, onnx::readModel(impl->file.bytes()));
  impl->graph.emplace(impl->model);
  impl->settings = settings;
  TENON_TRY(refuseQuantized(*impl->graph));
  // Said before any work.
  ModelEdit trial(impl->file.bytes(), impl->model, *impl->graph);
  TENON_TRY(raiseOpset(impl->model, *impl->graph, trial));
  impl->plan = makePlan(*impl->graph, settings.overrides);
  TENON_TRY(impl->checkPlan());
  for (const Group &group : impl->plan.groups) {
    impl->observed.insert(impl->observed.end(), group.sources.begin(), group.sources.end());
  }
  return Quantizer(std::move(impl));
}

Status Quantizer::Impl::checkPlan() const {
  for (const Overrides::value_type &decided : settings.overrides) {
    bool isLayer = std::any_of(plan.layers.begin(), plan.layers.end(), [&](const Layer &layer) {
      return nameOf(graph->node(layer.node)) == decided.first;
    });
    if (!isLayer) {
      return Status::error(
          ErrorId::BadArgument,
          strCat("no convolution or product of the model is called '", decided.first, "'"),
          "'tenon inspect MODEL' lists the nodes");
    }
  }
  bool isAny = std::any_of(plan.layers.begin(), plan.layers.end(),
                           [](const Layer &layer) { return layer.treatment != Treatment::Wide; });
  if (isAny || !plan.embeddings.empty()) {
    return Status::ok();
  }
  std::string why = plan.layers.empty() ? "it has no convolution or product of FP32"
                                        : strCat("of ", nameOf(graph->node(plan.layers[0].node)),
                                                 ": ", plan.layers[0].reason);
  return Status::error(ErrorId::BadArgument, strCat("nothing in the model can be quantized: ", why),
                       "'tenon inspect MODEL' shows its operations");
}

Result<std::vector<InputFacts>> Quantizer::inputs() const {
  std::vector<InputFacts> result;
  for (const onnx::ValueInfo &info : impl->model.graph.inputs) {
    if (!impl->graph->isInput(info.name)) {
      continue;
    }
    std::optional<DType> dtype = onnx::toDType(info.type);
    if (info.kind != onnx::ValueInfo::Kind::Tensor || !dtype || !info.hasShape) {
      return Status::error(ErrorId::BadArgument,
                           strCat("input '", info.name, "' is no tensor of a known rank"),
                           "'tenon check MODEL' says what Tenon needs of inputs");
    }
    InputFacts facts{std::string(info.name), *dtype, {}};
    for (const onnx::Dimension &dim : info.dims) {
      facts.dims.push_back(dim.kind == onnx::Dimension::Kind::Value ? dim.value : -1);
    }
    result.push_back(std::move(facts));
  }
  return result;
}

std::vector<std::string> Quantizer::observed() const {
  return {impl->observed.begin(), impl->observed.end()};
}

std::vector<std::string> Quantizer::innerObserved() const {
  std::vector<std::string> names;
  for (string_view name : impl->observed) {
    if (!impl->graph->isInput(name)) {
      names.emplace_back(name);
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
void Quantizer::Impl::leaveRows(const std::vector<Histogram> &histograms, size_t runs) {
  if (!hasFixedBatch()) {
    return;
  }
  std::map<string_view, uint64_t> elements;
  for (size_t i = 0; i < observed.size(); ++i) {
    elements[observed[i]] = histograms[i].elements();
  }
  for (const Layer &layer : plan.layers) {
    const onnx::Node &node = graph->node(layer.node);
    bool isProduct = graph->isOp(layer.node, "MatMul") || graph->isOp(layer.node, "Gemm");
    auto seen = elements.find(node.inputs.front());
    if (layer.treatment != Treatment::Narrow || !isProduct || !layer.weight ||
        seen == elements.end()) {
      continue;
    }
    const std::vector<int64_t> &dims = layer.weight->tensor->dims;
    size_t depth = static_cast<size_t>(layer.weight->axis) + 1 == dims.size() ? 0 : dims.size() - 1;
    if (seen->second == runs * static_cast<uint64_t>(dims[depth])) {
      settings.overrides.emplace(nameOf(node),
                                 std::pair(Treatment::WeightsOnly, "one row: a GEMV"));
    }
  }
  plan = makePlan(*graph, settings.overrides);
}

Status Quantizer::calibrate(const std::vector<Histogram> &histograms, size_t runs) {
  std::map<string_view, const Histogram *> seen;
  for (size_t i = 0; i < impl->observed.size(); ++i) {
    seen[impl->observed[i]] = &histograms[i];
    if (uint64_t count = histograms[i].notFinite(); count != 0) {
      return Status::error(ErrorId::BadArgument,
                           strCat("'", impl->observed[i], "' has ", count,
                                  " values that are not finite for these samples"),
                           "look at the samples and the model: tenon compare --layers shows where "
                           "such values begin");
    }
  }
  impl->leaveRows(histograms, runs);
  impl->affines.clear();
  for (const Group &group : impl->plan.groups) {
    Histogram histogram;
    for (string_view source : group.sources) {
      histogram.merge(*seen.at(source));
    }
    TensorFacts facts;
    facts.name = group.sources.front();
    facts.tensors = group.tensors.size();
    facts.seen = {histogram.low(), histogram.high()};
    RangeMethod method = impl->settings.method;
    facts.range = estimateRange(histogram, method, impl->settings.percentile);
    if (method == RangeMethod::Entropy) {
      Range whole = estimateRange(histogram, RangeMethod::MinMax, 0);
      facts.isRefused = squaredError(histogram, facts.range) > squaredError(histogram, whole);
      facts.range = facts.isRefused ? whole : facts.range;
    }
    facts.affine = affineOf(facts.range);
    facts.decibels = signalToNoise(histogram, facts.range);
    facts.levels = levelsOfMost(histogram, facts.range);
    for (const Layer &layer : impl->plan.layers) {
      const onnx::Node &node = impl->graph->node(layer.node);
      bool reads = std::any_of(group.tensors.begin(), group.tensors.end(), [&](string_view tensor) {
        return node.inputs[0] == tensor || node.inputs[1] == tensor;
      });
      if (reads && layer.treatment == Treatment::Narrow) {
        facts.readers.emplace_back(nameOf(node));
      }
    }
    impl->affines.push_back(facts.affine);
    impl->facts.tensors.push_back(std::move(facts));
  }
  return Status::ok();
}

Result<std::string> Quantizer::write(const std::string &samples) {
  onnx::ExternalFiles files(impl->folder);
  ModelEdit edit(impl->file.bytes(), impl->model, *impl->graph);
  TENON_TRY(raiseOpset(impl->model, *impl->graph, edit));
  QdqWriter writer(*impl->graph, impl->plan, impl->affines, edit, files);
  TENON_TRY(writer.run(impl->facts));
  edit.addMetadata(kSamplesKey, samples);
  return edit.write(files);
}

const Facts &Quantizer::facts() const { return impl->facts; }

} // namespace tenon::quant
