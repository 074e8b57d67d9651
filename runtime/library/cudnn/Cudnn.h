// Convolutions by cuDNN: a handle, and plans of ConvCall. Relies on the caller for the current
// context.

#pragma once

#include "engine/LibraryAbi.h"
#include "runtime/library/Library.h"
#include "runtime/library/Measure.h"
#include "runtime/library/cudnn/CudnnApi.h"

namespace tenon::library::cudnn {

class Cudnn {
public:
  static Result<std::unique_ptr<Cudnn>> open(const Options &options);
  ~Cudnn();
  Cudnn(const Cudnn &) = delete;
  Cudnn &operator=(const Cudnn &) = delete;

  Result<std::unique_ptr<Plan>> prepare(const engine::ConvCall &call,
                                        std::span<const int64_t> sizes, size_t alignment);

private:
  Cudnn(const Api &functions, const Options &given)
      : api(functions), options(given), memory(given.meter) {}

  Api api;
  Options options;
  Context *context = nullptr;
  MeasureMemory memory;
};

} // namespace tenon::library::cudnn
