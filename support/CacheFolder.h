// Where Tenon keeps what it can make again.

#pragma once

#include <string>

namespace tenon {

/// $XDG_CACHE_HOME/tenon or ~/.cache/tenon; empty where the environment names neither.
std::string userCacheFolder();

} // namespace tenon
