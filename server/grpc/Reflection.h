// gRPC's server reflection: what services, methods and messages there are, for clients without the
// .proto files, such as grpcurl. Source: reflection.proto, in both packages with the same messages.

#pragma once

#include "support/Result.h"

#include <string>
#include <string_view>

namespace tenon::server {

/// The message that answers a ServerReflectionRequest; what it asks for in vain is an
/// ErrorResponse. TN0830.
Result<std::string> answerReflection(std::string_view message);

} // namespace tenon::server
