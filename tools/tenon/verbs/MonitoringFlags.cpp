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
  return isUrl ? Status::ok()
               : Status::error(ErrorId::BadArgument, fmt::format("{} '{}' is no URL", option, url),
                               "for example http://localhost:4318");
}

} // namespace

void declareMonitoringFlags(CLI::App &command, MonitoringFlags &flags,
                            server::MonitoringOptions &options) {
  const std::vector<std::string> actions = {"webhook", "rollback"};
  command
      .add_option(
          "--drift-reference", flags.references,
          "MODEL=FILE: an npz that requests of the model are compared with (repeat for more)")
      ->allow_extra_args(false);
  addNumber(
      command, "--drift-window", {30, 1'000'000},
      [&options](uint64_t rows) { options.window = rows; },
      "Rows that are compared together, 1000 by default");
  addShare(command, "--watch-share", 0.0, options.share,
           "Share of the requests that are sampled, for drift and for labels; 1 by default");
  addChoice(command, "--on-drift", flags.onDrift, {"webhook", "rollback", "rollback-any"},
            "What is done after three windows with drift: tell the webhook, or roll back as well "
            "where outputs drift; rollback-any: also where inputs alone do");
  addChoice(command, "--on-canary", flags.onCanary, actions,
            "What is done where a version that gets a part of the traffic is worse: tell the "
            "webhook, or roll back as well");
  command.add_option("--webhook", options.webhook,
                     "URL that is told of drift, bad canaries and what was done, as JSON by POST");
  addSeconds(command, "--label-age", {1, 30 * kLongestSeconds}, flags.labelAgeSeconds,
             "How long answers to requests with an id wait for their labels; a day by default");
  command.add_option(
      "--otlp", options.otlp,
      "URL of a collector of OpenTelemetry, which gets spans of requests by OTLP over HTTP");
  addShare(command, "--trace-share", 0.0, options.traceShare,
           "Share of the requests without a traceparent that are traced; 0.01 by default");
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
