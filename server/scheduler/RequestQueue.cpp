// A list for each priority, so that a request leaves from anywhere at once.

#include "server/scheduler/RequestQueue.h"

#include "server/scheduler/Version.h"

namespace tenon::server {
namespace {

/// Requests that are looked at for one batch.
constexpr size_t kMaxLookedAt = 4096;

} // namespace

size_t RequestQueue::sizeOf(uint64_t priority) const {
  size_t sum = 0;
  for (bool isPutOff : {false, true}) {
    auto found = lines.find({priority, isPutOff});
    sum += found == lines.end() ? 0 : found->second.size();
  }
  return sum;
}

void RequestQueue::insert(const std::shared_ptr<Request> &request, bool isPutOff, bool isFirst) {
  std::pair<uint64_t, bool> line(request->priority, isPutOff);
  std::list<std::shared_ptr<Request>> &requests = lines[line];
  request->place =
      Place{line, requests.insert(isFirst ? requests.begin() : requests.end(), request)};
  ++count;
}

void RequestQueue::putOff(const std::shared_ptr<Request> &request) {
  if (erase(request)) {
    insert(request, true, false);
  }
}

bool RequestQueue::erase(const std::shared_ptr<Request> &request) {
  if (!request->place) {
    return false;
  }
  auto line = lines.find(request->place->line);
  std::shared_ptr<Request> held = request; // the list may have the last pointer
  line->second.erase(held->place->at);
  held->place.reset();
  if (line->second.empty()) {
    lines.erase(line);
  }
  --count;
  return true;
}

std::vector<std::shared_ptr<Request>> RequestQueue::takeAll() {
  std::vector<std::shared_ptr<Request>> all;
  for (auto &[line, requests] : lines) {
    for (std::shared_ptr<Request> &request : requests) {
      request->place.reset();
      all.push_back(std::move(request));
    }
  }
  lines.clear();
  count = 0;
  return all;
}

std::vector<std::shared_ptr<Request>> RequestQueue::all() const {
  std::vector<std::shared_ptr<Request>> all;
  for (const auto &[line, requests] : lines) {
    all.insert(all.end(), requests.begin(), requests.end());
  }
  return all;
}

std::vector<std::shared_ptr<Request>> RequestQueue::gather(uint64_t maxRows) const {
  std::vector<std::shared_ptr<Request>> found;
  uint64_t rows = 0;
  size_t lookedAt = 0;
  for (const auto &[line, requests] : lines) {
    for (const std::shared_ptr<Request> &request : requests) {
      bool isHead = found.empty();
      if (isHead && !request->canBatch) {
        return {request};
      }
      if (isHead || (request->canBatch && request->shape == found[0]->shape &&
                     request->rows <= maxRows - rows)) {
        found.push_back(request);
        rows += request->rows;
      }
      if (rows >= maxRows || ++lookedAt == kMaxLookedAt) {
        return found;
      }
    }
  }
  return found;
}

} // namespace tenon::server
