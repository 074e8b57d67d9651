// What the page of a server is drawn from, as JSON: all counters at one moment. The page makes rates and quantiles of two of them.

#pragma once

#include "server/page/ErrorRing.h"
#include "server/page/RegistryDesk.h"
#include "server/scheduler/Models.h"

#include <string>
#include <string_view>

namespace tenon::server {

/// {"version", "started", "time", "ready", "draining", "worker_starts", "evictions", "memory_budget", "bounds_us", "registry", "index",
/// "models", "errors"}; docs/serving-page.md has the members. Times are milliseconds since 1970; `desk` may be null.
std::string describeStatus(const Models &models, const ErrorRing &errors, const RegistryDesk *desk, std::string_view version, int64_t started);

} // namespace tenon::server
