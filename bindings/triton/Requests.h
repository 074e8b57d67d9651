// The tensors of Triton's requests and responses, between its buffers and dense host memory.

#pragma once

#include "bindings/triton/Instance.h"

namespace tenon::triton {

/// Fails where the input is missing, has another type, has not the bytes of its dims, or lies on a
/// GPU.
Error readInput(TRITONBACKEND_Request *request, const Port &port, Tensor &tensor);
/// The names of the outputs that the client wants.
Error wantedOutputs(TRITONBACKEND_Request *request, std::vector<std::string_view> &names);
/// Adds an output to the response; `data` has its `bytes`.
Error writeOutput(TRITONBACKEND_Response *response, const Port &port, std::span<const int64_t> dims,
                  const std::byte *data, uint64_t bytes);

} // namespace tenon::triton
