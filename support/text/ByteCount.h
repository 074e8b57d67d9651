// Amounts of memory as text.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

/// "12.3 MiB".
std::string formatBytes(uint64_t bytes);

} // namespace tenon
