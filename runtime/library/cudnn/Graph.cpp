// Sets the attributes of each descriptor and walks through the heuristics' answers until engines
// fit. Relies on an engine's numerical notes for what it does to precision.

#include "runtime/library/cudnn/Graph.h"

#include "support/text/Text.h"

#include <algorithm>

namespace tenon::library::cudnn {
namespace {

/// The most answers of one heuristic that are tried.
constexpr int64_t kMaxConfigs = 64;

/// More workspace than this is not asked for, whatever else there is.
constexpr int64_t kMaxWorkspace = int64_t(2) << 30;

enum class Use { Gladly, IfNothingElse, Never };

/// What an engine may be used for, by what its numerical notes say. In FP32 without TF32, tensor
/// cores are not allowed.
Use useOf(const Descriptor &engine, bool allowTensorCores) {
  NumericalNote notes[kMaxNotes];
  Result<int64_t> count =
      engine.get(Attribute::EngineNumericalNote, AttributeType::NumericalNote, kMaxNotes, notes);
  if (!count) {
    return Use::Never;
  }
  Use use = Use::Gladly;
  for (int64_t i = 0; i < std::min<int64_t>(*count, kMaxNotes); ++i) {
    switch (notes[i]) {
    case NumericalNote::TensorCore:
      if (!allowTensorCores) {
        return Use::Never;
      }
      break;
    case NumericalNote::DownConvertInputs:
    case NumericalNote::ReducedPrecisionReduction:
      return Use::Never;
    case NumericalNote::Nondeterministic:
    case NumericalNote::WinogradTile6x6:
    case NumericalNote::WinogradTile13x13:
      use = Use::IfNothingElse;
      break;
    }
  }
  return use;
}

} // namespace

Layout channelsLast(const std::array<int64_t, 4> &dims) {
  auto [n, c, h, w] = dims;
  return {{n, c, h, w}, {h * w * c, 1, w * c, c}};
}

Layout rowMajor(std::vector<int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return {std::move(dims), std::move(strides)};
}

Status Executable::run(const Api &api, Context *context, std::span<void *const> pointers,
                       void *scratch, void *stream) const {
  TENON_ASSIGN(Descriptor pack, Descriptor::create(api, DescriptorType::VariantPack));
  TENON_TRY(pack.set(Attribute::PackDataPointers, AttributeType::VoidPointer,
                     static_cast<int64_t>(pointers.size()), pointers.data()));
  TENON_TRY(pack.set(Attribute::PackUniqueIds, ids));
  TENON_TRY(pack.set(Attribute::PackWorkspace, AttributeType::VoidPointer, 1, &scratch));
  TENON_TRY(pack.finalize());
  TENON_TRY(statusOf(api, api.setStream(context, stream), "cudnnSetStream"));
  return statusOf(api, api.execute(context, plan.raw(), pack.raw()), "cudnnBackendExecute");
}

Result<std::vector<std::byte>> Executable::description() const {
  TENON_ASSIGN(int64_t count, plan.get(Attribute::PlanJson, AttributeType::Char, 0, nullptr));
  std::vector<std::byte> text(static_cast<size_t>(std::max<int64_t>(count, 0)));
  TENON_ASSIGN(count, plan.get(Attribute::PlanJson, AttributeType::Char, count, text.data()));
  return text;
}

Result<size_t> Graph::addTensor(int64_t id, const Layout &layout, DataType type, Place place) {
  bool isVirtual = place == Place::Nowhere;
  TENON_ASSIGN(Descriptor made, Descriptor::create(api, DescriptorType::Tensor));
  TENON_TRY(made.set(Attribute::TensorDataType, type));
  TENON_TRY(made.set(Attribute::TensorDimensions, layout.dims));
  TENON_TRY(made.set(Attribute::TensorStrides, layout.strides));
  TENON_TRY(made.set(Attribute::TensorUniqueId, id));
  TENON_TRY(made.set(Attribute::TensorAlignment, byteAlignment));
  TENON_TRY(made.set(Attribute::TensorIsVirtual, AttributeType::Boolean, 1, &isVirtual));
  if (place == Place::Host) {
    bool isByValue = true;
    TENON_TRY(made.set(Attribute::TensorIsByValue, AttributeType::Boolean, 1, &isByValue));
  }
  TENON_TRY(made.finalize());
  tensors.push_back(std::move(made));
  return tensors.size() - 1;
}

Result<size_t> Graph::tensor(int64_t id, const Layout &layout, DataType type) {
  ids.push_back(id);
  return addTensor(id, layout, type, Place::Memory);
}

Result<size_t> Graph::number(int64_t id, size_t rank) {
  ids.push_back(id);
  return addTensor(id, rowMajor(std::vector<int64_t>(rank, 1)), DataType::Float, Place::Host);
}

Result<size_t> Graph::between(const Layout &layout, DataType type) {
  return addTensor(nextVirtual++, layout, type, Place::Nowhere);
}

Status Graph::addOperation(Descriptor detail, Descriptor operation) {
  TENON_TRY(operation.finalize());
  details.push_back(std::move(detail));
  operations.push_back(std::move(operation));
  return Status::ok();
}

Status Graph::convolution(size_t x, size_t w, size_t y, const Window &window) {
  TENON_ASSIGN(Descriptor detail, Descriptor::create(api, DescriptorType::Convolution));
  TENON_TRY(detail.set(Attribute::ConvolutionComputeType, DataType::Float));
  TENON_TRY(detail.set(Attribute::ConvolutionMode, AttributeType::ConvolutionMode, 1,
                       &kCrossCorrelation));
  TENON_TRY(detail.set(Attribute::ConvolutionSpatialDims, int64_t(2)));
  TENON_TRY(detail.set(Attribute::ConvolutionDilations, window.dilations));
  TENON_TRY(detail.set(Attribute::ConvolutionStrides, window.strides));
  TENON_TRY(detail.set(Attribute::ConvolutionPrePaddings, window.padBefore));
  TENON_TRY(detail.set(Attribute::ConvolutionPostPaddings, window.padAfter));
  TENON_TRY(detail.finalize());
  TENON_ASSIGN(Descriptor forward,
               Descriptor::create(api, DescriptorType::OperationConvolutionForward));
  float alpha = 1;
  float beta = 0;
  TENON_TRY(forward.set(Attribute::ForwardConvolution, detail));
  TENON_TRY(forward.set(Attribute::ForwardX, tensors[x]));
  TENON_TRY(forward.set(Attribute::ForwardW, tensors[w]));
  TENON_TRY(forward.set(Attribute::ForwardY, tensors[y]));
  TENON_TRY(forward.set(Attribute::ForwardAlpha, AttributeType::Float, 1, &alpha));
  TENON_TRY(forward.set(Attribute::ForwardBeta, AttributeType::Float, 1, &beta));
  return addOperation(std::move(detail), std::move(forward));
}

Status Graph::matmul(size_t a, size_t b, size_t y) {
  TENON_ASSIGN(Descriptor detail, Descriptor::create(api, DescriptorType::Matmul));
  TENON_TRY(detail.set(Attribute::MatmulComputeType, DataType::Float));
  TENON_TRY(detail.finalize());
  TENON_ASSIGN(Descriptor operation, Descriptor::create(api, DescriptorType::OperationMatmul));
  TENON_TRY(operation.set(Attribute::OperationMatmulDescriptor, detail));
  TENON_TRY(operation.set(Attribute::OperationMatmulA, tensors[a]));
  TENON_TRY(operation.set(Attribute::OperationMatmulB, tensors[b]));
  TENON_TRY(operation.set(Attribute::OperationMatmulC, tensors[y]));
  return addOperation(std::move(detail), std::move(operation));
}

Status Graph::reduction(ReductionMode mode, size_t x, size_t y) {
  TENON_ASSIGN(Descriptor detail, Descriptor::create(api, DescriptorType::Reduction));
  TENON_TRY(detail.set(Attribute::ReductionMode, AttributeType::ReductionMode, 1, &mode));
  TENON_TRY(detail.set(Attribute::ReductionComputeType, DataType::Float));
  TENON_TRY(detail.finalize());
  TENON_ASSIGN(Descriptor operation, Descriptor::create(api, DescriptorType::OperationReduction));
  TENON_TRY(operation.set(Attribute::OperationReductionDescriptor, detail));
  TENON_TRY(operation.set(Attribute::OperationReductionX, tensors[x]));
  TENON_TRY(operation.set(Attribute::OperationReductionY, tensors[y]));
  return addOperation(std::move(detail), std::move(operation));
}

Status Graph::pointwise(PointwiseMode mode, size_t x, std::optional<size_t> b, size_t y) {
  TENON_ASSIGN(Descriptor detail, Descriptor::create(api, DescriptorType::Pointwise));
  TENON_TRY(detail.set(Attribute::PointwiseMode, AttributeType::PointwiseMode, 1, &mode));
  TENON_TRY(detail.set(Attribute::PointwiseMathPrecision, DataType::Float));
  TENON_TRY(detail.finalize());
  TENON_ASSIGN(Descriptor operation, Descriptor::create(api, DescriptorType::OperationPointwise));
  TENON_TRY(operation.set(Attribute::OperationPointwiseDescriptor, detail));
  TENON_TRY(operation.set(Attribute::OperationPointwiseX, tensors[x]));
  if (b) {
    TENON_TRY(operation.set(Attribute::OperationPointwiseB, tensors[*b]));
  }
  TENON_TRY(operation.set(Attribute::OperationPointwiseY, tensors[y]));
  return addOperation(std::move(detail), std::move(operation));
}

Status Graph::makeOperationGraph() {
  TENON_ASSIGN(Descriptor graph, Descriptor::create(api, DescriptorType::OperationGraph));
  std::vector<RawDescriptor> raw;
  for (const Descriptor &operation : operations) {
    raw.push_back(operation.raw());
  }
  TENON_TRY(graph.set(Attribute::GraphOperations, AttributeType::Descriptor,
                      static_cast<int64_t>(raw.size()), raw.data()));
  TENON_TRY(graph.set(Attribute::GraphHandle, AttributeType::Handle, 1, &context));
  TENON_TRY(graph.finalize());
  operationGraph = std::move(graph);
  return Status::ok();
}

Result<std::vector<Descriptor>> Graph::heuristics(HeuristicMode mode) {
  TENON_ASSIGN(Descriptor heuristic, Descriptor::create(api, DescriptorType::EngineHeuristic));
  TENON_TRY(heuristic.set(Attribute::HeuristicOperationGraph, operationGraph));
  TENON_TRY(heuristic.set(Attribute::HeuristicMode, AttributeType::HeuristicMode, 1, &mode));
  TENON_TRY(heuristic.finalize());
  TENON_ASSIGN(int64_t count,
               heuristic.get(Attribute::HeuristicResults, AttributeType::Descriptor, 0, nullptr));
  // The library fills descriptors that its caller made.
  count = std::min(count, kMaxConfigs);
  std::vector<Descriptor> answers;
  std::vector<RawDescriptor> raw;
  for (int64_t i = 0; i < count; ++i) {
    TENON_ASSIGN(Descriptor config, Descriptor::create(api, DescriptorType::EngineConfig));
    raw.push_back(config.raw());
    answers.push_back(std::move(config));
  }
  TENON_ASSIGN(count, heuristic.get(Attribute::HeuristicResults, AttributeType::Descriptor, count,
                                    raw.data()));
  answers.resize(std::min(static_cast<size_t>(count), answers.size()));
  return answers;
}

void Graph::tryConfig(const Descriptor &config, const EngineLimits &limits,
                      std::vector<Executable> &found, std::optional<Executable> &fallback) {
  Result<Descriptor> engine = Descriptor::create(api, DescriptorType::Engine);
  RawDescriptor raw = engine ? engine->raw() : nullptr;
  int64_t index = -1;
  if (!raw || !config.get(Attribute::EngineConfigEngine, AttributeType::Descriptor, 1, &raw) ||
      !engine->get(Attribute::EngineGlobalIndex, AttributeType::Int64, 1, &index)) {
    return;
  }
  Use use = useOf(*engine, limits.allowTensorCores);
  if (use == Use::Never) {
    return;
  }
  Result<Descriptor> plan = Descriptor::create(api, DescriptorType::ExecutionPlan);
  int64_t bytes = 0;
  if (!plan || !plan->set(Attribute::PlanHandle, AttributeType::Handle, 1, &context) ||
      !plan->set(Attribute::PlanEngineConfig, config) || plan->tryFinalize() != kSuccess ||
      !plan->get(Attribute::PlanWorkspaceSize, AttributeType::Int64, 1, &bytes) || bytes < 0 ||
      bytes > kMaxWorkspace) {
    return;
  }
  size_t workspace = static_cast<size_t>(bytes);
  if (use == Use::Gladly && workspace <= limits.workspace) {
    found.emplace_back(std::move(*plan), ids, workspace, index);
  } else if (!fallback || workspace < fallback->workspaceBytes()) {
    fallback.emplace(std::move(*plan), ids, workspace, index);
  }
}

Result<std::vector<Executable>> Graph::compile(const EngineLimits &limits) {
  TENON_TRY(makeOperationGraph());
  std::vector<Executable> found;
  std::optional<Executable> fallback;
  for (HeuristicMode mode : {HeuristicMode::A, HeuristicMode::B, HeuristicMode::Fallback}) {
    Result<std::vector<Descriptor>> answers = heuristics(mode);
    if (!answers) {
      continue; // this heuristic does not know the pattern; the next may
    }
    for (Descriptor &answer : *answers) {
      configs.push_back(std::move(answer));
      tryConfig(configs.back(), limits, found, fallback);
      if (found.size() == limits.wanted) {
        return found;
      }
    }
    if (!found.empty()) {
      return found;
    }
  }
  if (!fallback) {
    return Status::error(ErrorId::LibraryUnsupported,
                         strCat("cuDNN ", versionOf(api), " has no engine for the graph"));
  }
  found.push_back(std::move(*fallback));
  return found;
}

} // namespace tenon::library::cudnn
