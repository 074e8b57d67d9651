// The requests that wait for a version: by priority, then by arrival; those that were put off by
// their time-out come last of theirs. It knows how many may wait and how long, and nothing of what
// they ask for: schedulers of every kind stand behind it.

#pragma once

#include "server/admission/Deadlines.h"
#include "server/protocol/ModelConfig.h"
#include "support/Result.h"

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon::server {

/// A request as its line knows it.
class WaitingRequest {
public:
  WaitingRequest() = default;
  virtual ~WaitingRequest() = default;
  WaitingRequest(const WaitingRequest &) = delete;
  WaitingRequest &operator=(const WaitingRequest &) = delete;

  Clock::time_point arrival = Clock::now();
  uint64_t priority = 0;

private:
  friend class WaitingLine;
  struct Place {
    std::pair<uint64_t, bool> line; ///< priority, and whether it was put off
    std::list<std::shared_ptr<WaitingRequest>>::iterator at;
  };
  std::optional<Place> place;               ///< while it waits
  std::optional<Deadlines::Entry> deadline; ///< while it waits and has one
};

class WaitingLine {
public:
  using Pointer = std::shared_ptr<WaitingRequest>;
  /// Gets a request that waited longer than it may, and does not wait any more.
  using OnLate = std::function<void(const Pointer &, const Status &)>;

  /// At most `maxQueued` wait, or fewer by `policies`.
  WaitingLine(Deadlines &deadlines, QueueConfig policies, size_t maxQueued, OnLate onLate)
      : deadlines(deadlines), policies(std::move(policies)), maxQueued(maxQueued),
        onLate(std::move(onLate)) {}

  /// For a model with priorities: the one that a request asks for if it is one of them, else the
  /// usual one.
  uint64_t priorityOf(uint64_t asked) const;
  /// Whether there is room for a request of the priority; TN0812, which names the model.
  Status admit(uint64_t priority, const std::string &model) const;

  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  /// `ownTimeout`: microseconds that it wants to wait at most; 0: any.
  void push(const Pointer &request, uint64_t ownTimeout);
  /// Before all others of its priority, for as long as it takes.
  void pushFront(const Pointer &request) { insert(request, false, true); }
  /// Whether it waited.
  bool erase(const Pointer &request);
  std::vector<Pointer> takeAll();
  std::vector<Pointer> all() const;
  /// Calls `visit` in the order of the line, until it gives false.
  template <typename Visit> void forEach(const Visit &visit) const {
    for (const auto &[line, requests] : lines) {
      for (const Pointer &request : requests) {
        if (!visit(request)) {
          return;
        }
      }
    }
  }

private:
  void insert(const Pointer &request, bool isPutOff, bool isFirst);
  void timeOut(const Pointer &request, std::chrono::microseconds wait);
  size_t sizeOf(uint64_t priority) const;

  Deadlines &deadlines;
  const QueueConfig policies;
  const size_t maxQueued;
  const OnLate onLate;
  std::map<std::pair<uint64_t, bool>, std::list<Pointer>> lines; ///< none is empty
  size_t count = 0;
};

} // namespace tenon::server
