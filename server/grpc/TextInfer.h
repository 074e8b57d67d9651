// Requests to language models in ModelStreamInfer: the prompt is a tensor of BYTES, what OpenAI's
// interface has as fields are parameters of the request, and each reply has a piece of the answer.

#pragma once

#include "server/http2/Session.h"
#include "server/ipc/TextMessages.h"
#include "server/protocol/TextRecord.h"
#include "support/Result.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

struct GrpcTextRequest {
  std::string model, id;
  bool isChat = false;
  /// A body of /v1/chat/completions or /v1/completions that asks for the same; it streams.
  std::string body;
};

/// Parses a ModelInferRequest whose first input is text_input or messages with the type BYTES;
/// nothing for any other. TN0806, TN0807, TN0818 for a version, TN0830 for what is no message.
Result<std::optional<GrpcTextRequest>> parseGrpcText(std::string_view message);

/// A ModelStreamInferResponse with a piece of choice `index`; the last one of the request has what
/// was counted.
std::vector<Piece> writeGrpcText(const TextRecord &record, std::string_view id, uint64_t index,
                                 const TextPiece &piece, bool isLast);

} // namespace tenon::server
