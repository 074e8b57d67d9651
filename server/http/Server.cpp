// The front process: listens, hands each connection to serveConnection, and ends at a signal.

#include "server/http/Server.h"

#include "server/http/FileWatch.h"
#include "server/http/ServerContext.h"
#include "server/repository/ModelFolder.h"
#include "server/repository/NamedRepository.h"
#include "server/repository/RegistryRepository.h"
#include "server/repository/SignedRepository.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <csignal>

#include <sys/resource.h>

namespace tenon::server {
namespace {

namespace asio = boost::asio;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;
using Error = boost::system::error_code;

asio::awaitable<void> acceptAll(std::shared_ptr<ServerContext> server) {
  for (;;) {
    Error error;
    tcp::socket socket =
        co_await server->acceptor.async_accept(redirect_error(use_awaitable, error));
    if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor) {
      co_return;
    }
    if (error) {
      // No descriptors, as a rule: connections that end give some back.
      asio::steady_timer pause(server->context, std::chrono::milliseconds(50));
      co_await pause.async_wait(use_awaitable);
      continue;
    }
    size_t open = server->connections.size(), most = server->options.maxConnections;
    if (open >= most) {
      server->noteFull();
    }
    if (open >= most + kProbeConnections) {
      continue; // closed at once
    }
    asio::co_spawn(server->context,
                   serveConnection(server, std::make_unique<ClientSocket>(
                                               std::move(socket), server->tls.get(), open >= most)),
                   asio::detached);
  }
}

asio::awaitable<void> watchDeadlines(std::shared_ptr<ServerContext> server) {
  constexpr std::chrono::milliseconds kPeriod{100};
  asio::steady_timer timer(server->context);
  for (;;) {
    timer.expires_after(kPeriod);
    co_await timer.async_wait(use_awaitable);
    for (Connection *connection : server->connections) {
      connection->tick(Clock::now());
    }
    server->monitoring.tick(Clock::now(), server->models.catalog);
  }
}

asio::awaitable<void> awaitEnd(std::shared_ptr<ServerContext> server) {
  asio::signal_set signals(server->context, SIGTERM, SIGINT);
  co_await signals.async_wait(use_awaitable);
  server->options.log("the server finishes the requests that it has accepted, then stops; a second "
                      "signal stops it immediately");
  signals.async_wait([server](Error error, int) {
    if (!error) {
      server->context.stop();
    }
  });
  server->models.catalog.drain();
  server->isDraining = true;
  server->acceptor.close();
  for (Connection *connection : server->connections) {
    connection->drain();
  }
  if (!server->connections.empty()) {
    server->drained.expires_after(server->options.drain);
    Error ignored;
    co_await server->drained.async_wait(redirect_error(use_awaitable, ignored));
  }
  server->context.stop();
}

Result<tcp::endpoint> chooseEndpoint(const ServerOptions &options) {
  Error error;
  asio::ip::address address =
      asio::ip::make_address(options.address == "localhost" ? "127.0.0.1" : options.address, error);
  if (error) {
    return Status::error(ErrorId::AddressNotAvailable,
                         fmt::format("'{}' is not an IP address", options.address),
                         "for example 127.0.0.1, 0.0.0.0 or ::1");
  }
  if (!address.is_loopback() && options.tokenFile.empty() && !options.isInsecure) {
    return Status::error(
        ErrorId::AddressNotProtected,
        fmt::format("other machines can reach {}, but no tokens are set", options.address),
        "give --token-file, or --insecure if the network keeps others out");
  }
  return tcp::endpoint(address, options.port);
}

Status listen(tcp::acceptor &acceptor, const tcp::endpoint &endpoint) {
  Error error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) {
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  }
  if (!error) {
    acceptor.bind(endpoint, error);
  }
  if (!error) {
    acceptor.listen(asio::socket_base::max_listen_connections, error);
  }
  return error ? Status::error(ErrorId::AddressNotAvailable,
                               fmt::format("cannot listen on {} port {}: {}",
                                           endpoint.address().to_string(), endpoint.port(),
                                           error.message()),
                               "stop the program that uses the port, or choose another --port; 0 "
                               "picks a free one")
               : Status::ok();
}

