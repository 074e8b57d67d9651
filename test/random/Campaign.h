// Many models in child processes, some a process, so that a crash costs one model only.
#pragma once

#include "test/random/Oracle.h"

#include <map>

namespace tenon::random {

struct CampaignOptions {
  uint64_t seed = 1;
  uint64_t count = 100;
  unsigned jobs = 1;
  unsigned secondsPerModel = 60;
  /// Ends after so many seconds; 0 for as long as it takes.
  unsigned seconds = 0;
  bool hasRelations = false;
  bool stopsAtFirst = false;
  OracleOptions oracle;
};

struct CampaignResult {
  uint64_t models = 0;
  uint64_t same = 0, refused = 0, untouched = 0, different = 0;
  std::map<std::string, uint64_t> operators; ///< how many nodes of each
  double seconds = 0;
};

/// Prints a line for each difference. Model number i has the seed `seed + i`.
CampaignResult runCampaign(const CampaignOptions &options);

} // namespace tenon::random
