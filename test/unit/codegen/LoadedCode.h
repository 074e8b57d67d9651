// Generated code brought into the test's own process: linked with the support object, loaded from
// an anonymous file as the runtime does. For the levels that this machine can run.
#pragma once

#include "compiler/codegen/cpu/CpuCodegen.h"

#include <string>
#include <vector>

namespace tenon::codegen::cpu {

/// The common levels that this machine has, lowest first, or those that are emulated in place
/// of them (foreign/Emulation.h).
std::vector<engine::CpuLevel> machineLevels();
/// All that it has, those with rare units too: for what multiplies by these.
std::vector<engine::CpuLevel> allMachineLevels();

/// Links `objects` with the support objects that they call; aborts with the error's text if that
/// fails.
std::string linkedCode(engine::CpuLevel level, const std::vector<std::string> &objects,
                       const std::vector<std::string> &symbols);

class LoadedCode {
public:
  /// Loads what linkedCode gives.
  LoadedCode(engine::CpuLevel level, const std::vector<std::string> &objects,
             const std::vector<std::string> &symbols);
  ~LoadedCode();
  LoadedCode(const LoadedCode &) = delete;
  LoadedCode &operator=(const LoadedCode &) = delete;

  /// Aborts if there is none.
  template <typename Function> Function *function(const std::string &symbol) const {
    return reinterpret_cast<Function *>(address(symbol));
  }

private:
  void *address(const std::string &symbol) const;

  int file = -1;
  void *handle = nullptr;
};

} // namespace tenon::codegen::cpu