Result<std::unique_ptr<ModelRepository>> openRepository(const ServerOptions &options) {
  std::optional<signing::Trust> trust;
  if (!options.trusted.empty()) {
    TENON_ASSIGN(trust, signing::Trust::open(options.trusted));
  }
  std::unique_ptr<ModelRepository> models;
  if (options.selection) {
    TENON_ASSIGN(
        models, RegistryRepository::open(options.registry, *options.selection, trust, options.log));
  } else {
    TENON_ASSIGN(ModelFolder opened, ModelFolder::open(options.models, options.isLenient));
    models = std::make_unique<ModelFolder>(std::move(opened));
    models =
        trust ? std::make_unique<SignedRepository>(std::move(models), *trust) : std::move(models);
  }
  return std::unique_ptr<ModelRepository>(
      std::make_unique<DraftRepository>(std::move(models), options.draft, std::move(trust)));
}

/// Each connection takes a descriptor, each model several, here and in the worker, which inherits
/// the limit.
void raiseFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

} // namespace

Status serve(const ServerOptions &options) {
  // Before the context: what it drops at its end gives back what it held.
  MemoryBudget memory(options.maxMemory ? options.maxMemory : defaultMaxMemory());
  asio::io_context context(1);
  TENON_ASSIGN(tcp::endpoint endpoint, chooseEndpoint(options));
  std::optional<Tokens> tokens;
  if (!options.tokenFile.empty()) {
    TENON_ASSIGN(tokens, Tokens::load(options.tokenFile));
  }
  TENON_ASSIGN(std::unique_ptr<ModelRepository> repository, openRepository(options));
  if (!options.name.empty()) {
    TENON_ASSIGN(repository, NamedRepository::open(std::move(repository), options.name));
  }
  std::shared_ptr<ServerContext> server = std::make_shared<ServerContext>(
      options, memory, context, std::move(repository), std::move(tokens));
  if (!options.certificates.empty()) {
    TENON_ASSIGN(server->tls, loadTls(options.certificates, options.key));
  }
  TENON_TRY(listen(server->acceptor, endpoint));
  std::signal(SIGPIPE, SIG_IGN);
  raiseFileLimit();
  Alerts::RegistryRollback rollback;
  if (options.selection) {
    rollback = [&](const std::string &model, int64_t version, const std::string &reason) {
      // Of the aliases that the model follows the one that is at the version.
      Result<int64_t> last = noModel(model);
      for (const registry::Reference &each : options.selection->of(model)) {
        last = RegistryRepository::rollback(options.registry.where, each, version, reason);
        if (last.isOk() || last.status().id() != ErrorId::AliasMoved) {
          break;
        }
      }
      return last;
    };
  }
  server->monitoring.alerts.begin(server->models.catalog, server->models.traffic,
                                  std::move(rollback));
  TENON_TRY(server->models.catalog.start());
  asio::co_spawn(context, acceptAll(server), asio::detached);
  asio::co_spawn(context, watchDeadlines(server), asio::detached);
  asio::co_spawn(context, awaitEnd(server), asio::detached);
  if (server->tls) {
    asio::co_spawn(context, watchCertificates(server), asio::detached);
  }
  if (server->tokens) {
    asio::co_spawn(context, watchTokens(server), asio::detached);
  }
  options.onListening(server->acceptor.local_endpoint().port());
  context.run();
  server->work.stop();
  server->models.catalog
      .stop(); // before the context goes, by which the repository notifies of changes
  server->admin.reset();
  server->monitoring.stop();
  return Status::ok();
}

} // namespace tenon::server
