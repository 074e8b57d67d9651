// Each option stands alone; --webhook alone means that it is told of drift and of bad canaries.

#include "tools/tenon/verbs/MonitoringFlags.h"

#include "tools/tenon/cli/Options.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace tenon::tool {
namespace {

using server::MonitoringAction;

/// A share between 0 and 1.
void addShare(CLI::App &command, const std::string &name, double low, double &value,
              const std::string &description) {
  command.add_option(name, value, description)->check(CLI::Range(low, 1.0))->type_name("SHARE");
}

Status readAction(std::string_view option, const std::string &text,
                  const server::MonitoringOptions &options, MonitoringAction &action) {
  action = text == "rollback-any"                          ? MonitoringAction::RollbackAny
           : text == "rollback"                            ? MonitoringAction::Rollback
           : text == "webhook" || !options.webhook.empty() ? MonitoringAction::Webhook
                                                           : MonitoringAction::None;
  bool isLost = text == "webhook" && options.webhook.empty();
  return isLost ? Status::error(ErrorId::BadArgument, fmt::format("{} webhook has no URL", option),
                                "give --webhook URL")
                : Status::ok();
}

Status checkUrl(std::string_view option, const std::string &url) {
  bool isUrl = url.empty() || url.starts_with("http://") || url.starts_with("https://");
  return isUrl
             ? Status::ok()
             : Status::error(ErrorId::BadArgument, fmt::format("{} '{}' is not a URL", option, url),
                             "for example http://localhost:4318");
}

} // namespace

void declareMonitoringFlags(CLI::App &command, MonitoringFlags &flags,
                            server::MonitoringOptions &options) {
  const std::vector<std::string> actions = {"webhook", "rollback"};
  command
      .add_option("--drift-reference", flags.references,
                  "MODEL=FILE: an npz to compare requests of the model with (repeat for more)")
      ->allow_extra_args(false);
  addNumber(
      command, "--drift-window", {30, 1'000'000},
      [&options](uint64_t rows) { options.window = rows; },
      "Number of rows to compare at once, 1000 by default");
  addShare(command, "--watch-share", 0.0, options.share,
           "Share of the requests to sample for drift and labels; 1 by default");
  addChoice(command, "--on-drift", flags.onDrift, {"webhook", "rollback", "rollback-any"},
            "Action after three windows with drift: notify the webhook, or also roll back if "
            "outputs drift; rollback-any: also if only inputs drift");
  addChoice(command, "--on-canary", flags.onCanary, actions,
            "Action if a version that gets part of the traffic is worse: notify the webhook, or "
            "also roll back");
  command.add_option("--webhook", options.webhook,
                     "URL to notify of drift, bad canaries and actions, as JSON by POST");
  addSeconds(command, "--label-age", {1, 30 * kLongestSeconds}, flags.labelAgeSeconds,
             "How long to keep answers to requests with an id for their labels; a day by default");
  command.add_option("--otlp", options.otlp,
                     "URL of an OpenTelemetry collector for spans of requests, by OTLP over HTTP");
  addShare(command, "--trace-share", 0.0, options.traceShare,
           "Share of the requests without a traceparent to trace; 0.01 by default");
}

Status readMonitoringFlags(const MonitoringFlags &flags, server::MonitoringOptions &options) {
  for (const std::string &each : flags.references) {
    size_t equals = each.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == each.size()) {
      return Status::error(ErrorId::BadArgument,
                           fmt::format("--drift-reference '{}' is not MODEL=FILE", each),
                           "for example --drift-reference cnn=reference.npz");
    }
    options.references[each.substr(0, equals)] = each.substr(equals + 1);
  }
  options.labelAge = std::chrono::milliseconds(static_cast<int64_t>(flags.labelAgeSeconds * 1000));
  TENON_TRY(checkUrl("--webhook", options.webhook));
  TENON_TRY(checkUrl("--otlp", options.otlp));
  TENON_TRY(readAction("--on-drift", flags.onDrift, options, options.onDrift));
  return readAction("--on-canary", flags.onCanary, options, options.onCanary);
}

} // namespace tenon::tool
