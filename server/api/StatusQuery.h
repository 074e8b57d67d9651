// Which models the page of a server asks for: those that a person looks for, in an order, a page at
// a time. So what it asks and gets does not grow with the number of models.

#pragma once

#include "server/api/RecentTraffic.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

struct StatusQuery {
  static constexpr size_t kMaxRows = 200;

  /// Words that a row must have all: in its model's name or one of its labels ("@production",
  /// "team=vision").
  std::vector<std::string> words;
  std::string state;  ///< "ready", "cold", "loading", "unloading" or "unavailable"; empty: any
  std::string order;  ///< "name", "traffic", "latency", "errors" or "memory", the largest first
  std::string chosen; ///< a model that is told of besides; empty: none
  size_t first = 0;   ///< row
  size_t count = kMaxRows;
};

/// Of find=WORDS&state=STATE&order=ORDER&chosen=MODEL&first=N&count=N, each of which may be
/// missing. TN0806.
Result<StatusQuery> parseStatusQuery(std::string_view text);

struct StatusRow {
  const Model *model;
  const Version *version;
};

struct StatusRows {
  std::vector<StatusRow> rows; ///< of the page
  size_t found = 0, all = 0;
};

/// "ready", "cold", ...
std::string_view rowState(const Version &version);
/// Those that are not ready come first where nothing else orders them.
StatusRows chooseRows(const ModelCatalog &catalog, const StatusQuery &query,
                      const RecentTraffic &recent);

} // namespace tenon::server
