// `tenon registry watch`: tells another system what happens, as webhooks or as logs of
// OpenTelemetry.

#include "registry/Subscriber.h"
#include "support/Environment.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/registry/Subcommands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <limits>
#include <memory>
#include <thread>

namespace tenon::tool {
namespace {

constexpr std::chrono::milliseconds kLook{1000};
constexpr std::chrono::milliseconds kMaxPause{60'000}; ///< between tries, which grows from kLook

struct WatchFlags {
  registry::Subscription subscription;
  bool once = false;
};

Result<int64_t> deliver(registry::Subscriber &subscriber, const RegistryFlags &where) {
  // Anew for each look: a token that was revoked or has expired opens nothing any more.
  TENON_ASSIGN(registry::Registry registry, openRegistry(where));
  return subscriber.deliver(registry);
}

/// Whether it is worth another try.
bool passes(const Status &status) {
  return status.id() == ErrorId::WebFailed || status.id() == ErrorId::StoreFailed ||
         status.id() == ErrorId::RegistryBusy;
}

Status watch(const WatchFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  registry::Subscription subscription = flags.subscription;
  // Not from the command line, which others on the machine can read.
  subscription.secret = environment("TENON_WATCH_SECRET");
  subscription.authorization = environment("TENON_WATCH_AUTHORIZATION");
  subscription.version = TENON_VERSION;
  TENON_ASSIGN(registry::Subscriber subscriber, registry::Subscriber::open(subscription));
  std::string trouble;
  for (std::chrono::milliseconds pause = kLook;;) {
    Result<int64_t> told = deliver(subscriber, where);
    if (flags.once || (!told.isOk() && !passes(told.status()))) {
      TENON_TRY(told.takeStatus());
      terminal.json() ? terminal.printJson("registry.watch", {{"told", *told}})
                      : terminal.print(fmt::format("delivered {} events\n", *told));
      return Status::ok();
    }
    std::string now = told.isOk() ? "" : told.status().toString();
    if (now != trouble) { // once, not at each try
      terminal.note(told.isOk() ? "events are delivered again" : now + "; it is retried");
    }
    trouble = now;
    pause = told.isOk() ? kLook : std::min(kMaxPause, 2 * pause);
    std::this_thread::sleep_for(pause);
  }
}

} // namespace

RegistryTask declareRegistryWatch(CLI::App &command) {
  std::shared_ptr<WatchFlags> flags = std::make_shared<WatchFlags>();
  registry::Subscription &subscription = flags->subscription;
  command.add_option("URL", subscription.url, "URL to post each event to")->required();
  command
      .add_option(
          "--state", subscription.state,
          "State file with the last event that the URL received; a restart continues from there")
      ->required();
  command.add_flag(
      "--otlp", subscription.isOtlp,
      "Send OpenTelemetry log records (OTLP over HTTP, JSON), to /v1/logs if the URL has no path");
  command
      .add_option("--action", subscription.actions,
                  "Send only events with this action, such as promote (repeat for more)")
      ->allow_extra_args(false);
  addNumber(
      command, "--from", {1, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())},
      [flags](uint64_t number) { flags->subscription.first = static_cast<int64_t>(number); },
      "First event to send if the state file is new, 1 for all; by default the next one");
  command.add_flag("--once", flags->once, "Send the existing events, and exit");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return watch(*flags, where, terminal);
  };
}

} // namespace tenon::tool
