// The messages of all other calls: requests as questions, answers field by field. Source:
// grpc_service.proto and model_config.proto of Triton, health.proto of gRPC;
// server/grpc/inference.proto is our text of them.

#pragma once

#include "server/protocol/Answer.h"
#include "server/protocol/Routes.h"
#include "support/Result.h"

#include <string>
#include <string_view>

namespace tenon::server {

/// Reads what the request of a call asks into `asked`. TN0830.
Status readGrpcRequest(std::string_view message, Question &asked);

/// The message of an operation's answer.
std::string writeGrpcAnswer(Operation operation, const Answer &answer);

enum class Health : uint8_t { Serving = 1, NotServing = 2, UnknownService = 3 };
std::string writeHealth(Health health);

} // namespace tenon::server
