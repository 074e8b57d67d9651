// Looks every function up once. The library stays open to the end of the process: it has threads of
// its own.

#include "runtime/device/cuda/CudaDriver.h"

#include "support/text/Text.h"

#include <dlfcn.h>

namespace tenon::runtime::cuda {
namespace {

/// CUDA 12.3 is the first with all functions of CudaApi.h.
constexpr int kMinVersion = 12030;

Status notFound(std::string_view message, const char *hint) {
  return Status::error(ErrorId::DeviceNotFound, message, hint);
}

} // namespace

Result<std::shared_ptr<const CudaDriver>> CudaDriver::open(const std::string &library,
                                                           const std::function<void()> &whenFound) {
  std::shared_ptr<CudaDriver> driver(new CudaDriver());
  TENON_TRY(driver->load(library, whenFound));
  return std::shared_ptr<const CudaDriver>(std::move(driver));
}

Status CudaDriver::load(const std::string &library, const std::function<void()> &whenFound) {
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return notFound(strCat("NVIDIA's driver library ", library,
                           " was not found: ", reason ? reason : "unknown reason"),
                    "install NVIDIA's driver, or use a variant for the CPU");
  }
  driverGetVersion =
      reinterpret_cast<decltype(driverGetVersion)>(dlsym(handle, "cuDriverGetVersion"));
  if (!driverGetVersion || driverGetVersion(&driverVersion) != kSuccess ||
      driverVersion < kMinVersion) {
    return notFound(
        strCat("NVIDIA's driver ", library, " supports CUDA ", versionText(), "; Tenon needs 12.3"),
        "install a newer driver (545 or later), or use a variant for the CPU");
  }
  const char *missing = nullptr;
#define TENON_LOAD(member, symbol, parameters)                                                     \
  member = reinterpret_cast<decltype(member)>(dlsym(handle, symbol));                              \
  missing = member ? missing : symbol;
  TENON_CUDA_FUNCTIONS(TENON_LOAD)
#undef TENON_LOAD
  if (missing) {
    return notFound(strCat("NVIDIA's driver ", library, " has no function ", missing),
                    "install NVIDIA's driver again, or use a variant for the CPU");
  }
  if (whenFound) {
    whenFound();
  }
  int code = init(0);
  return code == kNoDevice ? notFound("NVIDIA's driver found no GPU",
                                      "make a GPU visible, or use a variant for the CPU")
                           : check(code, "starting NVIDIA's driver");
}

std::string CudaDriver::versionText() const {
  return strCat(driverVersion / 1000, ".", driverVersion % 1000 / 10);
}

Status CudaDriver::failure(int code, std::string_view doing) const {
  const char *name = nullptr;
  const char *text = nullptr;
  if (getErrorName(code, &name) != kSuccess || getErrorString(code, &text) != kSuccess || !name ||
      !text) {
    name = "an unnamed error";
    text = "unknown";
  }
  std::string message = strCat(doing, ": NVIDIA's driver reported ", name, " (", code, "): ", text);
  if (code == kOutOfMemory) {
    return Status::error(ErrorId::RunOutOfMemory, message,
                         "use smaller dims or free memory of the GPU");
  }
  return Status::error(ErrorId::DeviceFailed, message,
                       "see `tenon help TN0703`; after a kernel fault the process must end");
}

} // namespace tenon::runtime::cuda
