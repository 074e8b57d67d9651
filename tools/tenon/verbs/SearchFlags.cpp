// Implements reading the flags.

#include "tools/tenon/verbs/SearchFlags.h"

#include "tools/tenon/accuracy/Metric.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/inputs/Units.h"
#include "tools/view/Escape.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <filesystem>

namespace tenon::tool {
namespace {

constexpr double kDefaultBudget = 300;
constexpr uint64_t kDefaultSamples = 32, kMaxSamples = 4096;

Status refuseFlags(std::string what, std::string next) {
  return Status::error(ErrorId::BadArgument, std::move(what), std::move(next));
}

} // namespace

void declareSearchFlags(CLI::App &command, SearchFlags &flags) {
  command.add_option(
      "--accuracy-drop", flags.drop,
      "Search for the fastest form that loses at most this: 0.5% is half a point of top1");
  command.add_option("--latency", flags.latency,
                     "Search for the most accurate form that takes at most this for a sample, on "
                     "this machine: 4ms");
  command.add_option("--report", flags.report,
                     "Also a page r.html: ranges and clipping, error of each layer, the front of a "
                     "search, and accuracy, "
                     "latency, file and memory before and after");
  command.add_option("--test", flags.test,
                     "Of the search and the report: samples, with labels if there are any, that "
                     "the loss is measured on; "
                     "by default those of --data");
  command.add_option("--metric", flags.metric,
                     "Of the search and the report: as of accuracy; by default top1 where samples "
                     "have a class, else cosine to the "
                     "model's outputs");
  command
      .add_option_function<std::string>(
          "--budget",
          [&flags](const std::string &text) {
            constexpr Unit kUnits[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"", 1}};
            flags.budget = numberWithUnit(text, kUnits);
            if (!flags.budget) {
              throw CLI::ValidationError("--budget", text + ": give seconds, as 120s or 5m");
            }
          },
          "Of the search: how long it may take; 300s by default")
      ->type_name("SECONDS");
  addNumber(
      command, "--error-samples", {1, kMaxSamples},
      [&flags](uint64_t number) { flags.samples = number; },
      "Of the search: samples, spread over --data, for the error of one layer; 32 by default");
  command.add_option("--state", flags.state,
                     "Of the search: the file that it goes on from when it is called again, and "
                     "that is kept; by default "
                     "the output's name with .search.json, removed with success");
}

Status checkSearchFlags(const SearchFlags &flags, bool isOtherForm) {
  if (flags.isAsked() && isOtherForm) {
    return refuseFlags("a search chooses between int8 with calibrated ranges and wide, and "
                       "--weights-only, --dynamic and --precision fp8 are "
                       "neither",
                       "leave one of both out");
  }
  bool isEvaluated = !flags.report.empty(); // by the report
  std::pair<const char *, bool> ofSearch[] = {{"--test", !flags.test.empty() && !isEvaluated},
                                              {"--metric", !flags.metric.empty() && !isEvaluated},
                                              {"--budget", flags.budget.has_value()},
                                              {"--error-samples", flags.samples.has_value()},
                                              {"--state", !flags.state.empty()}};
  for (auto [name, isGiven] : ofSearch) {
    if (isGiven && !flags.isAsked()) {
      return refuseFlags(fmt::format("{} says nothing without a search", name),
                         "add --accuracy-drop or --latency");
    }
  }
  return flags.metric.empty() ? Status::ok() : parseMetric(flags.metric).takeStatus();
}

Result<SearchRequest> searchRequest(const SearchFlags &flags, const CalibrationRequest &calibration,
                                    const quant::Settings &settings, const std::string &output) {
  SearchRequest request;
  request.calibration = calibration;
  request.settings = settings;
  request.test = flags.test;
  request.metric = flags.metric;
  request.budget = flags.budget.value_or(kDefaultBudget);
  request.samples = flags.samples.value_or(kDefaultSamples);
  request.statePath = flags.state.empty() ? output + ".search.json" : flags.state;
  if (!flags.drop.empty()) {
    constexpr Unit kPercent[] = {{"%", 0.01}};
    request.drop = numberWithUnit(flags.drop, kPercent);
    if (!request.drop) {
      return refuseFlags(
          fmt::format("--accuracy-drop {}: not a share of 100", view::visible(flags.drop)),
          "give it with its sign, as 0.5%");
    }
  }
  if (!flags.latency.empty()) {
    request.milliseconds = numberWithUnit(flags.latency, kTimes);
    if (!request.milliseconds || *request.milliseconds == 0) {
      return refuseFlags(fmt::format("--latency {}: not a time", view::visible(flags.latency)),
                         "give it with its unit, as 4ms or 800us");
    }
  }
  return request;
}

void forgetState(const SearchFlags &flags, const SearchRequest &request) {
  std::error_code ignored; // of no use to anyone, and in nobody's way
  if (flags.state.empty()) {
    std::filesystem::remove(request.statePath, ignored);
  }
}

} // namespace tenon::tool
