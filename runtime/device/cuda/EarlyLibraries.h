// The vendor libraries that an engine calls, opened while the GPU's context is made, and made ready
// while weights are sent: their first use takes as long as either. Relies on libraries staying open
// once they are, and on a first call doing what later ones then find done.

#pragma once

#include "engine/Reader.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/library/Library.h"

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tenon::runtime::cuda {

class EarlyLibraries {
public:
  /// Those that a variant for a GPU calls.
  explicit EarlyLibraries(const engine::EngineFile &file);
  ~EarlyLibraries();
  EarlyLibraries(const EarlyLibraries &) = delete;
  EarlyLibraries &operator=(const EarlyLibraries &) = delete;

  /// Begins to open them. For when NVIDIA's driver was found: it would wait until the dynamic
  /// loader is done with them. Errors are left to the call that needs the library.
  void open();
  /// Goes on with a first call of each for the plan's smallest dims. Once; the device must outlive
  /// this.
  void begin(const CudaDevice &device, const engine::Plan &plan, const library::Options &options);
  /// Waits until what was begun with a library is done. By any number of threads.
  void wait(const library::LibraryName *library) const;

private:
  struct Opening {
    const library::LibraryName *library = nullptr;
    std::thread opening; ///< `preparing` waits for it, once that is there
    std::thread preparing;
    std::mutex waiting;
    std::vector<std::byte> call; ///< none: only opened
    std::vector<int64_t> sizes;
    std::unique_ptr<library::Handles> handles; ///< kept, so that what they hold stays
  };

  static void wait(Opening &opening);
  static void findFirstCall(Opening &opening, const engine::Plan &plan);

  std::vector<std::unique_ptr<Opening>> openings;
};

} // namespace tenon::runtime::cuda
