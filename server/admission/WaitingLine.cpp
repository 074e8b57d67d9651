// A list for each priority, so that a request leaves from anywhere at once.

#include "server/admission/WaitingLine.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::server {

uint64_t WaitingLine::priorityOf(uint64_t asked) const {
  bool hasOwn = asked > 0 && asked <= policies.priorityLevels;
  return policies.priorityLevels == 0 ? 0 : hasOwn ? asked : policies.defaultPriority;
}

size_t WaitingLine::sizeOf(uint64_t priority) const {
  size_t sum = 0;
  for (bool isPutOff : {false, true}) {
    auto found = lines.find({priority, isPutOff});
    sum += found == lines.end() ? 0 : found->second.size();
  }
  return sum;
}

Status WaitingLine::admit(uint64_t priority, const std::string &model) const {
  size_t waiting = size(), most = maxQueued;
  std::string whose;
  uint64_t own = policies.policyOf(priority).maxQueued;
  if (own > 0 && sizeOf(priority) >= own) {
    waiting = sizeOf(priority);
    most = own;
    whose = policies.priorityLevels > 0 ? fmt::format(" with priority {}", priority) : "";
  }
  return waiting < most
             ? Status::ok()
             : Status::error(ErrorId::QueueFull,
                             fmt::format("{} requests{} are already waiting for model '{}'",
                                         waiting, whose, model),
                             "send fewer requests at once, or try again later");
}

void WaitingLine::push(const Pointer &request, uint64_t ownTimeout) {
  insert(request, false, false);
  const QueuePolicy &policy = policies.policyOf(request->priority);
  uint64_t own = policy.allowsOwnTimeout ? ownTimeout : 0;
  uint64_t wait = own > 0 && (policy.timeoutMicroseconds == 0 || own < policy.timeoutMicroseconds)
                      ? own
                      : policy.timeoutMicroseconds;
  if (wait > 0) {
    constexpr uint64_t kMaxWait = uint64_t(1) << 40; // of microseconds: no sum overflows
    std::chrono::microseconds most(std::min(wait, kMaxWait));
    // The request keeps its version, and that this line.
    request->deadline =
        deadlines.add(request->arrival + most, [this, request, most] { timeOut(request, most); });
  }
}

void WaitingLine::insert(const Pointer &request, bool isPutOff, bool isFirst) {
  std::pair<uint64_t, bool> line(request->priority, isPutOff);
  std::list<Pointer> &requests = lines[line];
  request->place = WaitingRequest::Place{
      line, requests.insert(isFirst ? requests.begin() : requests.end(), request)};
  ++count;
}

void WaitingLine::timeOut(const Pointer &request, std::chrono::microseconds wait) {
  bool waited = erase(request);
  if (waited && !policies.policyOf(request->priority).rejectsLate) {
    insert(request, true, false);
  } else if (waited) {
    onLate(request, Status::error(ErrorId::RequestTimedOut,
                                  fmt::format("the request waited longer than its timeout of {} µs",
                                              wait.count())));
  }
}

bool WaitingLine::erase(const Pointer &request) {
  if (request->deadline) {
    deadlines.drop(*std::exchange(request->deadline, std::nullopt));
  }
  if (!request->place) {
    return false;
  }
  auto line = lines.find(request->place->line);
  Pointer held = request; // the list may have the last pointer
  line->second.erase(held->place->at);
  held->place.reset();
  if (line->second.empty()) {
    lines.erase(line);
  }
  --count;
  return true;
}

std::vector<WaitingLine::Pointer> WaitingLine::takeAll() {
  std::vector<Pointer> taken = all();
  for (const Pointer &request : taken) {
    erase(request);
  }
  return taken;
}

std::vector<WaitingLine::Pointer> WaitingLine::all() const {
  std::vector<Pointer> all;
  forEach([&](const Pointer &request) {
    all.push_back(request);
    return true;
  });
  return all;
}

} // namespace tenon::server
