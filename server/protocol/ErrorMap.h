// What clients see of an error: the one table from TNxxxx to the status of HTTP and the code of
// gRPC.

#pragma once

#include "support/Status.h"

#include <string>
#include <string_view>

namespace tenon::server {

struct WireStatus {
  unsigned http;
  /// As google.rpc.Code numbers them. Never UNAVAILABLE (14) for overload or for a request that
  /// ended a worker: clients repeat those by themselves.
  unsigned grpc;
};

WireStatus wireStatusOf(ErrorId id);
/// "Bad Request".
std::string_view reasonOf(unsigned http);
/// {"error": "TN0807: ..."}.
std::string errorBody(const Status &status);

} // namespace tenon::server
