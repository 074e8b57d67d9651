// Memory of bodies, and the register of connections.

#include "server/http/ServerContext.h"

#include <fmt/format.h>

namespace tenon::server {

Status BodyShare::resize(uint64_t to) {
  if (to > most()) {
    return Status::error(ErrorId::QueueFull,
                         "the bodies of the requests that wait take all memory that they may",
                         "try again later");
  }
  server.bodies += to - bytes;
  bytes = to;
  return Status::ok();
}

Result<std::string> BodyShare::decode(Encoding encoding, std::string body) {
  if (encoding == Encoding::Identity) {
    return body;
  }
  uint64_t allowed = std::min(server.options.maxBody, most());
  Result<std::string> decoded = decompress(encoding, body, allowed);
  if (!decoded.isOk()) {
    bool isShareOver =
        decoded.status().id() == ErrorId::RequestTooLarge && allowed < server.options.maxBody;
    return isShareOver ? Result<std::string>(resize(allowed + 1)) : std::move(decoded);
  }
  TENON_TRY(resize(decoded->size()));
  return decoded;
}

Status bodyTooLarge(const ServerOptions &options) {
  return Status::error(
      ErrorId::RequestTooLarge,
      fmt::format("the body of the request has more than {} bytes", options.maxBody),
      "the server's --max-body sets the bound");
}

void ServerContext::noteFull() {
  constexpr std::chrono::seconds kPeriod{10};
  ++connectionCounts.beyondLimit;
  if (fullNoted + kPeriod < Clock::now()) {
    fullNoted = Clock::now();
    options.log(fmt::format("there are {} connections, which is --max-connections: others are only "
                            "answered questions of health ({} came so far)",
                            connections.size(), connectionCounts.beyondLimit),
                LogLevel::Warning);
  }
}

Status ServerContext::admitRoute(const ClientSocket &socket, const Route &route) const {
  return !socket.isForProbes || route.role == Role::Open
             ? Status::ok()
             : Status::error(
                   ErrorId::QueueFull,
                   fmt::format("the server has {} connections already", options.maxConnections),
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
