// The end of a request may have it destroyed.

#include "server/batching/Request.h"

namespace tenon::server {

std::shared_ptr<Request> Request::copyFor(std::shared_ptr<Version> version, const Request &other) {
  std::shared_ptr<Request> copy = std::make_shared<Request>(std::move(version), other.payload);
  copy->arrival = other.arrival;
  copy->priority = other.priority;
  uint64_t ownedBytes = copy->payload.charge.size();
  for (const RequestInput &input : copy->payload.inputs) {
    ownedBytes += input.binary.size();
  }
  if (!copy->payload.charge.resize(ownedBytes).isOk()) {
    return nullptr;
  }
  for (RequestInput &input : copy->payload.inputs) {
    copy->owned.emplace_back(input.binary.begin(),
                             input.binary.end()); // the body goes with the reply
    input.binary = copy->owned.back();
  }
  return copy;
}

Status Request::check() {
  if (isChecked || !version->isKnown()) {
    return Status::ok();
  }
  isChecked = true;
  return checkPorts();
}

bool Request::cancel() {
  bool waited = std::exchange(onEnd, nullptr) != nullptr;
  cancelled = cancelled || waited;
  return waited;
}

void Request::end(Result<InferResult> result) {
  if (OnEnd callback = std::exchange(onEnd, nullptr)) {
    callback(std::move(result));
  }
}

} // namespace tenon::server
