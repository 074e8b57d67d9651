// A rule that has rolled a model back does nothing more about it until a person acts.

#include "server/monitoring/alerts/Alerts.h"

#include "registry/History.h"
#include "server/protocol/MetricsText.h"
#include "support/WallClock.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon::server {
namespace {

/// A name as a line of a log, a registry and JSON can carry it: whoever made the model chose it.
std::string plain(std::string_view name) {
  constexpr size_t kMax = 80;
  std::string text(name.substr(0, kMax));
  std::replace_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::string reasonOf(const DriftReport &report) {
  constexpr size_t kMaxNamed = 3;
  std::vector<std::string> names;
  for (const FeatureDrift &feature : report.features) {
    if (feature.isDrift) {
      bool isPsi = feature.psi && *feature.psi > *feature.psiThreshold,
           isKs = feature.ks && *feature.ks > *feature.ksThreshold;
      names.push_back(isPsi  ? fmt::format("{} (PSI {:.3f}, limit {:.3f})", plain(feature.name),
                                           *feature.psi, *feature.psiThreshold)
                      : isKs ? fmt::format("{} (KS {:.3f}, limit {:.3f})", plain(feature.name),
                                           *feature.ks, *feature.ksThreshold)
                             : fmt::format("{} ({:.2f} % missing, {:.2f} % out of range, {:.2f} % "
                                           "new, {:.2f} % lost)",
                                           plain(feature.name), 100 * feature.missing,
                                           100 * feature.outOfRange.value_or(0),
                                           100 * feature.newValues.value_or(0),
                                           100 * feature.lostValues.value_or(0)));
    }
  }
  size_t more = names.size() - std::min(names.size(), kMaxNamed);
  names.resize(names.size() - more);
  return fmt::format("drift in {} windows of {} rows: {}{}", kWindowsToAct, report.rows,
                     fmt::join(names, ", "), more ? fmt::format(" and {} more", more) : "");
}

} // namespace

Alerts::Alerts(boost::asio::any_io_executor executor, const MonitoringOptions &options, Log log,
               TaskThread &thread, DriftMonitor &drift,
               std::function<void(const Status &)> onFailure)
    : executor(executor), options(options), log(std::move(log)), thread(thread), drift(drift) {
  constexpr size_t kMaxEvents = 256;
  if (!options.webhook.empty()) {
    webhooks = std::make_unique<DeliveryQueue>(kMaxEvents, std::move(onFailure));
  }
}

void Alerts::begin(const ModelCatalog &catalog, TrafficControl &control,
                   RegistryRollback rollback) {
  models = &catalog;
  traffic = &control;
  registryRollback = std::move(rollback);
}

void Alerts::personActed(const std::string &model) {
  acted.erase(model);
  drift.restart(model);
}

void Alerts::versionLoaded(const std::string &model, int64_t number) {
  std::map<std::string, int64_t>::iterator rolledBack = acted.find(model);
  if (rolledBack != acted.end() && rolledBack->second != number) {
    acted.erase(rolledBack); // somebody loaded another version
  }
}

bool Alerts::getsTraffic(const std::string &model, const std::string &version) const {
  const std::map<int64_t, int64_t> &weights = traffic->of(model).now.weights;
  std::map<int64_t, int64_t>::const_iterator weight =
      weights.find(versionNumber(version).value_or(-1));
  if (!weights.empty()) {
    return weight != weights.end() && weight->second > 0;
  }
  Result<std::shared_ptr<Version>> newest = models->find(model, "");
  return newest.isOk() && (*newest)->number == version;
}

void Alerts::evaluateDrift(const MonitoredVersion &version) {
  // Once for drift that stays, and once more where it comes to the outputs.
  bool isOutput = version.outputsInARow == kWindowsToAct;
  if (version.inARow != kWindowsToAct && !isOutput) {
    return;
  }
  std::string reason = reasonOf(*version.last);
  log(fmt::format("model '{}' version {}: {}", version.model, version.number, reason),
      LogLevel::Warning);
  MonitoringAction action = options.onDrift;
  if (action == MonitoringAction::RollbackAny) {
    action = MonitoringAction::Rollback;
  } else if (action == MonitoringAction::Rollback && !isOutput) {
    // What is asked has changed: the version before would be asked the same.
    action = MonitoringAction::Webhook;
    drift.setAction(version.model, version.number,
                    fmt::format("not rolled back, because no output drifts: {}", reason));
  }
  act(action, "drift", version.model, version.number, reason, std::nullopt);
}

void Alerts::evaluateCanaries() {
  if (options.onCanary == MonitoringAction::None) {
    return;
  }
  for (const auto &[name, model] : models->all()) {
    // The canary is the newest version that has a share, the stable one that with the largest of
    // the others.
    std::shared_ptr<Version> canary, stable;
    int64_t most = 0;
    const std::map<int64_t, int64_t> &weights = traffic->of(name).now.weights;
    for (const auto &[number, weight] : weights) {
      std::map<int64_t, std::shared_ptr<Version>>::const_iterator version =
          model.versions.find(number);
      if (weight == 0 || version == model.versions.end()) {
        continue;
      }
      if (canary && weights.at(*versionNumber(canary->number)) > most) {
        stable = canary;
        most = weights.at(*versionNumber(canary->number));
      }
      canary = version->second; // numbers ascend
    }
    if (!canary || !stable) {
      canaries.erase(name);
      continue;
    }
    RequestCounts ofCanary = countsOf(*canary->statistics),
                  ofStable = countsOf(*stable->statistics);
    CanaryState &state = canaries[name];
    if (state.canary != canary->number || state.stable != stable->number ||
        state.orders != canary->order + stable->order) {
      state = {canary->number, stable->number, canary->order + stable->order, ofCanary, ofStable};
      continue;
    }
    RequestCounts canarySince = ofCanary.since(state.canaryBefore),
                  stableSince = ofStable.since(state.stableBefore);
    if (std::min(canarySince.all(), stableSince.all()) < kMinCanaryRequests) {
      continue;
    }
    state.canaryBefore = ofCanary;
    state.stableBefore = ofStable;
    std::string worse = evaluateCanary(canarySince, stableSince);
    if (!worse.empty()) {
      std::string reason = fmt::format("canary {} compared with {}: {}", canary->number,
                                       stable->number, worse),
                  number = canary->number;
      log(fmt::format("model '{}': {}", name, reason), LogLevel::Warning);
      act(options.onCanary, "canary", name, number, reason, versionNumber(stable->number));
    }
  }
}

void Alerts::act(MonitoringAction action, const std::string &event, const std::string &model,
                 const std::string &version, const std::string &reason,
                 std::optional<int64_t> stable) {
  if (action == MonitoringAction::None) {
    return;
  }
  post(event, model, version, reason);
  if (action == MonitoringAction::Rollback && getsTraffic(model, version)) {
    rollBack(model, version, reason, stable);
  }
}

void Alerts::rollBack(const std::string &model, const std::string &version,
                      const std::string &reason, std::optional<int64_t> stable) {
  if (acted.contains(model)) {
    log(fmt::format("model '{}' is not rolled back again: a rule has rolled it back, and nobody "
                    "has intervened since",
                    model),
        LogLevel::Warning);
    return;
  }
  acted[model] = 0;
  if (stable) { // at once; where the canary is at an alias, that goes back too
    Status status = traffic->set(model, {{{*stable, 1}}, std::nullopt});
    endRollback(model, version, reason,
                status.isOk() ? Result<int64_t>(0) : Result<int64_t>(std::move(status)));
    if (registryRollback) {
      thread.post([this, model, version, reason] {
        Result<int64_t> to = registryRollback(model, versionNumber(version).value_or(0), reason);
        std::string ending = to.isOk() ? fmt::format("is at version {} again", *to)
                                       : fmt::format("stays: {}", to.status().toString());
        log(fmt::format("the alias of model '{}' version {} {}", model, version, ending));
      });
    }
    return;
  }
  if (registryRollback) {
    thread.post([this, model, version, reason] {
      Result<int64_t> to = registryRollback(model, versionNumber(version).value_or(0), reason);
      boost::asio::post(executor, [this, model, version, reason, to = std::move(to)] {
        endRollback(model, version, reason, to);
      });
    });
    return;
  }
  Status status = traffic->rollback(model);
  endRollback(model, version, reason,
              status.isOk() ? Result<int64_t>(0) : Result<int64_t>(std::move(status)));
}

void Alerts::endRollback(const std::string &model, const std::string &version,
                         const std::string &reason, const Result<int64_t> &to) {
  if (!to.isOk() && to.status().id() == ErrorId::AliasMoved) {
    log(fmt::format("somebody else rolled back or replaced model '{}' version {}: {}", model,
                    version, reason));
    return;
  }
  bool isDone = to.isOk();
  rollbacks[model] += isDone;
  if (isDone) {
    acted[model] = *to;
  }
  std::string what =
      isDone ? fmt::format("rolled back: {}", reason)
             : fmt::format("could not be rolled back: {}; the reason for rolling back: {}",
                           to.status().toString(), reason);
  log(fmt::format("model '{}' version {} {}", model, version, what),
      isDone ? LogLevel::Warning : LogLevel::Error);
  drift.setAction(model, version, what);
  post(isDone ? "rollback" : "rollback_failed", model, version, what);
}

void Alerts::post(const std::string &event, const std::string &model, const std::string &version,
                  const std::string &reason) {
  if (!webhooks) {
    return;
  }
  Json body = {{"event", event},
               {"time", registry::timeText(wallClock())},
               {"model", model},
               {"version", version},
               {"reason", reason}};
  webhooks->post({[url = options.webhook, text = dumpJson(body)] {
                    WebRequest request;
                    request.method = "POST";
                    request.url = url;
                    request.headers = {"Content-Type: application/json"};
                    request.body = text;
                    request.patience = std::chrono::seconds(10);
                    return request;
                  },
                  1});
}

void Alerts::appendMetrics(std::string &text) const {
  appendMetricHead(text, "tenon_rollbacks_total", "counter", "Rollbacks triggered by rules.");
  for (const auto &[model, known] : models->all()) { // also 0, so that the first is an increase
    std::map<std::string, uint64_t>::const_iterator count = rollbacks.find(model);
    fmt::format_to(std::back_inserter(text), "tenon_rollbacks_total{{model=\"{}\"}} {}\n", model,
                   count == rollbacks.end() ? 0 : count->second);
  }
}

} // namespace tenon::server
