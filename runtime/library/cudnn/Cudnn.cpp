// From a call to a plan: kept ones first, then what the heuristics name. Relies on Problem for what
// the library is not to be asked.

#include "runtime/library/cudnn/Cudnn.h"

#include "runtime/library/IdleHandles.h"
#include "runtime/library/cudnn/GraphPlan.h"
#include "support/text/Text.h"

#include <algorithm>

namespace tenon::library::cudnn {

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

Result<std::shared_ptr<Cudnn>> Cudnn::open(const Options &options) {
  TENON_ASSIGN(Api api, openApi(options.folder));
  std::shared_ptr<Cudnn> library(new Cudnn(api, options));
  void *kept = acquireIdleHandle(library->api.library.path, options.ordinal);
  library->context = static_cast<Context *>(kept);
  int status = kept ? kSuccess : library->api.create(&library->context);
  if (status != kSuccess) {
    return Status::error(
        ErrorId::LibraryFailed,
        strCat("cudnnCreate of ", api.library.path, " failed: ", api.getErrorString(status)),
        "check with 'tenon doctor' that the driver is new enough for it");
  }
  return library;
}

Cudnn::~Cudnn() { releaseHandle(api.library.path, options.ordinal, context); }

template <typename Call>
Result<std::unique_ptr<Plan>> Cudnn::prepare(const Call &call, std::span<const int64_t> sizes,
                                             size_t alignment) {
  TENON_ASSIGN(std::unique_ptr<Problem> problem, problemOf(call, sizes));
  return solve(std::move(problem),
               cache.keyOf(std::as_bytes(std::span(&call, 1)), sizes, alignment), alignment);
}

Result<std::unique_ptr<Plan>> Cudnn::solve(std::unique_ptr<Problem> problem, const std::string &key,
                                           size_t alignment) {
  std::string text = problem->text();
  bool allowTensorCores = problem->allowsTensorCores();
  unsigned proposals = static_cast<unsigned>(problem->proposal()) + 1;
  std::unique_ptr<GraphPlan> plan(
      new GraphPlan(shared_from_this(), api, context, std::move(problem)));
  if (std::optional<std::vector<std::byte>> kept = options.meter ? std::nullopt : cache.find(key)) {
    if (plan->restore(*kept)) {
      return std::unique_ptr<Plan>(std::move(plan));
    }
  }
  EngineLimits limits{options.workspaceLimit, allowTensorCores,
                      options.meter ? std::max(proposals, options.candidates) : proposals};
  Status status = plan->build(limits, alignment);
  if (status && options.meter) {
    status = plan->measure(*options.meter, memory);
  }
  if (!status) {
    return status.prefix(text);
  }
  std::optional<std::vector<std::byte>> stored =
      options.cacheFolder.empty() ? std::nullopt : plan->store();
  if (stored) {
    cache.keep(key, *stored);
  }
  return std::unique_ptr<Plan>(std::move(plan));
}

template Result<std::unique_ptr<Plan>> Cudnn::prepare(const engine::ConvCall &,
                                                      std::span<const int64_t>, size_t);
template Result<std::unique_ptr<Plan>> Cudnn::prepare(const engine::AttentionCall &,
                                                      std::span<const int64_t>, size_t);

} // namespace tenon::library::cudnn
