// A list for each priority, so that a request leaves from anywhere at once.

#include "server/scheduler/RequestQueue.h"

#include "server/scheduler/Version.h"

namespace tenon::server {
namespace {

/// Requests that are looked at for one batch.
constexpr size_t kMostLookedAt = 4096;

} // namespace

size_t RequestQueue::sizeOf(uint64_t priority) const {
  size_t sum = 0;
  for (bool isPutOff : {false, true}) {
    auto found = lines.find({priority, isPutOff});
    sum += found == lines.end() ? 0 : found->second.size();
  }
  return sum;
}

void RequestQueue::insert(const std::shared_ptr<Job> &job, bool isPutOff, bool isFirst) {
  std::pair<uint64_t, bool> line(job->priority, isPutOff);
  std::list<std::shared_ptr<Job>> &jobs = lines[line];
  job->place = Place{line, jobs.insert(isFirst ? jobs.begin() : jobs.end(), job)};
  ++count;
}

void RequestQueue::putOff(const std::shared_ptr<Job> &job) {
  if (erase(job)) {
    insert(job, true, false);
  }
}

bool RequestQueue::erase(const std::shared_ptr<Job> &job) {
  if (!job->place) {
    return false;
  }
  auto line = lines.find(job->place->line);
  std::shared_ptr<Job> held = job; // the list may have the last pointer
  line->second.erase(held->place->at);
  held->place.reset();
  if (line->second.empty()) {
    lines.erase(line);
  }
  --count;
  return true;
}

std::vector<std::shared_ptr<Job>> RequestQueue::takeAll() {
  std::vector<std::shared_ptr<Job>> all;
  for (auto &[line, jobs] : lines) {
    for (std::shared_ptr<Job> &job : jobs) {
      job->place.reset();
      all.push_back(std::move(job));
    }
  }
  lines.clear();
  count = 0;
  return all;
}

std::vector<std::shared_ptr<Job>> RequestQueue::all() const {
  std::vector<std::shared_ptr<Job>> all;
  for (const auto &[line, jobs] : lines) {
    all.insert(all.end(), jobs.begin(), jobs.end());
  }
  return all;
}

std::vector<std::shared_ptr<Job>> RequestQueue::gather(uint64_t mostRows) const {
  std::vector<std::shared_ptr<Job>> found;
  uint64_t rows = 0;
  size_t lookedAt = 0;
  for (const auto &[line, jobs] : lines) {
    for (const std::shared_ptr<Job> &job : jobs) {
      bool isHead = found.empty();
      if (isHead && !job->canBatch) {
        return {job};
      }
      if (isHead ||
          (job->canBatch && job->shape == found[0]->shape && job->rows <= mostRows - rows)) {
        found.push_back(job);
        rows += job->rows;
      }
      if (rows >= mostRows || ++lookedAt == kMostLookedAt) {
        return found;
      }
    }
  }
  return found;
}

} // namespace tenon::server
