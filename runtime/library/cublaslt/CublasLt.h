// Matrix products by cuBLASLt: a handle, and plans of MatmulCall. Relies on the caller for the
// current context.

#pragma once

#include "engine/LibraryAbi.h"
#include "runtime/library/Library.h"
#include "runtime/library/Measure.h"
#include "runtime/library/PlanCache.h"
#include "runtime/library/cublaslt/CublasLtApi.h"

namespace tenon::library::cublaslt {

/// Stays as long as one of its plans does.
class CublasLt : public std::enable_shared_from_this<CublasLt> {
public:
  static Result<std::shared_ptr<CublasLt>> open(const Options &options);
  ~CublasLt();
  CublasLt(const CublasLt &) = delete;
  CublasLt &operator=(const CublasLt &) = delete;

  Result<std::unique_ptr<Plan>> prepare(const engine::MatmulCall &call,
                                        std::span<const int64_t> sizes, size_t alignment);
  Result<std::unique_ptr<Plan>> prepare(const engine::ScaledMatmulCall &call,
                                        std::span<const int64_t> sizes, size_t alignment);

private:
  /// `descriptor` is what was asked for, as the key of what is kept.
  Result<std::unique_ptr<Plan>> prepare(const engine::MatmulCall &call, DType operands,
                                        float factor, Bytes descriptor,
                                        std::span<const int64_t> sizes, size_t alignment);

  CublasLt(const Api &functions, const Options &given)
      : api(functions), options(given), memory(given.meter),
        cache(given, "cuBLASLt " + versionOf(api)) {}

  Api api;
  Options options;
  Context *context = nullptr;
  MeasureMemory memory;
  PlanCache cache;
};

} // namespace tenon::library::cublaslt
