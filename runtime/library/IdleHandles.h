// Handles of vendor libraries that nobody uses at the moment, kept for whoever needs one next. They
// are never destroyed: to destroy one waits for the whole context, which ends the process in the
// driver while another thread captures a graph (seen with cublasLtDestroy 13.1 and driver 580.159).
// There are as many as sessions were open at once.

#pragma once

#include <string>

namespace tenon::library {

/// A handle that was given back under this key, which names the library and the device; null
/// without one.
void *takeIdleHandle(const std::string &key);
/// From now on nobody uses the handle. Any thread; null is allowed.
void giveBackHandle(const std::string &key, void *handle);

} // namespace tenon::library
