// Tells another system what happens in a registry: every event, in the order of the history, at
// least once. The history is the queue, so nothing is lost while the other system is away; how far
// it was told stands in a file, which is on the disk before the next event is sent.

#pragma once

#include "registry/FolderLock.h"
#include "registry/Registry.h"
#include "support/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon::registry {

struct Subscription {
  std::string url;
  /// Whether events are sent as log records of OpenTelemetry (OTLP 1.x over HTTP, with JSON), many
  /// in a request, to /v1/logs where the URL has no path; else each in a request of its own.
  bool isOtlp = false;
  std::string secret;        ///< signs each webhook; empty: it is not signed
  std::string authorization; ///< of each request; empty: none
  std::string version;       ///< of the program that sends
  std::string state;         ///< the file that says how far it was told
  /// The first event to be told, where there is no such file yet; none: the next that happens.
  std::optional<int64_t> first;
  std::vector<std::string> actions; ///< that are told; empty: all
};

class Subscriber {
public:
  /// TN1002 where another process has the same state file; TN0105 for the address or a
  /// file that is no such state.
  static Result<Subscriber> open(Subscription subscription);

  /// Tells what was not told yet, and how many events that was. The first that the other system
  /// does not take ends it: TN0150. TN1011 where the event that was told last is another one now:
  /// the registry is not the one that it was, or was restored from an older copy.
  Result<int64_t> deliver(Registry &registry);

private:
  Subscriber(Subscription subscription, FolderLock lock)
      : subscription(std::move(subscription)), lock(std::move(lock)) {}
  Status begin(Registry &registry);
  Status save(int64_t event, const std::string &hash);
  Status send(const std::vector<Event> &events, const std::string &where) const;
  bool isTold(const Event &event) const;

  Subscription subscription;
  FolderLock lock;
  std::optional<int64_t> last; ///< the event that was told last; 0: none
  std::string hash;            ///< its
};

/// ExportLogsServiceRequest.
std::string otlpLogs(const std::vector<Event> &events, const std::string &where,
                     const std::string &version);

} // namespace tenon::registry
