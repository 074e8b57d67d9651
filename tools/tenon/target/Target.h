// The targets of the command line: `cpu` for every level, `cpu:avx2,avx512` for some, `cuda:sm_90`
// for a GPU's architecture, `cuda:h200` or `cpu:zen4` for a part, `cuda` for the GPU of this
// machine; several are joined by commas or given one by one. A level is called the same wherever
// one is named: as engines and `doctor` have it, or avx2 for x86-64-v3.

#pragma once

#include "compiler/target/Target.h"
#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// What an engine gets variants for: levels worst first, architectures oldest first, each once.
struct Targets {
  std::vector<engine::CpuLevel> levels;
  bool addsLevels = false; ///< as pipeline::CompileOptions::addsLevels: `cpu` names no level
  /// What decides for the levels, which share a plan.
  target::Target cpu = target::cpuTarget();
  std::vector<target::Target> gpus;
  /// What was assumed, for the user.
  std::vector<std::string> notes;
};

/// All CPU levels, which is the target when none is named.
std::vector<engine::CpuLevel> allLevels();
/// The name in an engine of a level or architecture: `avx2`, `cpu:avx2`, `sm_90` or `cuda:sm_90`.
Result<std::string> parseVariant(const std::string &text);
/// Looks for a GPU if `cuda` alone is among them.
Result<Targets> parseTargets(const std::vector<std::string> &texts);

} // namespace tenon::tool
