// Which features this machine's CPU has for generated code, the operating system's part included.
// It relies on CPUID and XGETBV, on Arm on what the kernel passes to a process.

#pragma once

#include "engine/Level.h"

#include <optional>

namespace tenon::runtime {

#if defined(__x86_64__)
inline constexpr engine::Architecture kHostArchitecture = engine::Architecture::X86_64;
#elif defined(__aarch64__)
inline constexpr engine::Architecture kHostArchitecture = engine::Architecture::AArch64;
#else
inline constexpr engine::Architecture kHostArchitecture = engine::Architecture::RiscV64;
#endif

/// Features of kHostArchitecture (engine/Level.h).
uint32_t hostFeatures();

/// Asks the system for what these features of the host need beyond being there: AMX's tiles are a
/// process's only by permission, which it then keeps. False where that is refused. Before the first
/// thread runs code that uses them.
bool acquireFeatures(uint32_t features);

/// Best level of the table that this machine runs; null for none.
const engine::Level *bestHostLevel();

/// The same, as the compiler names it; none where it compiles for no level that the machine runs.
inline std::optional<engine::CpuLevel> bestCpuLevel() {
  const engine::Level *best = bestHostLevel();
  return best ? engine::parseCpuLevel(best->name) : std::nullopt;
}

/// Whether this machine runs what the compiler makes for a level.
inline bool runsHere(engine::CpuLevel level) {
  const engine::Level *row = engine::findLevel(nameOf(level));
  return row->architecture == kHostArchitecture && (row->features & ~hostFeatures()) == 0;
}

} // namespace tenon::runtime
