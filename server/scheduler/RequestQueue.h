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

struct Job;

class RequestQueue {
public:
  /// Where a job waits; kept in the job.
  struct Place {
    std::pair<uint64_t, bool> line; ///< priority, and whether it was put off
    std::list<std::shared_ptr<Job>>::iterator at;
  };

  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  size_t sizeOf(uint64_t priority) const;

  void push(const std::shared_ptr<Job> &job) { insert(job, false, false); }
  /// Before all others of its priority.
  void pushFront(const std::shared_ptr<Job> &job) { insert(job, false, true); }
  /// Behind all others of its priority.
  void putOff(const std::shared_ptr<Job> &job);
  /// Whether it waited.
  bool erase(const std::shared_ptr<Job> &job);
  std::vector<std::shared_ptr<Job>> takeAll();
  std::vector<std::shared_ptr<Job>> all() const;

  /// The first one and those that can run in one batch with it, up to `mostRows` rows; none where
  /// none waits.
  std::vector<std::shared_ptr<Job>> gather(uint64_t mostRows) const;

private:
  void insert(const std::shared_ptr<Job> &job, bool isPutOff, bool isFirst);

  std::map<std::pair<uint64_t, bool>, std::list<std::shared_ptr<Job>>> lines; ///< none is empty
  size_t count = 0;
};

} // namespace tenon::server
