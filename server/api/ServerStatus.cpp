// Written as text without a tree in between: a server of a thousand models is asked every two
// seconds, on the thread of its requests.

#include "server/api/ServerStatus.h"

#include "server/api/Describe.h"
#include "server/protocol/JsonText.h"
#include "support/WallClock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <utility>

namespace tenon::server {
namespace {

/// What was counted in each bin and above all; empty where nothing was.
void appendBins(std::string &text, std::string_view name, const Histogram &histogram) {
  fmt::format_to(std::back_inserter(text), ",\"{}\":[", name);
  uint64_t below = 0;
  for (size_t bin = 0; bin < Histogram::kBounds.size() && histogram.sum().count > 0; ++bin) {
    uint64_t upTo = histogram.upTo(bin);
    fmt::format_to(std::back_inserter(text), "{},", upTo - below);
    below = upTo;
  }
  text += histogram.sum().count > 0 ? fmt::format("{}]", histogram.sum().count - below) : "]";
}

void appendVersion(std::string &text, const Version &version) {
  const VersionStatistics &counted = *version.statistics;
  fmt::format_to(
      std::back_inserter(text),
      R"("{}":{{"cold":{},"waiting":{},"bytes":{},"ok":{},"rejected":{},"timed_out":{},"failed":{})",
      version.number, version.state() == VersionState::Cold, version.scheduler->waiting(),
      version.isLoaded() ? version.bytes() : 0, counted.success.count, counted.rejected,
      counted.timedOut, counted.failed());
  appendBins(text, "request", counted.request);
  appendBins(text, "queue", counted.queue);
  appendBins(text, "copy_in", counted.copyIn);
  appendBins(text, "compute", counted.compute);
  appendBins(text, "copy_out", counted.copyOut);
  text += '}';
}

void appendModel(std::string &text, const ModelServer &models, const Model &model) {
  appendJsonString(text, model.name);
  fmt::format_to(std::back_inserter(text), ":{{\"traffic\":{},\"versions\":{{",
                 describeTraffic(models.traffic.of(model.name)));
  std::string_view comma;
  for (const auto &[number, version] : model.versions) {
    text += std::exchange(comma, ",");
    appendVersion(text, *version);
  }
  text += "}}";
}

/// Devices and workers, whose names have no characters that JSON escapes.
void appendMachine(std::string &text, const ModelServer &models) {
  text += ",\"devices\":[";
  std::string_view comma;
  for (const Device &device : models.catalog.residency.workers().devices()) {
    fmt::format_to(
        std::back_inserter(text), "{}{{\"device\":\"{}\",\"budget\":{},\"evictions\":{}}}",
        std::exchange(comma, ","), device.name(), models.catalog.residency.budget(device),
        models.catalog.residency.evictions(device));
  }
  text += "],\"workers\":[";
  comma = {};
  for (const std::unique_ptr<WorkerSlot> &slot : models.catalog.residency.workers().all()) {
    fmt::format_to(std::back_inserter(text), "{}{{\"worker\":\"{}\",\"starts\":{},\"losses\":{}}}",
                   std::exchange(comma, ","), slot->name, slot->starts(), slot->losses());
  }
  text += ']';
}

void appendError(std::string &text, const NotedError &error) {
  fmt::format_to(std::back_inserter(text),
                 "{{\"time\":{},\"code\":\"{}\",\"count\":{},\"model\":", error.time,
                 nameOf(error.id), error.count);
  appendJsonString(text, error.model);
  text += ",\"message\":";
  appendJsonString(text, error.message);
  text += ",\"hint\":";
  appendJsonString(text, error.hint);
  text += '}';
}

} // namespace

std::string describeStatus(const ModelServer &models, const ErrorRing &errors,
                           const RegistryAdmin *admin, std::string_view version, int64_t started) {
  std::string text = "{\"version\":";
  appendJsonString(text, version);
  fmt::format_to(std::back_inserter(text),
                 R"(,"started":{},"time":{},"ready":{},"draining":{},"bounds_us":[{}],"registry":)",
                 started, wallClock(), models.catalog.isReady(), models.catalog.isDraining(),
                 fmt::join(Histogram::kBounds, ","));
  // Names in a registry have no characters that JSON escapes.
  std::optional<registry::Reference> followed;
  if (admin) {
    followed = admin->selection().only();
  }
  text += followed ? fmt::format("{{\"model\":\"{}\",\"alias\":\"{}\"}}", followed->name,
                                 followed->alias)
                   : "null";
  appendMachine(text, models);
  text += ",\"index\":" + textOf(describeIndex(models.catalog, false)) + ",\"models\":{";
  std::string_view comma;
  for (const auto &[name, model] : models.catalog.all()) {
    text += std::exchange(comma, ",");
    appendModel(text, models, model);
  }
  text += "},\"errors\":[";
  comma = {};
  for (const NotedError &error : errors.all()) {
    text += std::exchange(comma, ",");
    appendError(text, error);
  }
  return text + "]}";
}

} // namespace tenon::server
