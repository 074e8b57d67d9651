// The metrics of a server as Prometheus reads them: a family a metric, a line a version, device or
// worker.

#include "server/api/Describe.h"

#include "server/protocol/MetricsText.h"

#include <fmt/format.h>

namespace tenon::server {
namespace {

/// Appends families of metrics, each with a line for each version.
class MetricsText {
public:
  explicit MetricsText(const ModelServer &models) : models(models) {}

  template <typename Value>
  void family(std::string_view name, std::string_view type, std::string_view help,
              const Value &value) {
    head(name, type, help);
    each([&](const Version &version, const std::string &labels) {
      fmt::format_to(std::back_inserter(text), "{}{{{}}} {}\n", name, labels, value(version));
    });
  }

  void number(std::string_view name, std::string_view help, uint64_t value) {
    head(name, "gauge", help);
    fmt::format_to(std::back_inserter(text), "{} {}\n", name, value);
  }

  void outcomes() {
    head("tenon_requests_total", "counter", "Requests by outcome.");
    each([&](const Version &version, const std::string &labels) {
      const VersionStatistics &counted = *version.statistics;
      const std::pair<std::string_view, uint64_t> rows[] = {
          {"ok", counted.success.count},   {"rejected", counted.rejected},
          {"timed_out", counted.timedOut}, {"cancelled", counted.cancelled},
          {"invalid", counted.invalid},    {"unready", counted.unready},
          {"failed", counted.failed()}};
      for (const auto &[outcome, count] : rows) {
        fmt::format_to(std::back_inserter(text), "tenon_requests_total{{{},outcome=\"{}\"}} {}\n",
                       labels, outcome, count);
      }
    });
  }

  void memory() {
    head("tenon_model_bytes", "gauge",
         "Memory of a version on its device: its engine file, or its weights on a GPU, and its "
         "sessions; 0 if it is not loaded.");
    each([&](const Version &version, const std::string &labels) {
      fmt::format_to(
          std::back_inserter(text), "tenon_model_bytes{{{},device=\"{}\",worker=\"{}\"}} {}\n",
          labels, version.device().value_or(Device()).name(),
          version.worker() ? version.worker()->name : "", version.isLoaded() ? version.bytes() : 0);
    });
  }

  template <typename Value>
  void devices(std::string_view name, std::string_view type, std::string_view help,
               const Value &value) {
    head(name, type, help);
    for (const Device &device : models.catalog.residency.workers().devices()) {
      fmt::format_to(std::back_inserter(text), "{}{{device=\"{}\"}} {}\n", name, device.name(),
                     value(device));
    }
  }

  template <typename Value>
  void workers(std::string_view name, std::string_view type, std::string_view help,
               const Value &value) {
    head(name, type, help);
    for (const std::unique_ptr<WorkerSlot> &slot : models.catalog.residency.workers().all()) {
      fmt::format_to(std::back_inserter(text), "{}{{worker=\"{}\"}} {}\n", name, slot->name,
                     value(*slot));
    }
  }

  void histograms(
      std::string_view name, std::string_view help,
      std::initializer_list<std::pair<std::string_view, Histogram VersionStatistics::*>> stages) {
    head(name, "histogram", help);
    each([&](const Version &version, const std::string &labels) {
      for (const auto &[stage, member] : stages) {
        std::string all = stage.empty() ? labels : fmt::format("{},stage=\"{}\"", labels, stage);
        histogram(name, all, (*version.statistics).*member);
      }
    });
  }

  /// Of versions that continue texts alone, and only where there are any.
  void texts() {
    bool areAny = false;
    each([&](const Version &version, const std::string &) {
      areAny |= version.language.has_value();
    });
    if (!areAny) {
      return;
    }
    textHistogram("tenon_text_first_token_seconds",
                  "Time from the arrival of a request to the first token of an answer.",
                  &TextStatistics::firstToken);
    textHistogram("tenon_text_next_token_seconds", "Time from a token of an answer to the next.",
                  &TextStatistics::nextToken);
    using Counted = std::pair<std::string_view, std::string_view>;
    auto counter = [&](Counted named, uint64_t TextStatistics::*member) {
      head(named.first, "counter", named.second);
      textLine(named.first,
               [&](const Version &version) { return version.statistics->texts.*member; });
    };
    counter({"tenon_text_prompt_tokens_total", "Tokens of prompts."},
            &TextStatistics::promptTokens);
    counter({"tenon_text_cached_tokens_total",
             "Tokens of prompts whose keys and values another request had computed."},
            &TextStatistics::cachedTokens);
    counter({"tenon_text_answer_tokens_total", "Tokens of answers."},
            &TextStatistics::answerTokens);
    auto held = [&](Counted named, std::string_view type, uint64_t TextLoad::*member) {
      head(named.first, type, named.second);
      textLine(named.first,
               [&](const Version &version) { return TextScheduler::of(version).load().*member; });
    };
    held({"tenon_text_running", "Answers that the model continues."}, "gauge", &TextLoad::running);
    held({"tenon_text_waiting", "Answers that wait in the worker."}, "gauge", &TextLoad::waiting);
    held({"tenon_text_pages", "Pages of the model's cache."}, "gauge", &TextLoad::pages);
    held({"tenon_text_pages_used", "Pages that answers hold."}, "gauge", &TextLoad::pagesUsed);
    held({"tenon_text_preemptions_total", "Answers that gave up their pages to others."}, "counter",
         &TextLoad::preemptions);
    held({"tenon_text_recomputed_tokens_total", "Tokens computed again after a preemption."},
         "counter", &TextLoad::recomputedTokens);
    held({"tenon_text_draft_tokens_total", "Tokens of answers computed on a guess."}, "counter",
         &TextLoad::draftTokens);
    held({"tenon_text_accepted_tokens_total", "Guessed tokens that the model itself drew."},
         "counter", &TextLoad::acceptedTokens);
  }

