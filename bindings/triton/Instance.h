// An instance of a model: a session, and the requests that Triton hands to it.

#pragma once

#include "bindings/triton/Model.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tenon::triton {

/// An input of a request in host memory.
struct Tensor {
  const std::byte *data = nullptr;
  uint64_t bytes = 0;
  std::vector<int64_t> dims;       ///< as the engine has them
  std::vector<std::byte> ownBytes; ///< where Triton's are in pieces or not aligned
};

/// A request while it is executed.
struct Call {
  TRITONBACKEND_Request *request = nullptr; ///< null once it is answered
  TRITONBACKEND_Response *response = nullptr;
  std::vector<Tensor> inputs;
  int64_t rows = 1; ///< of the batch
};

/// Of an execution, in nanoseconds of the steady clock.
struct Times {
  uint64_t start = 0, computeStart = 0, computeEnd = 0, end = 0;
};

class Instance {
public:
  static Error create(TRITONBACKEND_ModelInstance *handle, Model &model,
                      std::unique_ptr<Instance> &instance);

  /// Answers and releases every request; throws only before it has touched one. One call at a time.
  void execute(std::span<TRITONBACKEND_Request *const> requests);

private:
  struct Destroy {
    void operator()(tenon_session *session) const { tenon_session_destroy(session); }
  };

  Instance(TRITONBACKEND_ModelInstance *handle, Model &model) : handle(handle), model(model) {}
  Error open();
  void executeAll(std::span<Call> calls, Times &times);
  Error readInputs(Call &call) const;
  /// Runs the calls, whose dims but the first are equal, as one batch. On an error none is answered
  /// yet.
  Error runBatch(std::span<Call *const> calls, Times &times);
  void runAlone(Call &call);
  /// The outputs stay in the session.
  Error run(std::span<const tenon_input> inputs, Times &times);
  /// Copies what the session has for rows `firstRow` and on of `rows` into a response.
  Error fillResponse(Call &call, int64_t firstRow, int64_t rows) const;
  /// Reports, sends and releases.
  void finish(Call &call, const Error &error, const Times &times) const;
  /// Responses are filled: sets the end. Before they are sent, so that a client finds its request
  /// in the statistics.
  void reportExecution(int64_t rows, Times &times) const;

  TRITONBACKEND_ModelInstance *handle;
  Model &model;
  std::shared_ptr<tenon_engine> engine;
  std::unique_ptr<tenon_session, Destroy> session;
};

} // namespace tenon::triton
