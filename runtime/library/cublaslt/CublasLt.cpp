// The library is column-major: a row-major D = A · B is the column-major Dᵀ = Bᵀ · Aᵀ over the same
// memory, so the operands swap places. Relies on the bias being a vector over the rows of Dᵀ.

#include "runtime/library/cublaslt/CublasLt.h"

#include "runtime/library/IdleHandles.h"
#include "support/text/Text.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tenon::library::cublaslt {
namespace {

struct Sizes {
  int64_t m, n, k, batch, lda, ldb, ldd, strideA, strideB, strideD;
};

std::optional<DataType> dataTypeOf(DType type) {
  switch (type) {
  case DType::F32:
    return kR32F;
  case DType::F64:
    return kR64F;
  case DType::F16:
    return kR16F;
  case DType::BF16:
    return kR16BF;
  case DType::F8E4M3FN:
    return kR8FE4M3;
  default:
    return std::nullopt;
  }
}

uint32_t epilogueOf(const engine::MatmulCall &call) {
  uint32_t epilogue = call.hasBias ? kEpilogueBias : 0;
  if (call.activation == engine::LibraryActivation::Relu) {
    epilogue |= kEpilogueRelu;
  } else if (call.activation == engine::LibraryActivation::GeluTanh) {
    epilogue |= kEpilogueGelu;
  }
  return epilogue ? epilogue : kEpilogueDefault;
}

/// Nothing to compute: a dim of the result is zero.
class EmptyPlan final : public Plan {
public:
  size_t workspaceBytes() const override { return 0; }
  Status run(std::span<void *const>, void *, void *) override { return Status::ok(); }
  std::string describe() const override { return "nothing to compute"; }
};

class MatmulPlan final : public Plan {
public:
  /// `operands` is the type of A and B, `sumFactor` what their product is multiplied by.
  MatmulPlan(std::shared_ptr<const void> owner, const Api &functions, Context *handle,
             const engine::MatmulCall &descriptor, const Sizes &dims, DType operands,
             float sumFactor)
      : library(std::move(owner)), api(functions), context(handle), call(descriptor), sizes(dims),
        operandType(operands), factor(sumFactor) {}
  ~MatmulPlan() override;

  Status build(size_t alignment);
  /// The algorithms that fit, the best by the library's own estimate first.
  Status choose(size_t workspaceLimit, size_t alignment, unsigned wanted);
  Status measure(Meter &meter, MeasureMemory &memory);
  /// The choice as bytes: the library allows keeping them for its version. False if they are none.
  Bytes store() const { return std::as_bytes(std::span(&algorithms[chosen], 1)); }
  bool restore(Bytes stored, size_t workspaceLimit);

  size_t workspaceBytes() const override { return algorithms[chosen].workspaceSize; }
  Status run(std::span<void *const> buffers, void *workspace, void *stream) override {
    return runAlgorithm(chosen, buffers, workspace, stream);
  }
  std::string describe() const override;

private:
  Status runAlgorithm(size_t index, std::span<void *const> buffers, void *workspace, void *stream);
  Status makeLayout(MatrixLayout *&layout, DType type, int64_t rows, int64_t columns,
                    int64_t leading, int64_t stride);
  Status makePreference(MatmulPreference *preference, uint64_t workspaceLimit, uint32_t alignment);
  Status check(int status, std::string_view function) const;
  int32_t configOf(size_t index, AlgoConfig attribute) const;
  size_t firstChoice() const;
  template <typename T> int setDesc(DescAttribute attribute, const T &value) {
    return api.descSet(desc, attribute, &value, sizeof(value));
  }
  std::vector<size_t> bufferBytes() const;
  size_t bufferCount() const { return 3u + call.hasBias + call.hasResidual; }

