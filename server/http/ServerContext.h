// What the connections of a server share, and what the server asks of each.

#pragma once

#include "server/api/Api.h"
#include "server/api/ErrorRing.h"
#include "server/api/RegistryAdmin.h"
#include "server/http/ClientSocket.h"
#include "server/http/Server.h"
#include "server/http/WorkPool.h"
#include "server/monitoring/Monitoring.h"
#include "server/protocol/MemoryBudget.h"
#include "server/protocol/Tokens.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace tenon::server {

class Connection;

/// A third of the memory that the process may use, at most 1 GiB: models, workers and the kernel
/// need the rest.
uint64_t defaultMaxMemory();

/// Each connection holds it: those that are left at the end go with the context.
struct ServerContext {
  ServerContext(const ServerOptions &options, MemoryBudget &memory,
                boost::asio::io_context &context, std::unique_ptr<ModelRepository> repository,
                std::optional<Tokens> tokens)
      : options(options), context(context), acceptor(context), memory(memory), work(context),
        monitoring(context.get_executor(), options.monitoring, options.version, options.log),
        models(
            context.get_executor(), std::move(repository),
            {{options.workerCommand, options.threads, options.memoryBudget, options.gpuMemoryBudget,
              options.users, options.tokens, options.gpus, options.log, &memory},
             options.maxQueued,
             [this](const std::string &model, const Status &problem) {
               errors.add(model, problem);
             },
             &monitoring,
             [this](std::function<void()> task, std::function<void()> then) {
               work.run(std::move(task), std::move(then));
             }}),
        admin(RegistryAdmin::of(options.selection, options.registry, options.trusted,
                                options.pushFile, context.get_executor())),
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

  /// Whether requests may go before others, of a client with the role admin or without.
  bool mayBeUrgent(bool isAdmin) const {
    return options.urgent == Urgent::All || (options.urgent == Urgent::Admin && isAdmin);
  }

  const ServerOptions &options;
  boost::asio::io_context &context;
  boost::asio::ip::tcp::acceptor acceptor;
  MemoryBudget &memory; ///< what all requests hold
  WorkPool work;
  ErrorRing errors;
  Monitoring monitoring;
  ModelServer models;
  std::unique_ptr<RegistryAdmin> admin; ///< null: models come from a folder
  Api api;
  std::optional<Tokens> tokens;
  std::shared_ptr<boost::asio::ssl::context> tls; ///< null: none
  std::set<Connection *> connections;
  bool isDraining = false;
  std::atomic<unsigned> pushes = 0; ///< that are under way
  ConnectionCounts connectionCounts;
  Clock::time_point fullNoted;       ///< in the log
  boost::asio::steady_timer drained; ///< cancelled when the last connection ends
};

constexpr size_t kReadStep = 64 << 10;
constexpr uint32_t kMaxHeader = 64 << 10;
/// Connections beyond --max-connections that may ask for the server's health, and for how long.
constexpr size_t kProbeConnections = 64;
constexpr std::chrono::milliseconds kProbeTime{1000};

/// TN0808 for a body over --max-body.
Status bodyTooLarge(const ServerOptions &options);
/// The same for a pushed file over --max-push.
Status pushTooLarge(const ServerOptions &options);

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
