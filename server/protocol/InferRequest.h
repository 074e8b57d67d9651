// A request for an inference as KServe v2 has it over HTTP: JSON first, then the tensors that are
// binary, one behind the other. Source: "Open Inference Protocol" and its extension for binary
// tensors, as Triton's clients speak it.

#pragma once

#include "server/protocol/Json.h"
#include "server/protocol/TraceContext.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// Bounds of what a request can name.
constexpr size_t kMaxRank = 32;
constexpr size_t kMaxName = 1024;

struct RequestInput {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  uint64_t bytes = 0; ///< of its elements: dims times type
  /// Either the elements as they are, in the body of the request, or a number list.
  Bytes binary;
  std::optional<size_t> list;
};

struct RequestedOutput {
  std::string name;
  bool isBinary = false;
};

struct InferRequest {
  std::string id;
  std::vector<RequestInput> inputs;
  /// Empty: all outputs, binary where `binaryByDefault`.
  std::vector<RequestedOutput> outputs;
  bool binaryByDefault = false;
  uint64_t timeoutMicroseconds = 0; ///< 0: none
  uint64_t priority = 0;            ///< 1 is the highest; 0: the model's usual one
  std::vector<NumberList> lists;
  MemoryCharge charge; ///< of the lists, and of elements that came as numbers otherwise
  std::shared_ptr<const void> owner; ///< of what it refers to; null: who has it keeps that
  TraceContext trace;                ///< that the caller told beside the request

  /// Nobody reads the inputs any more.
  void releaseInputs() {
    inputs.clear();
    lists.clear();
    charge.release();
    owner = nullptr;
  }
};

/// Parses `body`, of which the first `jsonBytes` are JSON (all where none); the result refers to
/// it, and is charged to `budget` (TN0812). What does not depend on the model is checked: every
/// input has as many elements as its dims say, and nothing of the body is left.
Result<InferRequest> parseInferRequest(std::string_view body, std::optional<uint64_t> jsonBytes,
                                       MemoryBudget *budget = nullptr);

/// Fills `bytes` from type and dims, none of which is below 0. TN0807 where there are more than can
/// be counted.
Status countBytes(RequestInput &input);
/// What the protocol has and the server does not: TN0818.
Status regionsNotServed();
Status sequencesNotServed();
Status classificationNotServed();

/// An output for a reply; `bytes` are its elements.
struct ReplyOutput {
  std::string name;
  DType dtype;
  std::vector<int64_t> dims;
  Bytes bytes;
  bool isBinary;
};

struct InferReply {
  explicit InferReply(MemoryBudget *budget) : json(budget) {}
  ChargedText json;
  /// Whether tensors follow, in the order of the outputs; then the header
  /// Inference-Header-Content-Length says how long the JSON is.
  bool hasBinary = false;
};

/// TN0808 where outputs that are not binary have more elements together than `maxElements`: a
/// number takes up to 25 bytes as text. TN0812 where `budget` has no room for it.
Result<InferReply> writeInferReply(std::string_view model, std::string_view version,
                                   std::string_view id, const std::vector<ReplyOutput> &outputs,
                                   uint64_t maxElements, MemoryBudget *budget = nullptr);

} // namespace tenon::server
