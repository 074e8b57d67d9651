// What the page of a server is drawn from, as JSON: all counters at one moment. The page makes
// rates and quantiles of two of them.

#pragma once

#include "server/api/ErrorRing.h"
#include "server/api/ModelServer.h"
#include "server/api/RegistryAdmin.h"

#include <string>
#include <string_view>

namespace tenon::server {

/// {"version", "started", "time", "ready", "draining", "bounds_us", "registry", "devices",
/// "workers", "index", "models", "errors"}: "registry" is null or {"model", "alias"}, "index" that
/// of the repository, "models" has the traffic and versions of each by name, with their histograms
/// as counts of bins that end at "bounds_us" and one above. Times are milliseconds since 1970.
/// `admin` may be null.
std::string describeStatus(const ModelServer &models, const ErrorRing &errors,
                           const RegistryAdmin *admin, std::string_view version, int64_t started);

} // namespace tenon::server
