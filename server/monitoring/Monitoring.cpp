// What drift finds goes to the alerts.

#include "server/monitoring/Monitoring.h"

#include "server/protocol/MetricsText.h"

#include <boost/asio/post.hpp>

namespace tenon::server {

Monitoring::Monitoring(boost::asio::any_io_executor executor, const MonitoringOptions &given,
                       std::string serverVersion, Log log)
    : options(given), onFailure([executor, log](const Status &status) {
        boost::asio::post(executor,
                          [log, line = status.toString()] { log(line, LogLevel::Warning); });
      }),
      drift(executor, options, log, thread,
            {[this](const std::string &model, int64_t number) {
               alerts.versionLoaded(model, number);
             },
             [this](const MonitoredVersion &version) { alerts.evaluateDrift(version); }}),
      alerts(executor, options, log, thread, drift, onFailure) {
  if (!options.otlp.empty()) {
    tracer = std::make_unique<Tracer>(options.otlp, options.traceShare, std::move(serverVersion),
                                      onFailure);
  }
}

Monitoring::~Monitoring() { stop(); }

void Monitoring::stop() {
  thread.stop();
  if (tracer) {
    tracer->flush();
  }
  tracer = nullptr;
  alerts.stop();
}

void Monitoring::tick(Clock::time_point now, const ModelCatalog &catalog) {
  constexpr uint64_t kSlowly = 5; // every half second
  drift.handOver();
  if (tracer) {
    tracer->tick(now);
  }
  if (ticks++ % kSlowly == 0) {
    drift.follow(catalog.all());
    alerts.evaluateCanaries();
  }
}

void Monitoring::answered(const Request &request, const InferResult &result) {
  drift.answered(request, result);
}

void Monitoring::replied(const InferResult &result, uint64_t copyOutNanoseconds) {
  if (tracer) {
    tracer->replied(result, copyOutNanoseconds);
  }
}

void Monitoring::failed(const Request &request) {
  if (tracer) {
    tracer->failed(request);
  }
}

void Monitoring::continued(const TextRecord &record) {
  if (tracer) {
    tracer->continued(record);
  }
}

std::string Monitoring::metrics() const {
  std::string text;
  drift.appendMetrics(text);
  alerts.appendMetrics(text);
  auto deliveries = [&](std::string_view name, std::string_view help, const auto *queue) {
    if (queue) {
      appendMetricHead(text, name, "counter", help);
      fmt::format_to(std::back_inserter(text),
                     "{0}{{outcome=\"sent\"}} {1}\n{0}{{outcome=\"failed\"}} "
                     "{2}\n{0}{{outcome=\"dropped\"}} {3}\n",
                     name, queue->sent(), queue->failed(), queue->dropped());
    }
  };
  deliveries("tenon_webhooks_total", "Events for the webhook.", alerts.deliveries());
  deliveries("tenon_traced_requests_total", "Requests whose spans go to the trace collector.",
             tracer.get());
  return text;
}

} // namespace tenon::server
