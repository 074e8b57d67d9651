// Spans of requests for a collector of OpenTelemetry: the request, and in it queue, copy in,
// compute and copy out, or of a language model queue, prefill and decode. Source: OTLP 1.x over
// HTTP, with JSON; names of attributes are those of its conventions for generative AI. One thread;
// a thread of its own sends.

#pragma once

#include "server/batching/Request.h"
#include "server/monitoring/DeliveryQueue.h"
#include "server/protocol/TextRecord.h"
#include "support/random/Random.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon::server {

/// A request that is traced.
struct TracedRequest {
  TraceContext
      context; ///< with a trace of our own where the caller gave none; the parent is zero then
  std::string model, version;
  std::chrono::system_clock::time_point end;
  uint64_t total = 0; ///< nanoseconds; those of the stages are within
  StageTimes times;
  uint64_t batchRows = 0;
  bool isFailed = false;
  std::optional<TextRecord> text = {}; ///< of a language model, whose stages these are
};

/// ExportTraceServiceRequest of so many requests. Ids of spans are drawn from `random`.
std::string otlpText(const std::vector<TracedRequest> &requests, std::string_view serverVersion,
                     Random &random);

class Tracer {
public:
  /// `url` is of the collector, /v1/traces is added where it has no path. `share` of the requests
  /// that come without a trace are traced; those that come with one as their caller says.
  Tracer(std::string url, double share, std::string serverVersion,
         std::function<void(const Status &)> onFailure);

  void replied(const InferResult &result, uint64_t copyOutNanoseconds);
  void failed(const Request &request);
  void continued(const TextRecord &record);
  /// Hands over what there is once in a second.
  void tick(Clock::time_point now);
  /// At the end.
  void flush();

  uint64_t sent() const { return queue.sent(); }
  uint64_t failed() const { return queue.failed(); }
  uint64_t dropped() const { return queue.dropped(); }

private:
  bool isTraced(TraceContext &context);
  void add(TracedRequest request);

  const std::string url, serverVersion;
  const double share;
  Random random;
  std::vector<TracedRequest> traced;
  Clock::time_point last;
  DeliveryQueue queue;
};

} // namespace tenon::server
