// Written as text without a tree in between: a server of a thousand models is asked every two
// seconds, on the thread of its requests.

#include "server/api/ServerStatus.h"

#include "server/api/Describe.h"
#include "server/protocol/JsonText.h"
#include "support/WallClock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

namespace tenon::server {
namespace {

/// Counters of a version, or the sums of several.
struct Counted {
  uint64_t waiting = 0, bytes = 0, ok = 0, rejected = 0, timedOut = 0, failed = 0;
  /// Of request, queue, copy in, compute and copy out.
  std::array<std::array<uint64_t, Histogram::kBounds.size() + 1>, 5> bins = {};

  void add(const Version &version) {
    const VersionStatistics &counted = *version.statistics;
    waiting += version.scheduler->waiting();
    bytes += version.isLoaded() ? version.bytes() : 0;
    ok += counted.success.count;
    rejected += counted.rejected;
    timedOut += counted.timedOut;
    failed += counted.failed();
    const Histogram *histograms[] = {&counted.request, &counted.queue, &counted.copyIn,
                                     &counted.compute, &counted.copyOut};
    for (size_t i = 0; i < bins.size(); ++i) {
      uint64_t below = 0;
      for (size_t bin = 0; bin < Histogram::kBounds.size(); ++bin) {
        uint64_t upTo = histograms[i]->upTo(bin);
        bins[i][bin] += upTo - std::exchange(below, upTo);
      }
      bins[i].back() += histograms[i]->sum().count - below;
    }
  }

  /// Members of an object; a histogram is empty where nothing was counted.
  void append(std::string &text) const {
    fmt::format_to(std::back_inserter(text),
                   R"("waiting":{},"bytes":{},"ok":{},"rejected":{},"timed_out":{},"failed":{})",
                   waiting, bytes, ok, rejected, timedOut, failed);
    constexpr std::string_view kNames[] = {"request", "queue", "copy_in", "compute", "copy_out"};
    for (size_t i = 0; i < bins.size(); ++i) {
      bool isEmpty = std::ranges::all_of(bins[i], [](uint64_t count) { return count == 0; });
      fmt::format_to(std::back_inserter(text), ",\"{}\":[{}]", kNames[i],
                     isEmpty ? "" : fmt::format("{}", fmt::join(bins[i], ",")));
    }
  }
};

void appendVersion(std::string &text, const Version &version) {
  Counted counted;
  counted.add(version);
  fmt::format_to(std::back_inserter(text), R"("{}":{{"cold":{},"serving":{},)", version.number,
                 version.state() == VersionState::Cold, version.isServing());
  counted.append(text);
  if (version.language) {
    const TextLoad &load = TextScheduler::of(version).load();
    fmt::format_to(std::back_inserter(text),
                   R"(,"text":{{"chats":{},"running":{},"waiting":{},"pages":{},"pages_used":{}}})",
                   version.language->hasTemplate, load.running, load.waiting, load.pages,
                   load.pagesUsed);
  }
  text += '}';
}

void appendRow(std::string &text, const StatusRow &row) {
  text += "{\"name\":";
  appendJsonString(text, row.model->name);
  fmt::format_to(std::back_inserter(text), R"(,"version":"{}","state":"{}","reason":)",
                 row.version->number, stateName(row.version->state()));
  appendJsonString(text, reasonOf(*row.model, *row.version));
  text += ",\"labels\":[";
  std::string_view comma;
  for (const std::string &label : row.version->labels) {
    text += std::exchange(comma, ",");
    appendJsonString(text, label);
  }
  text += "]}";
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

void appendText(std::string &text, const TextRecord &record) {
  text += "{\"model\":";
  appendJsonString(text, record.model);
  fmt::format_to(
      std::back_inserter(text),
      R"(,"id":"{}","time":{},"queue_ms":{:.3f},"first_token_ms":{:.3f},"total_ms":{:.3f},)"
      R"("prompt_tokens":{},"cached_tokens":{},"answer_tokens":{},"end":"{}"}})",
      record.id, record.time, static_cast<double>(record.queue) / 1e6,
      static_cast<double>(record.queue + record.prefill) / 1e6,
      static_cast<double>(record.total) / 1e6, record.promptTokens, record.cachedTokens,
      record.answerTokens, record.end);
}

} // namespace

std::string describeStatus(const ModelServer &models, const StatusQuery &query,
                           const RecentTraffic &recent, const ServerFacts &facts) {
  std::string text = "{\"version\":";
  appendJsonString(text, facts.version);
  fmt::format_to(std::back_inserter(text),
                 R"(,"started":{},"time":{},"ready":{},"draining":{},"bounds_us":[{}],"registry":)",
                 facts.started, wallClock(), models.catalog.isReady(), models.catalog.isDraining(),
                 fmt::join(Histogram::kBounds, ","));
  // Names in a registry have no characters that JSON escapes.
  std::optional<registry::Reference> followed;
  if (facts.admin) {
    followed = facts.admin->selection().only();
    bool isChosen = !followed && models.catalog.all().contains(query.chosen);
    std::vector<registry::Reference> references =
        isChosen ? facts.admin->selection().of(query.chosen) : std::vector<registry::Reference>();
    if (!references.empty()) {
      followed = references.front();
    }
  }
  text += followed ? fmt::format("{{\"model\":\"{}\",\"alias\":\"{}\"}}", followed->name,
                                 followed->alias)
                   : "null";
  appendMachine(text, models);
  StatusRows rows = chooseRows(models.catalog, query, recent);
  std::map<std::string_view, const Model *> told;
  fmt::format_to(std::back_inserter(text), R"(,"all":{},"found":{},"index":[)", rows.all,
                 rows.found);
  std::string_view comma;
  for (const StatusRow &row : rows.rows) {
    text += std::exchange(comma, ",");
    appendRow(text, row);
    told[row.model->name] = row.model;
  }
  Counted totals;
  for (const auto &[name, model] : models.catalog.all()) {
    for (const auto &[number, version] : model.versions) {
      totals.add(*version);
    }
    if (name == query.chosen) {
      told[name] = &model;
    }
  }
  text += "],\"totals\":{";
  totals.append(text);
  text += "},\"models\":{";
  comma = {};
  for (const auto &[name, model] : told) {
    text += std::exchange(comma, ",");
    appendModel(text, models, *model);
  }
  text += "},\"errors\":[";
  comma = {};
  for (const NotedError &error : facts.errors.all()) {
    text += std::exchange(comma, ",");
    appendError(text, error);
  }
  text += "],\"texts\":[";
  comma = {};
  for (const TextRecord &record : facts.texts.all()) {
    text += std::exchange(comma, ",");
    appendText(text, record);
  }
  return text + "]}";
}

} // namespace tenon::server
