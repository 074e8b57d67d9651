// The vendor libraries that an engine calls, opened while the GPU's context is made and weights are
// sent: opening them takes as long. Relies on libraries staying open once they are.

#pragma once

#include "engine/Reader.h"

#include <string>
#include <thread>

namespace tenon::runtime::cuda {

class EarlyLibraries {
public:
  /// Begins, in a thread, if a variant for a GPU calls a library and NVIDIA's driver is there. What
  /// cannot be opened is reported by the call that needs it.
  EarlyLibraries(const engine::EngineFile &file, const std::string &driverLibrary);
  /// Waits for the thread.
  ~EarlyLibraries();
  EarlyLibraries(const EarlyLibraries &) = delete;
  EarlyLibraries &operator=(const EarlyLibraries &) = delete;

private:
  std::thread thread;
};

} // namespace tenon::runtime::cuda
