// An inference from its arrival to its answer: it waits in the line of its version, runs in a
// batch, and ends once, by its outputs, an error or a caller who goes.

#pragma once

#include "server/admission/WaitingLine.h"
#include "server/protocol/InferRequest.h"
#include "server/residency/Version.h"

#include <functional>
#include <memory>
#include <vector>

namespace tenon::server {

/// What a request gave: the outputs lie in a shared buffer, which this keeps.
struct InferResult {
  std::shared_ptr<Version> version;
  std::shared_ptr<SharedBuffer> buffer;
  std::vector<TensorPlace> outputs; ///< in the order of the model's ports
  uint64_t batchRows = 1;           ///< of the run that it is from
  StageTimes times;
  Clock::time_point arrival;
  TraceContext trace; ///< of the request
};

class Request final : public WaitingRequest {
public:
  using OnEnd = std::function<void(Result<InferResult>)>;

  Request(std::shared_ptr<Version> version, InferRequest payload)
      : payload(std::move(payload)), version(std::move(version)) {}
  /// The same for another version, with the data that it refers to; null where there is no memory
  /// for those.
  static std::shared_ptr<Request> copyFor(std::shared_ptr<Version> version, const Request &other);

  /// Refers to the body of the request, which the caller keeps until the end.
  InferRequest payload;
  const std::shared_ptr<Version> version;

  /// Checks it against the version's ports, once they are known, and fills what follows from them;
  /// TN0807.
  Status check();

  // What follows from the ports.
  std::vector<size_t> order; ///< of the model's inputs in the request's
  uint64_t rows = 1;
  bool canBatch = false;
  /// All dims of the inputs but the batch, as they are once padded: requests with equal ones fit in
  /// one batch.
  std::vector<int64_t> shape;
  int64_t length = 0; ///< of the dim that may be padded, in the request
  int64_t bucket = 0; ///< that it may be padded to; 0: it is not padded

  StageTimes times;

  /// `callback` is called once, at the end.
  void begin(OnEnd callback) { onEnd = std::move(callback); }
  OnEnd takeEnd() { return std::exchange(onEnd, nullptr); }
  /// Whether somebody still waits for the end.
  bool isAwaited() const { return onEnd != nullptr; }
  bool isCancelled() const { return cancelled; }
  /// The caller has gone, and is called no more. Whether it still waited.
  bool cancel();
  void end(Result<InferResult> result);

private:
  Status checkPorts();

  OnEnd onEnd;
  std::vector<std::vector<std::byte>> owned; ///< what it refers to, where no caller keeps it
  bool isChecked = false;
  bool cancelled = false;
};

} // namespace tenon::server
