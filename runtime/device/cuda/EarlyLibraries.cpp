// Opens by the same names as the calls will, which then find them open.

#include "runtime/device/cuda/EarlyLibraries.h"

#include "engine/CudaArch.h"
#include "runtime/library/Library.h"
#include "runtime/library/Loader.h"

#include <dlfcn.h>

#include <system_error>
#include <vector>

namespace tenon::runtime::cuda {
namespace {

struct Needed {
  bool cublasLt = false;
  bool cudnn = false;
};

Needed librariesOf(const engine::EngineFile &file) {
  Needed needed;
  for (const engine::Variant &variant : file.variants()) {
    if (!engine::isCudaLevel(variant.level)) {
      continue;
    }
    for (const engine::Instruction &instruction : variant.plan.instructions) {
      std::string_view name = library::libraryOf(instruction.call);
      needed.cublasLt |= name == "cublaslt";
      needed.cudnn |= name == "cudnn";
    }
  }
  return needed;
}

void open(Needed needed, const std::string &driverLibrary) {
  // Without a driver nothing will be called.
  if (!dlopen(driverLibrary.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    return;
  }
  if (needed.cublasLt) {
    (void)library::openLibrary(library::kCublasLt, "").isOk();
  }
  if (needed.cudnn) {
    (void)library::openLibrary(library::kCudnn, "").isOk();
  }
}

} // namespace

EarlyLibraries::EarlyLibraries(const engine::EngineFile &file, const std::string &driverLibrary) {
  Needed needed = librariesOf(file);
  if (!needed.cublasLt && !needed.cudnn) {
    return;
  }
  try {
    thread = std::thread([needed, driverLibrary] { open(needed, driverLibrary); });
  } catch (const std::system_error &) {
    // Without a thread they are opened when they are called.
  }
}

EarlyLibraries::~EarlyLibraries() {
  if (thread.joinable()) {
    thread.join();
  }
}

} // namespace tenon::runtime::cuda
