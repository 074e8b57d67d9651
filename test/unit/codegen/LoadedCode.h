// Generated code brought into the test's own process: linked with the support object, loaded from
// an anonymous file as the runtime does. For the levels that this machine can run.
#pragma once

#include "compiler/codegen/cpu/CpuCodegen.h"

#include <string>
#include <vector>

namespace tenon::codegen::cpu {

/// The common levels that this machine has, lowest first.
std::vector<engine::CpuLevel> machineLevels();
/// All that it has, those with rare units too: for what multiplies by these.
std::vector<engine::CpuLevel> allMachineLevels();

class LoadedCode {
public:
  /// Links `objects` (with the support object of the level) and loads the result; aborts with the
  /// error's text if that fails.
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
