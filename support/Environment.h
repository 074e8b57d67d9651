// What the process's environment says.

#pragma once

#include <string>

namespace tenon {

/// A variable's value; empty if it is not set.
std::string environment(const char *name);

/// Where Tenon keeps what it can make again: $XDG_CACHE_HOME/tenon or ~/.cache/tenon; empty where
/// the environment names neither.
std::string userCacheFolder();

} // namespace tenon
