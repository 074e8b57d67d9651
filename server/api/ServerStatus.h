// What the page of a server is drawn from, as JSON: all counters at one moment. The page makes
// rates and quantiles of two of them.

#pragma once

#include "server/api/ErrorRing.h"
#include "server/api/ModelServer.h"
#include "server/api/RecentTexts.h"
#include "server/api/RegistryAdmin.h"
#include "server/api/StatusQuery.h"

#include <string>
#include <string_view>

namespace tenon::server {

/// What the status tells besides the models.
struct ServerFacts {
  const ErrorRing &errors;
  const RecentTexts &texts;
  const RegistryAdmin *admin; ///< may be null
  std::string_view version;
  int64_t started;
};

/// {"version", "started", "time", "ready", "draining", "bounds_us", "registry", "devices",
/// "workers", "all", "found", "index", "totals", "models", "errors", "texts"}: "registry" is null
/// or
/// {"model", "alias"}, of the only model or the chosen one. "index" has the rows of the query, with
/// "labels"; "all" and "found" say how many versions there are and how many match. "models" has the
/// traffic and versions of those rows' models by name, with their histograms as counts of bins that
/// end at "bounds_us" and one above; "totals" the sums over all versions. "texts" are
/// the last requests to language models. Times are milliseconds since 1970.
std::string describeStatus(const ModelServer &models, const StatusQuery &query,
                           const RecentTraffic &recent, const ServerFacts &facts);

} // namespace tenon::server
