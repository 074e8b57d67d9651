// Measures this machine for a device profile (docs/reference/targets.md): its CPU, and its GPU
// where there is one.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"
#include "tools/tenon/task/TaskListener.h"

#include <string>

namespace tenon::tool {

/// A whole profile, with what could be measured; says on stderr what could not. Takes seconds, and
/// all CPUs that the process may use: nothing else should run.
Result<Json> calibrate(const std::string &cpuName, TaskListener &listener);

} // namespace tenon::tool
