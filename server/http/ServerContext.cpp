// Bounds of requests, and the register of connections.

#include "server/http/ServerContext.h"

#include "support/memory/MachineMemory.h"

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
      "the server's --max-body sets this limit");
}

Status pushTooLarge(const ServerOptions &options) {
  return Status::error(ErrorId::RequestTooLarge,
                       fmt::format("the file has more than {} bytes", options.maxPush),
                       "the server's --max-push sets this limit");
}

void ServerContext::noteFull() {
  constexpr std::chrono::seconds kPeriod{10};
  ++connectionCounts.beyondLimit;
  if (fullNoted + kPeriod < Clock::now()) {
    fullNoted = Clock::now();
    options.log(fmt::format("{} connections are open, the limit of --max-connections: further ones "
                            "can only ask for health ({} came so far)",
                            connections.size(), connectionCounts.beyondLimit),
                LogLevel::Warning);
  }
}

Status ServerContext::admitRoute(const ClientSocket &socket, const Route &route) const {
  return !socket.isForProbes || roleOf(route.operation) == Role::Open
             ? Status::ok()
             : Status::error(
                   ErrorId::QueueFull,
                   fmt::format("the server already has {} connections", options.maxConnections),
                   "try again later, or keep connections open between requests");
}

Connection::Connection(std::shared_ptr<ServerContext> shared, std::unique_ptr<ClientSocket> socket)
    : holder(std::move(shared)), server(*holder), socket(std::move(socket)) {
  server.connections.insert(this);
  ++server.connectionCounts.open;
}

Connection::~Connection() {
  server.connections.erase(this);
  --server.connectionCounts.open;
  if (server.isDraining && server.connections.empty()) {
    server.drained.cancel();
  }
}

} // namespace tenon::server
