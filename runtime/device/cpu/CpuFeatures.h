// Which instruction set levels this machine can run, the operating system's part included. It
// relies on CPUID and XGETBV.

#pragma once

#include "engine/CpuLevel.h"

#include <optional>

namespace tenon::runtime {

/// Best level that this machine runs; none below x86-64-v3 and on other architectures.
std::optional<engine::CpuLevel> bestCpuLevel();

} // namespace tenon::runtime
