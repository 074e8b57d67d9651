// The requests that wait for a version: by priority, then by arrival; those that were put off by
// their time-out come last of theirs.

#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tenon::server {

struct Request;

class RequestQueue {
public:
  /// Where a request waits; kept in the request.
  struct Place {
    std::pair<uint64_t, bool> line; ///< priority, and whether it was put off
    std::list<std::shared_ptr<Request>>::iterator at;
  };

  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  size_t sizeOf(uint64_t priority) const;

  void push(const std::shared_ptr<Request> &request) { insert(request, false, false); }
  /// Before all others of its priority.
  void pushFront(const std::shared_ptr<Request> &request) { insert(request, false, true); }
  /// Behind all others of its priority.
  void putOff(const std::shared_ptr<Request> &request);
  /// Whether it waited.
  bool erase(const std::shared_ptr<Request> &request);
  std::vector<std::shared_ptr<Request>> takeAll();
  std::vector<std::shared_ptr<Request>> all() const;

  /// The first one and those that can run in one batch with it, up to `maxRows` rows; none where
  /// none waits.
  std::vector<std::shared_ptr<Request>> gather(uint64_t maxRows) const;

private:
  void insert(const std::shared_ptr<Request> &request, bool isPutOff, bool isFirst);

  std::map<std::pair<uint64_t, bool>, std::list<std::shared_ptr<Request>>> lines; ///< none is empty
  size_t count = 0;
};

} // namespace tenon::server
