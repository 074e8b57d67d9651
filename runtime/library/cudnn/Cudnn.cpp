// One graph for convolution, residual, bias and activation; if cuDNN has no engine for it, the
// convolution writes the result and a second graph adds the rest in place. Relies on the order
// residual, bias, activation, for which cuDNN has its own fused kernels.

#include "runtime/library/cudnn/Cudnn.h"

#include "runtime/library/cudnn/PlanText.h"
#include "support/Text.h"

#include <algorithm>

namespace tenon::library::cudnn {
namespace {

/// Ids of the graphs' tensors: a buffer's id is its place in the call.
constexpr int64_t kResultAsInput = 100;

std::optional<DataType> dataTypeOf(DType type) {
  switch (type) {
  case DType::F32:
    return DataType::Float;
  case DType::F16:
    return DataType::Half;
  case DType::BF16:
    return DataType::BFloat16;
  default:
    return std::nullopt;
  }
}

struct Sizes {
  int64_t n, h, w, c, k, r, s, p, q;
};

/// The call and its buffers by name.
struct Problem {
  Problem(const engine::ConvCall &descriptor, const Sizes &dims) : call(descriptor), sizes(dims) {}

  int64_t biasId() const { return 2; }
  int64_t residualId() const { return 2 + call.hasBias; }
  int64_t resultId() const { return 2 + call.hasBias + call.hasResidual; }
  size_t bufferCount() const { return static_cast<size_t>(resultId()) + 1; }
  bool hasEpilogue() const {
    return call.hasBias || call.hasResidual || call.activation != engine::LibraryActivation::None;
  }
  Dims4 x() const { return {sizes.n, sizes.c, sizes.h, sizes.w}; }
  Dims4 filter() const { return {sizes.k, sizes.c / call.groups, sizes.r, sizes.s}; }
  Dims4 result() const { return {sizes.n, sizes.k, sizes.p, sizes.q}; }
  Dims4 bias() const { return {1, sizes.k, 1, 1}; }
  DataType type() const { return *dataTypeOf(call.type); }
  Window window() const {
    return {{call.strides[0], call.strides[1]},
            {call.dilations[0], call.dilations[1]},
            {call.padBefore[0], call.padBefore[1]},
            {call.padAfter[0], call.padAfter[1]}};
  }
  std::string text() const {
    return strCat("convolution ", nameOf(call.type), " [", sizes.n, ", ", sizes.h, ", ", sizes.w,
                  ", ", sizes.c, "] x [", sizes.k, ", ", sizes.r, ", ", sizes.s, ", ",
                  sizes.c / call.groups, "]");
  }
  std::vector<size_t> bufferBytes() const;

  engine::ConvCall call;
  Sizes sizes;
};

std::vector<size_t> Problem::bufferBytes() const {
  auto bytesOf = [&](const Dims4 &dims) {
    return static_cast<size_t>(dims[0] * dims[1] * dims[2] * dims[3]) * bitWidth(call.type) / 8;
  };
  std::vector<size_t> bytes = {bytesOf(x()), bytesOf(filter())};
  if (call.hasBias) {
    bytes.push_back(bytesOf(bias()));
  }
  bytes.resize(bufferCount(), bytesOf(result()));
  return bytes;
}

/// Adds what follows the product; `value` is the tensor so far. The last tensor is the result.
Status addEpilogue(Graph &graph, const Problem &problem, size_t value) {
  const engine::ConvCall &call = problem.call;
  unsigned left = unsigned(call.hasBias) + call.hasResidual +
                  (call.activation != engine::LibraryActivation::None);
  auto next = [&]() -> Result<size_t> {
    return --left == 0 ? graph.tensor(problem.resultId(), problem.result(), problem.type())
                       : graph.between(problem.result());
  };
  if (call.hasResidual) {
    TENON_ASSIGN(size_t residual,
                 graph.tensor(problem.residualId(), problem.result(), problem.type()));
    TENON_ASSIGN(size_t sum, next());
    TENON_TRY(graph.add(value, residual, sum));
    value = sum;
  }
  if (call.hasBias) {
    TENON_ASSIGN(size_t bias, graph.tensor(problem.biasId(), problem.bias(), problem.type()));
    TENON_ASSIGN(size_t sum, next());
    TENON_TRY(graph.add(value, bias, sum));
    value = sum;
  }
  if (call.activation != engine::LibraryActivation::None) {
    TENON_ASSIGN(size_t result, next());
    bool isRelu = call.activation == engine::LibraryActivation::Relu;
    TENON_TRY(
        graph.activation(isRelu ? PointwiseMode::Relu : PointwiseMode::GeluTanh, value, result));
  }
  return Status::ok();
}

/// The convolution, with all that follows it if `isFused`.
Status buildConvolution(Graph &graph, const Problem &problem, bool isFused) {
  TENON_ASSIGN(size_t x, graph.tensor(0, problem.x(), problem.type()));
  TENON_ASSIGN(size_t w, graph.tensor(1, problem.filter(), problem.type()));
  bool isLast = !isFused || !problem.hasEpilogue();
  TENON_ASSIGN(size_t y, isLast ? graph.tensor(problem.resultId(), problem.result(), problem.type())
                                : graph.between(problem.result()));
  TENON_TRY(graph.convolution(x, w, y, problem.window()));
  return isLast ? Status::ok() : addEpilogue(graph, problem, y);
}

class ConvPlan final : public Plan {
public:
  ConvPlan(std::shared_ptr<const void> owner, const Api &functions, Context *handle,
           const Problem &conv)
      : library(std::move(owner)), api(functions), context(handle), problem(conv) {}

