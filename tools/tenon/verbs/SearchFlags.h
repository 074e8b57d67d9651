// The flags of `tenon quantize` that make it search, and what they ask for.

#pragma once

#include "tools/tenon/quant/Search.h"

namespace CLI {
class App;
} // namespace CLI

namespace tenon::tool {

struct SearchFlags {
  std::string drop, latency; ///< "0.5%", "4ms"; empty where they were not given
  std::string test, metric, state;
  std::string report; ///< a page, with or without a search
  std::optional<double> budget;
  std::optional<uint64_t> samples;

  bool isAsked() const { return !drop.empty() || !latency.empty(); }
};

void declareSearchFlags(CLI::App &command, SearchFlags &flags);
/// Flags that would do nothing. With a report, samples and metric are its too. `isOtherForm`:
/// layers become something that a search does not choose.
Status checkSearchFlags(const SearchFlags &flags, bool isOtherForm);
Result<SearchRequest> searchRequest(const SearchFlags &flags, const CalibrationRequest &calibration,
                                    const quant::Settings &settings, const std::string &output);
/// Removes a state that was not asked for by its name: the answer is written.
void forgetState(const SearchFlags &flags, const SearchRequest &request);

} // namespace tenon::tool
