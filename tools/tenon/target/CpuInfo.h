// What the system says about the processor.

#pragma once

#include <string>
#include <string_view>

namespace tenon::tool {

/// The first value of a key of /proc/cpuinfo, as "model name"; empty where there is none.
std::string cpuInfo(std::string_view key);

} // namespace tenon::tool