  void head(std::string_view name, std::string_view type, std::string_view help) {
    appendMetricHead(text, name, type, help);
  }

  std::string text;

private:
  template <typename Action> void each(const Action &action) {
    for (const auto &[name, model] : models.catalog.all()) {
      for (const auto &[number, version] : model.versions) {
        // Names have no characters that a label escapes.
        action(*version, fmt::format("model=\"{}\",version=\"{}\"", name, version->number));
      }
    }
  }

  template <typename Value> void textLine(std::string_view name, const Value &value) {
    each([&](const Version &version, const std::string &labels) {
      if (version.language) {
        fmt::format_to(std::back_inserter(text), "{}{{{}}} {}\n", name, labels, value(version));
      }
    });
  }

  void textHistogram(std::string_view name, std::string_view help,
                     Histogram TextStatistics::*member) {
    head(name, "histogram", help);
    each([&](const Version &version, const std::string &labels) {
      if (version.language) {
        histogram(name, labels, version.statistics->texts.*member);
      }
    });
  }

  void histogram(std::string_view name, const std::string &labels, const Histogram &histogram) {
    for (size_t bin = 0; bin < Histogram::kBounds.size(); ++bin) {
      fmt::format_to(std::back_inserter(text), "{}_bucket{{{},le=\"{}\"}} {}\n", name, labels,
                     static_cast<double>(Histogram::kBounds[bin]) / 1e6, histogram.upTo(bin));
    }
    const DurationSum &sum = histogram.sum();
    fmt::format_to(std::back_inserter(text),
                   "{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n",
                   name, labels, sum.count, static_cast<double>(sum.nanoseconds) / 1e9);
  }

  const ModelServer &models;
};

} // namespace

std::string describeMetrics(const ModelServer &models) {
  MetricsText metrics(models);
  metrics.outcomes();
  metrics.family("tenon_inferences_total", "counter", "Rows computed in batches.",
                 [](const Version &version) { return version.statistics->inferences; });
  metrics.family("tenon_executions_total", "counter", "Runs of the model.",
                 [](const Version &version) { return version.statistics->executions; });
  metrics.family("tenon_queue_length", "gauge", "Requests waiting in the queue.",
                 [](const Version &version) { return version.scheduler->waiting(); });
  metrics.family("tenon_requests_running", "gauge", "Requests that instances are running.",
                 [](const Version &version) { return version.scheduler->running(); });
  metrics.family("tenon_model_ready", "gauge", "Whether the version accepts requests.",
                 [](const Version &version) { return version.isServing() ? 1 : 0; });
  metrics.memory();
  metrics.histograms("tenon_request_seconds", "Time from the arrival of a request to its reply.",
                     {{"", &VersionStatistics::request}});
  metrics.histograms("tenon_stage_seconds",
                     "Time that a request spends in a stage: queue, copy_in, compute, copy_out.",
                     {{"queue", &VersionStatistics::queue},
                      {"copy_in", &VersionStatistics::copyIn},
                      {"compute", &VersionStatistics::compute},
                      {"copy_out", &VersionStatistics::copyOut}});
  metrics.texts();
  metrics.devices("tenon_memory_budget_bytes", "gauge",
                  "Memory budget for loaded models on a device; 0: no limit.",
                  [&](const Device &device) { return models.catalog.residency.budget(device); });
  if (const MemoryBudget *memory = models.catalog.residency.requestMemory()) {
    metrics.number("tenon_request_memory_bytes",
                   "Memory held by all requests: bodies, tensors and replies.", memory->held());
    metrics.number("tenon_request_memory_limit_bytes", "Limit of the memory held by requests.",
                   memory->limit());
  }
  metrics.devices("tenon_evictions_total", "counter",
                  "Models evicted from a device to make room for others.",
                  [&](const Device &device) { return models.catalog.residency.evictions(device); });
  metrics.workers("tenon_worker_starts_total", "counter", "Starts of worker processes.",
                  [](const WorkerSlot &slot) { return slot.starts(); });
  metrics.workers("tenon_worker_losses_total", "counter", "Unexpected ends of worker processes.",
                  [](const WorkerSlot &slot) { return slot.losses(); });
  metrics.workers("tenon_worker_process_id", "gauge",
                  "Process id of the worker; 0 if there is none.",
                  [](const WorkerSlot &slot) { return slot.processId(); });
  return std::move(metrics.text);
}

} // namespace tenon::server
