// What the connections of a server share, and what the server asks of each.

#pragma once

#include "server/api/Api.h"
#include "server/http/ClientSocket.h"
#include "server/http/Server.h"
#include "server/monitoring/Monitoring.h"
#include "server/page/ErrorRing.h"
#include "server/page/RegistryAdmin.h"
#include "server/protocol/Compression.h"
#include "server/protocol/Tokens.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace tenon::server {

class Connection;

/// Each connection holds it: those that are left at the end go with the context.
struct ServerContext {
  ServerContext(const ServerOptions &options, boost::asio::io_context &context,
                std::unique_ptr<ModelRepository> repository, std::optional<Tokens> tokens)
      : options(options), context(context), acceptor(context),
        monitoring(context.get_executor(), options.monitoring, options.version, options.log),
        models(context.get_executor(), std::move(repository),
               {options.workerCommand, options.threads, options.maxQueued, options.memoryBudget,
                options.gpuMemoryBudget, options.gpus, options.log,
                [this](const std::string &model, const Status &problem) {
                  errors.add(model, problem);
                },
                &monitoring}),
        admin(RegistryAdmin::of(options.models, options.registry, context.get_executor())),
        api(models, errors, admin.get(), monitoring, connectionCounts, options.version),
        tokens(std::move(tokens)), drained(context) {}

  const Tokens *rights() const { return tokens ? &*tokens : nullptr; }
  /// A connection came that is more than --max-connections.
  void noteFull();
  /// TN0812 for what such a connection asks that is no probe.
  Status admitRoute(const ClientSocket &socket, const Route &route) const;
  /// Whether browsers are answered under names of this machine only: nobody else reaches the
  /// server, and it asks for no token.
  bool onlyLocalNames() const { return !tokens && !options.isInsecure; }

  const ServerOptions &options;
  boost::asio::io_context &context;
  boost::asio::ip::tcp::acceptor acceptor;
  ErrorRing errors;
  Monitoring monitoring;
  ModelManager models;
  std::unique_ptr<RegistryAdmin> admin; ///< null: models come from a folder
  Api api;
  std::optional<Tokens> tokens;
  std::shared_ptr<boost::asio::ssl::context> tls; ///< null: none
  std::set<Connection *> connections;
  uint64_t bodies =
      0; ///< bytes of bodies that are held: received, decompressed, and numbers made from them
  bool isDraining = false;
  ConnectionCounts connectionCounts;
  Clock::time_point fullNoted;       ///< in the log
  boost::asio::steady_timer drained; ///< cancelled when the last connection ends
};

/// The part of ServerContext::bodies that one request takes.
class BodyShare {
public:
  explicit BodyShare(ServerContext &server) : server(server) {}
  ~BodyShare() { server.bodies -= bytes; }
  BodyShare(const BodyShare &) = delete;
  BodyShare &operator=(const BodyShare &) = delete;

  /// How large it may become.
  uint64_t most() const {
    return std::max(server.options.maxBodies, server.bodies) - server.bodies + bytes;
  }
  uint64_t size() const { return bytes; }
  /// What is left for numbers that are made from the body.
  uint64_t rest() const { return most() - bytes; }
  /// TN0812 where that is more than `most`.
  Status resize(uint64_t to);
  /// Gives `body` as it was before it was encoded, and takes the share for it.
  Result<std::string> decode(Encoding encoding, std::string body);

private:
  ServerContext &server;
  uint64_t bytes = 0;
};

/// The client is slower than this, in bytes a second: it holds a connection longer than it is
/// worth.
constexpr uint64_t kMinRate = 32 << 10;
constexpr size_t kReadStep = 64 << 10;
constexpr uint32_t kMaxHeader = 64 << 10;
/// Connections beyond --max-connections that may ask for the server's health, and for how long.
constexpr size_t kProbeConnections = 64;
constexpr std::chrono::milliseconds kProbeTime{1000};

/// TN0808 for a body over --max-body.
Status bodyTooLarge(const ServerOptions &options);

/// By when a body must have come of which `received` bytes came since `start`, the last of them at
/// `last`.
inline Clock::time_point bodyDeadline(const ServerOptions &options, Clock::time_point start,
                                      Clock::time_point last, uint64_t received) {
  return std::min(last + options.slowest,
                  start + options.slowest + std::chrono::seconds(received / kMinRate));
}

/// Registers itself with the server.
class Connection {
public:
  Connection(std::shared_ptr<ServerContext> server, std::unique_ptr<ClientSocket> socket);
  virtual ~Connection();
  Connection(const Connection &) = delete;
  Connection &operator=(const Connection &) = delete;

  /// Called ten times a second: ends what slow clients keep the connection waiting for. One clock
  /// for all costs a request nothing.
  virtual void tick(Clock::time_point now) = 0;
  /// The server ends: what is idle ends now, the rest when it is answered.
  virtual void drain() = 0;

protected:
  /// How long the client may take for a header, and the connection be without a request.
  std::chrono::milliseconds slowest() const {
    return socket->isForProbes ? std::min(kProbeTime, server.options.slowest)
                               : server.options.slowest;
  }
  std::chrono::milliseconds idle() const {
    return socket->isForProbes ? kProbeTime : server.options.idle;
  }

  std::shared_ptr<ServerContext> holder;
  ServerContext &server;
  std::unique_ptr<ClientSocket> socket;
};

/// How HTTP/2 begins, which no request of HTTP/1.1 does. Source: RFC 9113, section 3.4.
constexpr std::string_view kHttp2Preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/// Serves a connection until it ends: the handshake of TLS, then HTTP/1.1, or HTTP/2 where it
/// begins so.
boost::asio::awaitable<void> serveConnection(std::shared_ptr<ServerContext> server,
                                             std::unique_ptr<ClientSocket> socket);
/// The rest of a connection that began with the preface; `received` is what came, the preface
/// included.
boost::asio::awaitable<void> serveHttp2(std::shared_ptr<ServerContext> server,
                                        std::unique_ptr<ClientSocket> socket, std::string received);

} // namespace tenon::server
