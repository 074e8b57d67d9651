// Memory of bodies, and the register of connections.

#include "server/http/Front.h"

#include <fmt/format.h>

namespace tenon::server {

Status BodyShare::resize(uint64_t to) {
  if (to > most()) {
    return Status::error(ErrorId::QueueFull,
                         "the bodies of the requests that wait take all memory that they may",
                         "try again later");
  }
  front.bodies += to - bytes;
  bytes = to;
  return Status::ok();
}

Result<std::string> BodyShare::decode(Encoding encoding, std::string body) {
  if (encoding == Encoding::Identity) {
    return body;
  }
  uint64_t allowed = std::min(front.options.mostBody, most());
  Result<std::string> decoded = decompress(encoding, body, allowed);
  if (!decoded.isOk()) {
    bool isShareOver =
        decoded.status().id() == ErrorId::RequestTooLarge && allowed < front.options.mostBody;
    return isShareOver ? Result<std::string>(resize(allowed + 1)) : std::move(decoded);
  }
  TENON_TRY(resize(decoded->size()));
  return decoded;
}

Status bodyTooLarge(const ServerOptions &options) {
  return Status::error(
      ErrorId::RequestTooLarge,
      fmt::format("the body of the request has more than {} bytes", options.mostBody),
      "the server's --max-body sets the bound");
}

Connection::Connection(std::shared_ptr<Front> shared, std::unique_ptr<ClientSocket> socket)
    : holder(std::move(shared)), front(*holder), socket(std::move(socket)) {
  front.connections.insert(this);
}

Connection::~Connection() {
  front.connections.erase(this);
  if (front.isDraining && front.connections.empty()) {
    front.drained.cancel();
  }
}

} // namespace tenon::server
