// Values are read as the command line has them, with their units.

#include "tools/tenon/quant/SearchOptions.h"

#include "tools/tenon/accuracy/Metric.h"
#include "tools/tenon/inputs/Units.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

#include <filesystem>

namespace tenon::tool {
namespace {

constexpr double kDefaultBudget = 300;
constexpr uint64_t kDefaultSamples = 32;

Status refuseSearch(std::string what, std::string next) {
  return Status::error(ErrorId::BadArgument, std::move(what), std::move(next));
}

} // namespace

Status checkSearch(const SearchOptions &options, bool isOtherForm) {
  if (options.isAsked() && isOtherForm) {
    return refuseSearch("a search chooses between int8 with calibrated ranges and FP32; "
                        "--weights-only, --dynamic and --precision fp8 are neither",
                        "leave one of them out");
  }
  bool isEvaluated = !options.report.empty(); // by the report
  std::pair<const char *, bool> ofSearch[] = {{"--test", !options.test.empty() && !isEvaluated},
                                              {"--metric", !options.metric.empty() && !isEvaluated},
                                              {"--budget", options.budget.has_value()},
                                              {"--error-samples", options.samples.has_value()},
                                              {"--state", !options.state.empty()}};
  for (auto [name, isGiven] : ofSearch) {
    if (isGiven && !options.isAsked()) {
      return refuseSearch(fmt::format("{} has no effect without a search", name),
                          "add --accuracy-drop or --latency");
    }
  }
  return options.metric.empty() ? Status::ok() : parseMetric(options.metric).takeStatus();
}

Result<SearchRequest> searchRequest(const SearchOptions &options,
                                    const CalibrationRequest &calibration,
                                    const quant::Settings &settings, const std::string &output) {
  SearchRequest request;
  request.calibration = calibration;
  request.settings = settings;
  request.test = options.test;
  request.metric = options.metric;
  request.budget = options.budget.value_or(kDefaultBudget);
  request.samples = options.samples.value_or(kDefaultSamples);
  request.statePath = options.state.empty() ? output + ".search.json" : options.state;
  if (!options.drop.empty()) {
    constexpr Unit kPercent[] = {{"%", 0.01}};
    request.drop = numberWithUnit(options.drop, kPercent);
    if (!request.drop) {
      return refuseSearch(
          fmt::format("--accuracy-drop {}: not a percentage", view::visible(options.drop)),
          "give it with its sign, such as 0.5%");
    }
  }
  if (!options.latency.empty()) {
    request.milliseconds = numberWithUnit(options.latency, kTimes);
    if (!request.milliseconds || *request.milliseconds == 0) {
      return refuseSearch(fmt::format("--latency {}: not a time", view::visible(options.latency)),
                          "give it with its unit, such as 4ms or 800us");
    }
  }
  return request;
}

void forgetState(const SearchOptions &options, const SearchRequest &request) {
  std::error_code ignored; // of no use to anyone, and in nobody's way
  if (options.state.empty()) {
    std::filesystem::remove(request.statePath, ignored);
  }
}

} // namespace tenon::tool