  Status build(const EngineLimits &limits, size_t alignment);
  Status measure(Meter &meter, MeasureMemory &memory);
  /// The choice as bytes, and from bytes that `store` gave.
  std::optional<std::vector<std::byte>> store() const;
  Status restore(Bytes stored);

  size_t workspaceBytes() const override {
    size_t bytes = candidates[chosen].workspaceBytes();
    return rest.empty() ? bytes : std::max(bytes, rest.front().workspaceBytes());
  }
  Status run(std::span<void *const> buffers, void *workspace, void *stream) override {
    return runCandidate(chosen, buffers, workspace, stream);
  }
  std::string describe() const override;

private:
  Status runCandidate(size_t index, std::span<void *const> buffers, void *workspace, void *stream);
  Status runGraph(const Executable &graph, std::span<void *const> buffers, void *workspace,
                  void *stream);

  std::shared_ptr<const void> library; ///< that `api` and `context` belong to
  const Api &api;
  Context *context;
  Problem problem;
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<Executable> candidates;
  size_t chosen = 0;
  std::vector<Executable> rest; ///< what follows the convolution, if it is not fused
};

Status ConvPlan::build(const EngineLimits &limits, size_t alignment) {
  auto newGraph = [&]() -> Graph & {
    return *graphs.emplace_back(new Graph(api, context, alignment));
  };
  Graph &fused = newGraph();
  TENON_TRY(buildConvolution(fused, problem, true));
  Result<std::vector<Executable>> found = fused.compile(limits);
  if (!found && problem.hasEpilogue()) {
    Graph &alone = newGraph();
    TENON_TRY(buildConvolution(alone, problem, false));
    found = alone.compile(limits);
    Graph &after = newGraph();
    TENON_ASSIGN(size_t product, after.tensor(kResultAsInput, problem.result(), problem.type()));
    TENON_TRY(addEpilogue(after, problem, product));
    TENON_ASSIGN(rest, after.compile({limits.workspace, true, 1})); // has no products
  }
  if (!found) {
    return found.takeStatus();
  }
  candidates = std::move(*found);
  return Status::ok();
}

Status ConvPlan::measure(Meter &meter, MeasureMemory &memory) {
  std::vector<size_t> bytes = problem.bufferBytes();
  size_t workspace = rest.empty() ? 0 : rest.front().workspaceBytes();
  for (const Executable &candidate : candidates) {
    workspace = std::max(workspace, candidate.workspaceBytes());
  }
  bytes.push_back(workspace);
  TENON_TRY(memory.lay(bytes));
  TENON_ASSIGN(
      chosen,
      fastestOf(meter, candidates.size(), [&](size_t candidate, void *stream, unsigned round) {
        std::vector<void *> buffers;
        for (size_t i = 0; i < problem.bufferCount(); ++i) {
          buffers.push_back(memory.buffer(i, round));
        }
        return runCandidate(candidate, buffers, memory.buffer(buffers.size(), round), stream);
      }));
  return Status::ok();
}

std::optional<std::vector<std::byte>> ConvPlan::store() const {
  std::vector<const Executable *> plans = {&candidates[chosen]};
  if (!rest.empty()) {
    plans.push_back(&rest.front());
  }
  return storePlans(plans);
}

Status ConvPlan::restore(Bytes stored) {
  std::vector<int64_t> ids = {kResultAsInput};
  for (int64_t id = 0; id <= problem.resultId(); ++id) {
    ids.push_back(id);
  }
  TENON_ASSIGN(std::vector<Executable> plans, restorePlans(api, context, stored, ids));
  candidates.push_back(std::move(plans.front()));
  if (plans.size() == 2) {
    rest.push_back(std::move(plans.back()));
  }
  return Status::ok();
}

Status ConvPlan::runGraph(const Executable &graph, std::span<void *const> buffers, void *workspace,
                          void *stream) {
  void *pointers[8];
  size_t count = 0;
  for (int64_t id : graph.tensors()) {
    pointers[count++] = id == kResultAsInput ? buffers.back() : buffers[static_cast<size_t>(id)];
  }
  return graph.run(api, context, std::span(pointers, count), workspace, stream);
}

Status ConvPlan::runCandidate(size_t index, std::span<void *const> buffers, void *workspace,
                              void *stream) {
  if (buffers.size() != problem.bufferCount()) {
    return Status::error(ErrorId::EngineBadInstruction,
                         strCat("a convolution was given ", buffers.size(), " buffers instead of ",
                                problem.bufferCount()));
  }
  Status status = runGraph(candidates[index], buffers, workspace, stream);
  if (status && !rest.empty()) {
    status = runGraph(rest.front(), buffers, workspace, stream);
  }
  return status.prefix(problem.text());
}

std::string ConvPlan::describe() const {
  return strCat("cuDNN engine ", candidates[chosen].engineIndex(), ", choice ", chosen + 1, " of ",
                candidates.size(), rest.empty() ? "" : ", epilogue apart");
}

} // namespace

Result<std::shared_ptr<Cudnn>> Cudnn::open(const Options &options) {
  TENON_ASSIGN(Api api, openApi(options.folder));
  std::shared_ptr<Cudnn> library(new Cudnn(api, options));
  int status = library->api.create(&library->context);
  if (status != kSuccess) {
    return Status::error(
        ErrorId::LibraryFailed,
        strCat("cudnnCreate of ", api.library.path, " failed: ", api.getErrorString(status)),
        "check with 'tenon doctor' that the driver is new enough for it");
  }
  return library;
}

Cudnn::~Cudnn() {
  if (context) {
    api.destroy(context);
  }
}

Result<std::unique_ptr<Plan>> Cudnn::prepare(const engine::ConvCall &call,
                                             std::span<const int64_t> values, size_t alignment) {
  Sizes sizes{values[0], values[1], values[2], values[3], values[4],
              values[5], values[6], values[7], values[8]};
  bool isEmpty = std::any_of(values.begin(), values.end(), [](int64_t v) { return v == 0; });
  if (!dataTypeOf(call.type) || isEmpty || sizes.c % call.groups != 0) {
    return Status::error(ErrorId::LibraryUnsupported,
                         strCat("cuDNN is not called for empty convolutions, those of type ",
                                nameOf(call.type), " or ", sizes.c, " channels in ", call.groups,
                                " groups"),
                         "compile the model for another precision");
  }
  std::unique_ptr<ConvPlan> plan(
      new ConvPlan(shared_from_this(), api, context, Problem(call, sizes)));
  std::string key = cache.keyOf(std::as_bytes(std::span(&call, 1)), values, alignment);
  if (std::optional<std::vector<std::byte>> kept = options.meter ? std::nullopt : cache.find(key)) {
    if (plan->restore(*kept)) {
      return std::unique_ptr<Plan>(std::move(plan));
    }
  }
  EngineLimits limits{options.workspaceLimit, call.type != DType::F32 || call.allowTf32,
                      options.meter ? std::max(1u, options.candidates) : 1};
  Status status = plan->build(limits, alignment);
  if (status && options.meter) {
    status = plan->measure(*options.meter, memory);
  }
  if (!status) {
    return status.prefix(Problem(call, sizes).text());
  }
  std::optional<std::vector<std::byte>> stored =
      options.cacheFolder.empty() ? std::nullopt : plan->store();
  if (stored) {
    cache.keep(key, *stored);
  }
  return std::unique_ptr<Plan>(std::move(plan));
}

} // namespace tenon::library::cudnn
