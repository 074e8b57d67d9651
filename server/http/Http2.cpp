// The sockets' side of HTTP/2: one coroutine reads into the session, one writes what it gives.

#include "server/http/Http2.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace tenon::server {
namespace {

namespace asio = boost::asio;
using asio::redirect_error;
using asio::use_awaitable;
using Error = boost::system::error_code;

/// What is made for one write: enough to fill a socket's buffer.
constexpr uint64_t kMaxWritten = 1 << 20;

bool isGrpc(std::string_view contentType) {
  constexpr std::string_view kGrpc("application/grpc");
  return contentType == kGrpc || contentType.starts_with("application/grpc+") ||
         contentType.starts_with("application/grpc;");
}

class Http2Connection : public Connection {
public:
  Http2Connection(std::shared_ptr<ServerContext> shared, std::unique_ptr<ClientSocket> socket)
      : Connection(std::move(shared), std::move(socket)), work(server.context),
        session(
            kMaxHeader, [this](Stream &stream) { return makeHandler(stream); },
            [this] { work.cancel(); }) {}

  /// `self` lives until both coroutines have ended.
  static asio::awaitable<void> run(std::shared_ptr<Http2Connection> self, std::string received) {
    self->lastRequest = Clock::now();
    if (self->server.isDraining) {
      self->session.goAway();
    }
    self->isOver = !self->session.receive(received);
    asio::co_spawn(self->server.context, write(self), asio::detached);
    std::vector<std::byte> buffer(kReadStep);
    while (!self->isOver) {
      Error error;
      size_t bytes = co_await self->socket->readSome(asio::buffer(buffer), error);
      self->isOver = self->isOver || error ||
                     !self->session.receive({reinterpret_cast<const char *>(buffer.data()), bytes});
      self->work.cancel();
    }
    self->work.cancel();
  }

  void tick(Clock::time_point now) override {
    if (session.streamCount() > 0) {
      lastRequest = now;
    } else if (lastRequest + idle() < now) {
      session.goAway();
      lastRequest = now;
    }
    session.tick(now, server.options.slowest);
    if (std::min(socket->writeDeadline(server.options.slowest), endDeadline) < now) {
      socket->cancel();
    }
  }

  void drain() override { session.goAway(); }

private:
  std::unique_ptr<StreamHandler> makeHandler(Stream &stream) {
    return isGrpc(stream.field("content-type")) ? makeGrpcCall(server, *socket, stream)
                                                : makeHttpStream(server, *socket, stream);
  }

  static asio::awaitable<void> write(std::shared_ptr<Http2Connection> self) {
    Error error;
    Outgoing out;
    while (!error) {
      self->session.collect(kMaxWritten, out);
      if (!out.isEmpty()) {
        std::vector<asio::const_buffer> parts;
        for (Bytes span : out.spans()) {
          parts.emplace_back(span.data(), span.size());
        }
        co_await self->socket->write(parts, error);
      } else if (self->isOver || self->session.isOver()) {
        break;
      } else {
        Error ignored;
        self->work.expires_at(Clock::time_point::max());
        co_await self->work.async_wait(redirect_error(use_awaitable, ignored));
      }
    }
    bool wasReading = !self->isOver;
    self->isOver = true;
    self->session.closeAll();
    if (wasReading) {
      self->socket->cancel(); // the reading coroutine
    }
    if (!error) {
      self->endDeadline = Clock::now() + std::chrono::seconds(1);
      asio::steady_timer turn(self->server.context,
                              Clock::now()); // the read has ended before the next begins
      Error ignored;
      co_await turn.async_wait(redirect_error(use_awaitable, ignored));
      co_await self->socket->linger();
    }
  }

  asio::steady_timer work; ///< cancelled when there may be something to write
  Session session;
  Clock::time_point lastRequest;
  Clock::time_point endDeadline = Clock::time_point::max();
  bool isOver = false; ///< nothing more is read
};

} // namespace

asio::awaitable<void> serveHttp2(std::shared_ptr<ServerContext> server,
                                 std::unique_ptr<ClientSocket> socket, std::string received) {
  std::shared_ptr<Http2Connection> connection =
      std::make_shared<Http2Connection>(std::move(server), std::move(socket));
  co_await Http2Connection::run(std::move(connection), std::move(received));
}

} // namespace tenon::server
