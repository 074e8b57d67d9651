// The vendor libraries that an engine calls, opened while the GPU's context is made, and made ready
// while weights are sent: their first use takes as long as either. Relies on libraries staying open
// once they are, and on a first call doing what later ones then find done.

#pragma once

#include "engine/Reader.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/library/Library.h"

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tenon::runtime::cuda {

class EarlyLibraries {
public:
  /// Begins to open them, if a variant for a GPU calls any and NVIDIA's driver is there. Errors are
  /// left to the call that needs the library.
  EarlyLibraries(const engine::EngineFile &file, const std::string &driverLibrary);
  ~EarlyLibraries();
  EarlyLibraries(const EarlyLibraries &) = delete;
  EarlyLibraries &operator=(const EarlyLibraries &) = delete;

  /// Goes on with a first call of each for the plan's smallest dims. Once.
  void begin(std::shared_ptr<const CudaDevice> device, const engine::Plan &plan,
             const library::Options &options);
  /// Waits until all that was begun is done. One thread at a time.
  void finish();

private:
  /// What a library needs to be made ready.
  struct FirstCall {
    std::shared_ptr<const CudaDevice> device; ///< null: only opened
    std::vector<std::byte> call;
    std::vector<int64_t> sizes;
    library::Options options;
  };
  struct Opening {
    std::promise<FirstCall> first;
    std::thread thread;
    const library::LibraryName *library = nullptr;
    bool isBegun = false;
    std::unique_ptr<library::Handles> handles; ///< kept, so that what they hold stays
  };

  void start(const library::LibraryName &library, const std::string &driverLibrary);
  static void run(Opening &opening, std::future<FirstCall> next, const std::string &driverLibrary);
  static FirstCall firstCallOf(const library::LibraryName &library, const engine::Plan &plan);

  std::vector<std::unique_ptr<Opening>> openings;
};

} // namespace tenon::runtime::cuda
