// NVIDIA's driver library, opened when a GPU is first asked for: its functions, and its errors as
// Status. It relies on the dynamic loader; without a driver Tenon works and says so.

#pragma once

#include "runtime/device/cuda/CudaApi.h"
#include "support/Result.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::runtime::cuda {

inline constexpr const char *kDriverLibrary = "libcuda.so.1";

struct DriverFunctions {
#define TENON_DECLARE(member, symbol, parameters) int(*member) parameters = nullptr;
  TENON_CUDA_FUNCTIONS(TENON_DECLARE)
#undef TENON_DECLARE
};

class CudaDriver : public DriverFunctions {
public:
  /// Opens and initializes `library`; DeviceNotFound says what is missing. `whenFound` is called in
  /// between: initializing takes long and leaves the dynamic loader to others.
  static Result<std::shared_ptr<const CudaDriver>>
  open(const std::string &library, const std::function<void()> &whenFound = {});

  /// 13000 for CUDA 13.0: the newest CUDA that the driver supports.
  int version() const { return driverVersion; }
  std::string versionText() const;

  /// Ok when `code` is success; else the driver's name and text for it, after what was being done.
  Status check(int code, std::string_view doing) const {
    return code == kSuccess ? Status::ok() : failure(code, doing);
  }

private:
  Status load(const std::string &library, const std::function<void()> &whenFound);
  Status failure(int code, std::string_view doing) const;

  int driverVersion = 0;
};

} // namespace tenon::runtime::cuda
