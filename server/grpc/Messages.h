// The messages of all other calls: requests as a route with settings, answers from the JSON that
// HTTP gives, field by field of the same names. Source: grpc_service.proto and model_config.proto
// of Triton, health.proto of gRPC; server/grpc/inference.proto is our text of them.

#pragma once

#include "server/protocol/Routes.h"
#include "support/Result.h"

#include <string>
#include <string_view>

namespace tenon::server {

/// Reads what the request of a call says into `match` and `settings` (as Api::perform takes them).
/// TN0830.
Status readGrpcRequest(std::string_view message, RouteMatch &match, std::string &settings);

/// The message of an operation's answer, of what Api::perform gives.
Result<std::string> writeGrpcAnswer(Operation operation, std::string_view json);

enum class Health : uint8_t { Serving = 1, NotServing = 2, UnknownService = 3 };
std::string writeHealth(Health health);

} // namespace tenon::server
