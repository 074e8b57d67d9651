// What makes quantizing a search, as a user words it, and what it asks for.

#pragma once

#include "tools/tenon/quant/Search.h"

namespace tenon::tool {

struct SearchOptions {
  std::string drop, latency; ///< "0.5%", "4ms"; empty where they were not given
  std::string test, metric, state;
  std::string report; ///< a page, with or without a search
  std::optional<double> budget;
  std::optional<uint64_t> samples;

  bool isAsked() const { return !drop.empty() || !latency.empty(); }
};

/// Options that would do nothing. With a report, samples and metric are its too. `isOtherForm`:
/// layers become something that a search does not choose.
Status checkSearch(const SearchOptions &options, bool isOtherForm);
Result<SearchRequest> searchRequest(const SearchOptions &options,
                                    const CalibrationRequest &calibration,
                                    const quant::Settings &settings, const std::string &output);
/// Removes a state that was not asked for by its name: the answer is written.
void forgetState(const SearchOptions &options, const SearchRequest &request);

} // namespace tenon::tool
