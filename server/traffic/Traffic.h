// Which version answers requests that name none: the newest, or a split by weight; and a version
// that computes along in their shadow.

#pragma once

#include "server/batching/BatchScheduler.h"
#include "server/residency/ModelCatalog.h"
#include "support/random/Random.h"

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace tenon::server {

struct Traffic {
  std::map<int64_t, int64_t> weights; ///< by version; empty: all to the newest
  std::optional<int64_t> shadow;
};

struct ShadowDifference {
  uint64_t different = 0; ///< requests of which some bit of the output differed
  double largest = 0;     ///< between two elements
};

/// Requests that a shadow computed too.
struct ShadowStatistics {
  uint64_t compared = 0;
  uint64_t different = 0; ///< in some output
  uint64_t failed = 0;    ///< by the shadow alone
  uint64_t dropped = 0;   ///< the shadow's queue was full, or it was not ready
  std::map<std::string, ShadowDifference> outputs;
};

/// The traffic of a model, and what it was before.
struct TrafficState {
  Traffic now;
  std::vector<Traffic> before;
  ShadowStatistics shadow;
};

class TrafficControl {
public:
  explicit TrafficControl(const ModelCatalog &catalog) : catalog(catalog) {}

  /// Splits the requests of a model that name no version; TN0810, TN0852.
  Status set(const std::string &model, Traffic traffic);
  /// Back to the traffic before the last change, or else to the version before the one that
  /// answers; nothing is loaded for it. TN1012.
  Status rollback(const std::string &model);
  /// Of a model that never had any, too.
  const TrafficState &of(const std::string &model) const;

  /// The version that a request with this id, which may be empty, is drawn for; null where there is
  /// no split, or none of its versions.
  std::shared_ptr<Version> choose(const std::string &model, const std::string &id);
  /// Has the model's shadow, if there is one, compute the request too.
  void beginShadow(Request &request);

private:
  Status changed(const std::string &model, Traffic now, std::string_view what);

  const ModelCatalog &catalog;
  std::map<std::string, TrafficState> states; ///< by model
  Random chance{std::random_device()()};      ///< draws versions for requests without an id
};

} // namespace tenon::server
