// The two kinds of requests that HTTP/2 carries: those of HTTP, and calls of gRPC.

#pragma once

#include "server/http/ServerContext.h"
#include "server/http2/Session.h"

#include <memory>

namespace tenon::server {

/// A request of the paths that HTTP/1.1 has too.
std::unique_ptr<StreamHandler> makeHttpStream(ServerContext &server, const ClientSocket &socket,
                                              Stream &stream);
/// A call; its content-type is application/grpc.
std::unique_ptr<StreamHandler> makeGrpcCall(ServerContext &server, const ClientSocket &socket,
                                            Stream &stream);

} // namespace tenon::server
