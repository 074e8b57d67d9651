// Handles of vendor libraries that nobody uses at the moment, kept for whoever needs one next. They
// are never destroyed: to destroy one waits for the whole context, which ends the process in the
// driver while another thread captures a graph (seen with cublasLtDestroy 13.1 and driver 580.159).
// There are as many as sessions were open at once.

#pragma once

#include <string>

namespace tenon::library {

/// A handle of the library at that path and of that device that was released; null without one.
void *acquireIdleHandle(const std::string &library, int ordinal);
/// From now on nobody uses the handle, which may be null. Any thread.
void releaseHandle(const std::string &library, int ordinal, void *handle);

} // namespace tenon::library
