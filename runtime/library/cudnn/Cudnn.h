// Convolutions and attention by cuDNN: a handle, and plans of its calls. Relies on the caller for
// the current context.

#pragma once

#include "engine/LibraryAbi.h"
#include "runtime/library/Library.h"
#include "runtime/library/Measure.h"
#include "runtime/library/PlanCache.h"
#include "runtime/library/cudnn/CudnnApi.h"
#include "runtime/library/cudnn/Problem.h"

namespace tenon::library::cudnn {

/// Stays as long as one of its plans does.
class Cudnn : public std::enable_shared_from_this<Cudnn> {
public:
  static Result<std::shared_ptr<Cudnn>> open(const Options &options);
  ~Cudnn();
  Cudnn(const Cudnn &) = delete;
  Cudnn &operator=(const Cudnn &) = delete;

  template <typename Call>
  Result<std::unique_ptr<Plan>> prepare(const Call &call, std::span<const int64_t> sizes,
                                        size_t alignment);

private:
  Cudnn(const Api &functions, const Options &given)
      : api(functions), options(given), memory(given.meter),
        cache(given, "cuDNN " + versionOf(api)) {}

  /// `key` is the call's in the cache.
  Result<std::unique_ptr<Plan>> solve(std::unique_ptr<Problem> problem, const std::string &key,
                                      size_t alignment);

  Api api;
  Options options;
  Context *context = nullptr;
  MeasureMemory memory;
  PlanCache cache;
};

} // namespace tenon::library::cudnn
