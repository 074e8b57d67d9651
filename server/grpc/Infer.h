// ModelInferRequest and ModelInferResponse, read and written where they lie: tensors are views of
// the message, and of the shared buffer. Source: grpc_service.proto of KServe v2 ("Open Inference
// Protocol") with Triton's fields; server/grpc/inference.proto is our text of it.

#pragma once

#include "server/http2/Session.h"
#include "server/protocol/InferRequest.h"

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

struct GrpcInferRequest {
  std::string model, version;
  InferRequest request;
  /// Elements that came as numbers, which `request` refers to.
  std::list<std::string> numbers; // where it is empty, it costs nothing
};

/// Parses a message; the result refers to it. Elements that come as numbers are charged to `budget`
/// (TN0812). TN0830 for what is no such message, TN0806 and TN0807 as for JSON,
/// TN0818.
Result<GrpcInferRequest> parseGrpcInfer(std::string_view message, MemoryBudget *budget = nullptr);

struct GrpcOutput {
  std::string_view name, datatype;
  std::vector<int64_t> dims;
  Bytes bytes;
};

/// A message with its prefix. `owner` keeps the outputs. For a stream it is a
/// ModelStreamInferResponse.
std::vector<Piece> writeGrpcInfer(std::string_view model, std::string_view version,
                                  std::string_view id, const std::vector<GrpcOutput> &outputs,
                                  bool isStream, std::shared_ptr<const void> owner);
/// A ModelStreamInferResponse that tells an error of the request `id`.
std::vector<Piece> writeGrpcInferError(const Status &status, std::string_view id);

} // namespace tenon::server
