// Bounds of requests, and the register of connections.

#include "server/http/ServerContext.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::server {

uint64_t defaultMaxMemory() {
  constexpr uint64_t kMost = uint64_t(1) << 30;
  return std::min(usableMemory() / 3, kMost);
}

Status bodyTooLarge(const ServerOptions &options) {
  return Status::error(
      ErrorId::RequestTooLarge,
      fmt::format("the body of the request has more than {} bytes", options.maxBody),
      "the server's --max-body sets the bound");
}

Connection::Connection(std::shared_ptr<ServerContext> shared, std::unique_ptr<ClientSocket> socket)
    : holder(std::move(shared)), server(*holder), socket(std::move(socket)) {
  server.connections.insert(this);
}

Connection::~Connection() {
  server.connections.erase(this);
  if (server.isDraining && server.connections.empty()) {
    server.drained.cancel();
  }
}

} // namespace tenon::server