  std::shared_ptr<const void> library; ///< that `api` and `context` belong to
  const Api &api;
  Context *context;
  engine::MatmulCall call;
  Sizes sizes;
  DType operandType;
  float factor;
  MatmulDesc *desc = nullptr;
  MatrixLayout *layoutA = nullptr;
  MatrixLayout *layoutB = nullptr;
  MatrixLayout *layoutD = nullptr;
  std::vector<HeuristicResult> algorithms;
  size_t chosen = 0;
};

MatmulPlan::~MatmulPlan() {
  for (MatrixLayout *layout : {layoutA, layoutB, layoutD}) {
    if (layout) {
      api.layoutDestroy(layout);
    }
  }
  if (desc) {
    api.descDestroy(desc);
  }
}

Status MatmulPlan::check(int status, std::string_view function) const {
  if (status == kSuccess) {
    return Status::ok();
  }
  std::string product = strCat(nameOf(operandType), " matmul of ", sizes.m, " x ", sizes.n, " x ",
                               sizes.k, ", batch ", sizes.batch);
  if (status == kNotSupported) {
    return Status::error(ErrorId::LibraryUnsupported,
                         strCat("cuBLASLt ", versionOf(api), " has no algorithm for the ", product),
                         "update cuBLASLt, or report this with the model");
  }
  return Status::error(ErrorId::LibraryFailed, strCat(function, " failed for the ", product, ": ",
                                                      api.getStatusName(status)));
}

/// `rows` and `columns` are those of the row-major matrix as it is stored.
Status MatmulPlan::makeLayout(MatrixLayout *&layout, DType type, int64_t rows, int64_t columns,
                              int64_t leading, int64_t stride) {
  int64_t width = rows == 1 ? std::max(leading, columns) : leading;
  TENON_TRY(check(api.layoutCreate(&layout, *dataTypeOf(type), columns, rows, width),
                  "cublasLtMatrixLayoutCreate"));
  int32_t count = static_cast<int32_t>(sizes.batch);
  int status = api.layoutSet(layout, kLayoutBatchCount, &count, sizeof(count));
  if (status == kSuccess) {
    status = api.layoutSet(layout, kLayoutStridedBatchOffset, &stride, sizeof(stride));
  }
  return check(status, "cublasLtMatrixLayoutSetAttribute");
}

Status MatmulPlan::build(size_t alignment) {
  bool isDouble = call.type == DType::F64;
  bool isTf32 = call.type == DType::F32 && call.allowTf32;
  int compute = isDouble ? kCompute64F : isTf32 ? kCompute32FFastTF32 : kCompute32F;
  TENON_TRY(
      check(api.descCreate(&desc, compute, isDouble ? kR64F : kR32F), "cublasLtMatmulDescCreate"));
  int status = setDesc(kDescTransA, int32_t(call.transposeB ? kOpT : kOpN));
  if (status == kSuccess) {
    status = setDesc(kDescTransB, int32_t(call.transposeA ? kOpT : kOpN));
  }
  if (status == kSuccess) {
    status = setDesc(kDescEpilogue, epilogueOf(call));
  }
  if (status == kSuccess && operandType == DType::F8E4M3FN) {
    // Sums stay in the tensor core, where they have 14 bits and more: 16 times the precision of
    // what is multiplied. 4 to 8 % faster on an H100, and what our own kernel does.
    status = setDesc(kDescFastAccum, int8_t(1));
  }
  if (status == kSuccess && call.hasBias) {
    // The heuristics read the alignment from the pointer; `run` puts the real one.
    status = setDesc(kDescBiasPointer, reinterpret_cast<const void *>(alignment));
    if (status == kSuccess && operandType != call.type) {
      status = setDesc(kDescBiasType, int32_t(*dataTypeOf(call.type)));
    }
  }
  TENON_TRY(check(status, "cublasLtMatmulDescSetAttribute"));
  const Sizes &s = sizes;
  TENON_TRY(makeLayout(layoutA, operandType, call.transposeA ? s.k : s.m,
                       call.transposeA ? s.m : s.k, s.lda, s.strideA));
  TENON_TRY(makeLayout(layoutB, operandType, call.transposeB ? s.n : s.k,
                       call.transposeB ? s.k : s.n, s.ldb, s.strideB));
  return makeLayout(layoutD, call.type, s.m, s.n, s.ldd, s.strideD);
}

Status MatmulPlan::makePreference(MatmulPreference *preference, uint64_t workspaceLimit,
                                  uint32_t alignment) {
  int status = api.preferenceSet(preference, kPrefMaxWorkspaceBytes, &workspaceLimit,
                                 sizeof(workspaceLimit));
  for (PreferenceAttribute attribute : {kPrefMinAlignmentABytes, kPrefMinAlignmentBBytes,
                                        kPrefMinAlignmentCBytes, kPrefMinAlignmentDBytes}) {
    if (status == kSuccess) {
      status = api.preferenceSet(preference, attribute, &alignment, sizeof(alignment));
    }
  }
  uint32_t schemes = kReductionComputeType;
  if (status == kSuccess) {
    status = api.preferenceSet(preference, kPrefReductionSchemeMask, &schemes, sizeof(schemes));
  }
  return check(status, "cublasLtMatmulPreferenceSetAttribute");
}

Status MatmulPlan::choose(size_t workspaceLimit, size_t alignment, unsigned wanted) {
  MatmulPreference *preference = nullptr;
  TENON_TRY(check(api.preferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
  Status status = makePreference(preference, workspaceLimit, static_cast<uint32_t>(alignment));
  std::vector<HeuristicResult> found(wanted);
  int count = 0;
  if (status) {
    status = check(api.getHeuristic(context, desc, layoutB, layoutA, layoutD, layoutD, preference,
                                    static_cast<int>(wanted), found.data(), &count),
                   "cublasLtMatmulAlgoGetHeuristic");
  }
  api.preferenceDestroy(preference);
  TENON_TRY(status);
  found.resize(static_cast<size_t>(count));
  for (const HeuristicResult &result : found) {
    if (result.state == kSuccess && result.workspaceSize <= workspaceLimit) {
      algorithms.push_back(result);
    }
  }
  if (algorithms.empty()) {
    return check(kNotSupported, "");
  }
  chosen = firstChoice();
  return Status::ok();
}

int32_t MatmulPlan::configOf(size_t index, AlgoConfig attribute) const {
  int32_t value = -1;
  size_t written = 0;
  api.getAlgoConfig(&algorithms[index].algo, attribute, &value, sizeof(value), &written);
  return value;
}

size_t MatmulPlan::firstChoice() const {
  const engine::MatmulHint &hint = call.hint;
  if (hint.version == 0) {
    return size_t(hint.algorithm) < algorithms.size() ? size_t(hint.algorithm) : 0;
  }
  if (static_cast<size_t>(hint.version) != api.getVersion() / 100 || sizes.m < hint.leastRows) {
    return 0;
  }
  for (size_t i = 0; i < algorithms.size(); ++i) {
    if (configOf(i, kAlgoId) == hint.algorithm && configOf(i, kAlgoTile) == hint.tile &&
        configOf(i, kAlgoSplitK) == hint.splitK) {
      return i;
    }
  }
  return 0;
}

std::vector<size_t> MatmulPlan::bufferBytes() const {
  auto extent = [&](DType type, int64_t rows, int64_t columns, int64_t leading, int64_t stride) {
    int64_t elements = (sizes.batch - 1) * stride + (rows - 1) * leading + columns;
    return static_cast<size_t>(elements) * bitWidth(type) / 8;
  };
  const Sizes &s = sizes;
  std::vector<size_t> bytes = {extent(operandType, call.transposeA ? s.k : s.m,
                                      call.transposeA ? s.m : s.k, s.lda, s.strideA),
                               extent(operandType, call.transposeB ? s.n : s.k,
                                      call.transposeB ? s.k : s.n, s.ldb, s.strideB)};
  if (call.hasBias) {
    bytes.push_back(extent(call.type, 1, s.n, s.n, 0));
  }
  bytes.resize(bufferCount(), extent(call.type, s.m, s.n, s.ldd, s.strideD));
  return bytes;
}

Status MatmulPlan::measure(Meter &meter, MeasureMemory &memory) {
  std::vector<size_t> bytes = bufferBytes();
  size_t workspace = 0;
  for (const HeuristicResult &algorithm : algorithms) {
    workspace = std::max(workspace, algorithm.workspaceSize);
  }
  bytes.push_back(workspace);
  TENON_TRY(memory.lay(bytes));
  TENON_ASSIGN(
      chosen,
      fastestOf(meter, algorithms.size(), [&](size_t candidate, void *stream, unsigned round) {
        std::vector<void *> buffers;
        for (size_t i = 0; i < bufferCount(); ++i) {
          buffers.push_back(memory.buffer(i, round));
        }
        return runAlgorithm(candidate, buffers, memory.buffer(bufferCount(), round), stream);
      }));
  return Status::ok();
}

bool MatmulPlan::restore(Bytes stored, size_t workspaceLimit) {
  HeuristicResult kept;
  if (stored.size() != sizeof(kept)) {
    return false;
  }
  std::memcpy(&kept, stored.data(), sizeof(kept));
  if (kept.workspaceSize > workspaceLimit) {
    return false;
  }
  algorithms.push_back(kept);
  return true;
}

Status MatmulPlan::runAlgorithm(size_t index, std::span<void *const> buffers, void *workspace,
                                void *stream) {
  if (buffers.size() != bufferCount()) {
    return Status::error(
        ErrorId::EngineBadInstruction,
        strCat("a matmul was given ", buffers.size(), " buffers instead of ", bufferCount()));
  }
  if (call.hasBias) {
    const void *bias = buffers[2];
    TENON_TRY(check(setDesc(kDescBiasPointer, bias), "cublasLtMatmulDescSetAttribute"));
  }
  void *d = buffers.back();
  const void *c = call.hasResidual ? buffers[buffers.size() - 2] : d;
  float factors[] = {factor, call.hasResidual ? 1.0f : 0.0f};
  double doubles[] = {factors[0], factors[1]};
  bool isDouble = call.type == DType::F64;
  const void *alpha = isDouble ? static_cast<const void *>(&doubles[0]) : &factors[0];
  const void *beta = isDouble ? static_cast<const void *>(&doubles[1]) : &factors[1];
  const HeuristicResult &algorithm = algorithms[index];
  return check(api.matmul(context, desc, alpha, buffers[1], layoutB, buffers[0], layoutA, beta, c,
                          layoutD, d, layoutD, &algorithm.algo, workspace, algorithm.workspaceSize,
                          stream),
               "cublasLtMatmul");
}

std::string MatmulPlan::describe() const {
  auto config = [&](AlgoConfig attribute) { return configOf(chosen, attribute); };
  return strCat("cuBLASLt algorithm ", config(kAlgoId), ", tile ", config(kAlgoTile), ", stages ",
                config(kAlgoStages), ", split-k ", config(kAlgoSplitK), ", choice ", chosen + 1,
                " of ", algorithms.size());
}

} // namespace

Result<std::shared_ptr<CublasLt>> CublasLt::open(const Options &options) {
  TENON_ASSIGN(Api api, openApi(options.folder));
  std::shared_ptr<CublasLt> library(new CublasLt(api, options));
  void *kept = acquireIdleHandle(library->api.library.path, options.ordinal);
  library->context = static_cast<Context *>(kept);
  int status = kept ? kSuccess : library->api.create(&library->context);
  if (status != kSuccess) {
    return Status::error(
        ErrorId::LibraryFailed,
        strCat("cublasLtCreate of ", api.library.path, " failed: ", api.getStatusName(status)),
        "check with 'tenon doctor' that the driver is new enough for it");
  }
  return library;
}

CublasLt::~CublasLt() { releaseHandle(api.library.path, options.ordinal, context); }

Result<std::unique_ptr<Plan>> CublasLt::prepare(const engine::MatmulCall &call,
                                                std::span<const int64_t> values, size_t alignment) {
  return prepare(call, call.type, 1, std::as_bytes(std::span(&call, 1)), values, alignment);
}

Result<std::unique_ptr<Plan>> CublasLt::prepare(const engine::ScaledMatmulCall &call,
                                                std::span<const int64_t> values, size_t alignment) {
  engine::MatmulCall product{.type = call.type,
                             .transposeB = true,
                             .hasBias = call.hasBias,
                             .hasResidual = call.hasResidual,
                             .activation = call.activation,
                             .hint = {.algorithm = call.proposal}};
  int64_t m = values[0], n = values[1], k = values[2];
  std::array<int64_t, engine::kMatmulSizes> sizes = {m, n, k, 1, values[3], values[4], n, 0, 0, 0};
  return prepare(product, DType::F8E4M3FN, call.factor, std::as_bytes(std::span(&call, 1)), sizes,
                 alignment);
}

Result<std::unique_ptr<Plan>> CublasLt::prepare(const engine::MatmulCall &call, DType operands,
                                                float factor, Bytes descriptor,
                                                std::span<const int64_t> values, size_t alignment) {
  Sizes sizes{values[0], values[1], values[2], values[3], values[4],
              values[5], values[6], values[7], values[8], values[9]};
  bool isCalled = dataTypeOf(call.type) && call.type != DType::F8E4M3FN;
  if (!isCalled || sizes.k == 0 || sizes.batch > INT32_MAX) {
    return Status::error(ErrorId::LibraryUnsupported,
                         strCat("cuBLASLt is not called for matmuls of type ", nameOf(call.type),
                                " with a depth of ", sizes.k, " and a batch of ", sizes.batch),
                         "compile the model for another precision");
  }
  if (sizes.m == 0 || sizes.n == 0 || sizes.batch == 0) {
    return std::unique_ptr<Plan>(new EmptyPlan);
  }
  std::unique_ptr<MatmulPlan> plan(
      new MatmulPlan(shared_from_this(), api, context, call, sizes, operands, factor));
  TENON_TRY(plan->build(alignment));
  std::string key = cache.keyOf(descriptor, values, alignment);
  std::optional<std::vector<std::byte>> kept = options.meter ? std::nullopt : cache.find(key);
  if (kept && plan->restore(*kept, options.workspaceLimit)) {
    return std::unique_ptr<Plan>(std::move(plan));
  }
  TENON_TRY(plan->choose(options.workspaceLimit, alignment, std::max(1u, options.candidates)));
  if (options.meter) {
    TENON_TRY(plan->measure(*options.meter, memory));
    cache.keep(key, plan->store()); // the library's own first choice takes milliseconds
  }
  return std::unique_ptr<Plan>(std::move(plan));
}

} // namespace tenon::library::cublaslt
