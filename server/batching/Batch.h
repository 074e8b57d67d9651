// Requests that run together: their way through a shared buffer to an instance of the model, and
// the outputs' way back.

#pragma once

#include "server/batching/Request.h"

#include <memory>
#include <vector>

namespace tenon::server {

class Batch {
public:
  Batch(Version &version, Instance &instance, std::vector<std::shared_ptr<Request>> requests)
      : requests(std::move(requests)), version(version), instance(instance) {}

  std::vector<std::shared_ptr<Request>> requests; ///< in the order of their rows

  uint64_t rows() const;
  /// Takes a shared buffer for the requests, with `outputRoom` bytes for outputs.
  Status place(uint64_t outputRoom);
  uint64_t inputBytes() const { return outputOffset; }
  /// Copies the requests into the buffer. On any thread: it touches nothing but these.
  void copy();
  /// What copy() gave; on an error `faulty` is the request that it is of, or null.
  Status problem;
  std::shared_ptr<Request> faulty;
  /// Writes into the request slot what is to be run.
  void handOver();
  bool isHandedOver() const { return outputBuffer != nullptr; }
  /// Takes a shared buffer of `bytes` for outputs, which had no room.
  Status provideRoom(uint64_t bytes);
  /// The outputs of the run; those of each request are rows of them.
  Result<std::vector<TensorPlace>> readOutputs() const;
  /// What each request gets of the outputs.
  std::vector<InferResult> cut(const std::vector<TensorPlace> &outputs) const;
  uint64_t copyInNanoseconds() const { return copyIn; } ///< that filling the buffer took

private:
  std::vector<TensorPlace> placeInputs() const;
  TensorPlace cutOutput(const Request &request, const ModelPort &port, TensorPlace place,
                        uint64_t first) const;

  Version &version;
  Instance &instance;
  std::vector<TensorPlace> places; ///< of the inputs
  std::shared_ptr<SharedBuffer> inputBuffer, outputBuffer;
  uint64_t outputOffset = 0, outputEnd = 0; ///< as the request slot has them
  uint64_t copyIn = 0;
  int64_t padded = 0; ///< the length that the requests are padded to; 0: they are not
};

} // namespace tenon::server
