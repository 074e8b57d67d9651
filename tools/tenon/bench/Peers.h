// `bench --against`: other frameworks are measured by the Python package, whose processes they run
// in.

#pragma once

#include "support/Status.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// What the Python package is asked; docs/guides/compare.md says what each means.
struct PeersRequest {
  std::string against; ///< names with commas between; empty for no comparison
  std::string model;
  std::vector<std::string> shapes;
  std::string device = "cpu";
  std::string format = "table";
  std::string output;
  double seconds = 0;
  unsigned threads = 0;
};

/// Puts the Python package into the place of this process; returns only if that fails.
Status comparePeers(const PeersRequest &request);

} // namespace tenon::tool
