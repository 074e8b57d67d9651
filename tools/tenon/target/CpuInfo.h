// What Linux says of this machine's CPU.

#pragma once

#include <string>
#include <string_view>

namespace tenon::tool {

/// A value of the first processor in /proc/cpuinfo, as "model name"; empty where it has none.
std::string cpuInfo(std::string_view key);

} // namespace tenon::tool
