// Boost.Asio and Beast, which take a quarter of a minute to compile: no other file includes Beast. One coroutine for each connection,
// all on one thread, so nothing here is locked. One file, since every other that includes Beast would cost that time again.

#include "server/http/Server.h"

#include "server/http/Api.h"
#include "server/protocol/ErrorMap.h"
#include "server/protocol/Tokens.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <optional>
#include <set>

#include <sys/resource.h>

namespace tenon::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using asio::redirect_error;
using asio::use_awaitable;
using Error = boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

constexpr uint32_t kMostHeader = 64 << 10;
/// Slower than this, in bytes a second, a client holds a connection longer than it is worth.
constexpr uint64_t kLeastRate = 32 << 10;
constexpr size_t kReadStep = 64 << 10;

std::string_view viewOf(boost::core::string_view text) { return {text.data(), text.size()}; }

Status badRequest(std::string_view what) { return Status::error(ErrorId::BadRequest, fmt::format("the request is not valid HTTP: {}", what)); }

class Connection;

/// What connections share. Each holds it: those that are left at the end go with the context.
struct Front {
  Front(const ServerOptions &options, asio::io_context &context, ModelFolder folder, std::optional<Tokens> tokens)
      : options(options), context(context), acceptor(context), models(context.get_executor(), std::move(folder), {options.workerCommand, options.threads, options.mostQueued, options.memoryBudget, options.log}),
        api(models, options.version), tokens(std::move(tokens)), drained(context) {}

  const ServerOptions &options;
  asio::io_context &context;
  tcp::acceptor acceptor;
  Models models;
  Api api;
  std::optional<Tokens> tokens;
  std::set<Connection *> connections;
  uint64_t bodies = 0; ///< bytes of bodies that are held: received, decompressed, and number lists made from them
  bool isDraining = false;
  asio::steady_timer drained; ///< cancelled when the last connection ends
};

/// The part of Front::bodies that one request takes.
class BodyShare {
public:
  explicit BodyShare(Front &front) : front(front) {}
  ~BodyShare() { front.bodies -= bytes; }
  BodyShare(const BodyShare &) = delete;
  BodyShare &operator=(const BodyShare &) = delete;

  /// How large it may become.
  uint64_t most() const { return std::max(front.options.mostBodies, front.bodies) - front.bodies + bytes; }
  uint64_t size() const { return bytes; }
  /// TN0812 where that is more than `most`.
  Status resize(uint64_t to) {
    if (to > most()) {
      return Status::error(ErrorId::QueueFull, "the bodies of the requests that wait take all memory that they may", "try again later");
    }
    front.bodies += to - bytes;
    bytes = to;
    return Status::ok();
  }

private:
  Front &front;
  uint64_t bytes = 0;
};

class Connection {
public:
  Connection(std::shared_ptr<Front> shared, tcp::socket accepted) : holder(std::move(shared)), front(*holder), socket(std::move(accepted)), replied(front.context) {
    front.connections.insert(this);
    Error ignored;
    socket.set_option(tcp::no_delay(true), ignored);
  }
  ~Connection() {
    front.connections.erase(this);
    if (front.isDraining && front.connections.empty()) {
      front.drained.cancel();
    }
  }

  static asio::awaitable<void> run(std::unique_ptr<Connection> self) {
    bool goesOn = true;
    while (goesOn) {
      goesOn = co_await self->serveOne();
    }
    Error ignored;
    self->socket.shutdown(tcp::socket::shutdown_both, ignored);
  }

  /// No request is being read or answered.
  bool isIdle() const { return idle; }
  /// Ends what the connection waits for.
  void interrupt() {
    Error ignored;
    socket.cancel(ignored);
  }
  Clock::time_point latest() const { return deadline; }

private:
  /// One request and its reply; false when the connection ends.
  asio::awaitable<bool> serveOne() {
    Error error;
    if (buffer.size() == 0) {
      if (front.isDraining) {
        co_return false; // awaitEnd interrupted those that were idle when it began
      }
      idle = true;
      deadline = Clock::now() + front.options.idle;
      size_t bytes = co_await socket.async_read_some(buffer.prepare(kReadStep), redirect_error(use_awaitable, error));
      idle = false;
      if (error) {
        co_return false;
      }
      buffer.commit(bytes);
    }
    Parser parser;
    parser.header_limit(kMostHeader);
    parser.body_limit(front.options.mostBody);
    deadline = Clock::now() + front.options.slowest;
    co_await http::async_read_header(socket, buffer, parser, redirect_error(use_awaitable, error));
    if (error) {
      co_return co_await refuse(parseFailure(error));
    }
    HttpRequest request;
    Status status = checkHeader(parser, request);
    BodyShare share(front);
    if (status.isOk()) {
      // What is announced takes no memory yet, but is refused at once where it cannot come.
      status = share.resize(parser.content_length().value_or(0));
    }
    if (!status.isOk()) {
      // Where the form is wrong it is not known where the next request begins.
      bool hasBody = !parser.is_done() && (parser.chunked() || parser.content_length().value_or(0) > 0);
      co_return co_await write(parser, errorReply(status, hasBody || status.id() == ErrorId::BadRequest));
    }
    status = co_await readBody(parser, share);
    if (!status.isOk()) {
      co_return co_await refuse(status);
    }
    status = takeBody(parser, share, request);
    if (!status.isOk()) {
      co_return co_await write(parser, errorReply(status));
    }
    std::optional<HttpReply> reply = co_await perform(request, share);
    if (!reply) {
      co_return false; // the client has gone
    }
    co_return co_await write(parser, std::move(*reply));
  }

  /// Everything that can be told before the body is read: form, route, rights, size.
  Status checkHeader(Parser &parser, HttpRequest &request) {
    const Parser::value_type &header = parser.get();
    std::string_view coding = viewOf(header[http::field::transfer_encoding]);
    bool isChunked = boost::beast::iequals(header[http::field::transfer_encoding], "chunked") && header.count(http::field::transfer_encoding) == 1;
    if (!coding.empty() && (header.count(http::field::content_length) > 0 || !isChunked)) {
      return badRequest("Transfer-Encoding is another than chunked, or stands beside Content-Length");
    }
    if (header.version() >= 11 && header.count(http::field::host) != 1) {
      return badRequest("it has no Host, or several");
    }
    std::string_view origin = viewOf(header[http::field::origin]), host = viewOf(header[http::field::host]);
    if (!origin.empty() && header.method() != http::verb::get && !(origin.ends_with(host) && origin.substr(0, origin.size() - host.size()).ends_with("://"))) {
      return Status::error(ErrorId::NotAuthorized, "a page of another site sent the request", "requests of browsers come from pages of the server itself");
    }
    Result<RouteMatch> match = matchRoute(viewOf(header.method_string()), viewOf(header.target()));
    // Without a right to read, a client learns nothing of which paths there are.
    Role role = match.isOk() ? match->route->role : Role::Read;
    if (front.tokens) {
      TENON_TRY(front.tokens->check(viewOf(header[http::field::authorization]), role));
    }
    if (!match.isOk()) {
      return match.takeStatus();
    }
    request.match = std::move(*match);
    if (parser.content_length().value_or(0) > front.options.mostBody) {
      return tooLarge();
    }
    std::string_view jsonBytes = viewOf(header["Inference-Header-Content-Length"]);
    if (!jsonBytes.empty()) {
      uint64_t bytes = 0;
      std::from_chars_result result = std::from_chars(jsonBytes.data(), jsonBytes.data() + jsonBytes.size(), bytes);
      if (result.ec != std::errc() || result.ptr != jsonBytes.data() + jsonBytes.size()) {
        return badRequest("Inference-Header-Content-Length is not a number");
      }
      request.jsonBytes = bytes;
    }
    return Status::ok();
  }

  Status tooLarge() const {
    return Status::error(ErrorId::RequestTooLarge, fmt::format("the body of the request has more than {} bytes", front.options.mostBody), "the server's --max-body sets the bound");
  }

  Status parseFailure(Error error) const {
    if (error == asio::error::operation_aborted) {
      return Status::error(ErrorId::ClientTooSlow, "the request did not come in time");
    }
    if (error == http::error::body_limit) {
      return tooLarge();
    }
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      return Status::error(ErrorId::RequestTooLarge, fmt::format("the header of the request has more than {} bytes", kMostHeader));
    }
    return badRequest(error.message());
  }

  asio::awaitable<Status> readBody(Parser &parser, BodyShare &share) {
    Error error;
    if (parser.get()[http::field::expect] == "100-continue" && !parser.is_done()) {
      constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(socket, asio::buffer(kContinue), redirect_error(use_awaitable, error));
    }
    Clock::time_point start = Clock::now();
    uint64_t received = 0;
    for (;;) {
      Status status = share.resize(parser.get().body().size());
      if (error || !status.isOk() || parser.is_done()) {
        co_return error ? parseFailure(error) : status;
      }
      if (received > 2 * front.options.mostBody + kReadStep) {
        co_return tooLarge(); // in chunks, which take more room than what they carry
      }
      Clock::time_point slowest = start + front.options.slowest + std::chrono::seconds(received / kLeastRate);
      deadline = std::min(Clock::now() + front.options.slowest, slowest);
      received += co_await http::async_read_some(socket, buffer, parser, redirect_error(use_awaitable, error));
    }
  }

  Status takeBody(Parser &parser, BodyShare &share, HttpRequest &request) {
    TENON_ASSIGN(Encoding encoding, parseEncoding(viewOf(parser.get()[http::field::content_encoding])));
    if (encoding == Encoding::Identity) {
      request.body = std::move(parser.get().body());
      return Status::ok();
    }
    // The compressed form goes when the other is there.
    std::string compressed = std::move(parser.get().body());
    uint64_t most = std::min(front.options.mostBody, share.most());
    Result<std::string> body = decompress(encoding, compressed, most);
    if (!body.isOk()) {
      bool isShareOver = body.status().id() == ErrorId::RequestTooLarge && most < front.options.mostBody;
      return isShareOver ? share.resize(most + 1) : body.takeStatus();
    }
    request.body = std::move(*body);
    return share.resize(request.body.size());
  }

  /// None when the client went away before the reply.
  asio::awaitable<std::optional<HttpReply>> perform(HttpRequest &request, BodyShare &share) {
    request.mostLists = share.most() - share.size();
    deadline = Clock::time_point::max(); // it is the server's turn
    struct Waiting {
      std::optional<HttpReply> reply;
      bool isGone = false;
    };
    std::shared_ptr<Waiting> waiting = std::make_shared<Waiting>();
    replied.expires_at(Clock::time_point::max());
    std::shared_ptr<Job> job = front.api.perform(request, [this, waiting](HttpReply reply) {
      waiting->reply = std::move(reply);
      replied.cancel();
    });
    if (waiting->reply) {
      co_return std::move(waiting->reply);
    }
    if (job) {
      static_cast<void>(share.resize(share.size() + job->request.listBytes())); // not more than mostLists
    }
    watch(waiting);
    Error ignored;
    co_await replied.async_wait(redirect_error(use_awaitable, ignored));
    socket.cancel(ignored); // the watch
    if (!waiting->reply && job) {
      front.models.cancel(job);
    }
    if (!waiting->reply && !job) {
      // A load or unload goes on without its caller; what it will tell must find the connection.
      while (!waiting->reply) {
        replied.expires_at(Clock::time_point::max());
        co_await replied.async_wait(redirect_error(use_awaitable, ignored));
      }
    }
    co_return waiting->isGone ? std::nullopt : std::move(waiting->reply);
  }

  /// Notices the end of the client's side while its request waits.
  template <typename Waiting> void watch(const std::shared_ptr<Waiting> &waiting) {
    socket.async_wait(tcp::socket::wait_read, [this, weak = std::weak_ptr(waiting)](Error error) {
      std::shared_ptr<Waiting> alive = weak.lock();
      if (error || !alive || alive->reply) {
        return;
      }
      char byte = 0;
      ssize_t bytes = recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (bytes == 0 || (bytes < 0 && errno != EAGAIN)) {
        alive->isGone = true;
        replied.cancel();
      } // else the next request is there already, and is read after this one
    });
  }

  asio::awaitable<bool> refuse(const Status &status) {
    HttpReply reply = errorReply(status, true);
    Parser none;
    co_return co_await write(none, std::move(reply));
  }

  asio::awaitable<bool> write(Parser &parser, HttpReply reply) {
    const Parser::value_type &header = parser.get();
    if (reply.result || reply.bytes() > 0) {
      reply.compress(chooseEncoding(viewOf(header[http::field::accept_encoding])));
    }
    bool isHead = header.method() == http::verb::head; // its reply is all but the body
    bool goesOn = !reply.closes && header.keep_alive() && !front.isDraining;
    uint64_t bytes = reply.bytes();
    std::string head = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{}\r\n", reply.status, reasonOf(reply.status), reply.contentType, bytes,
                                   reply.extraHeaders, goesOn ? (header.version() < 11 ? "Connection: keep-alive\r\n" : "") : "Connection: close\r\n");
    std::vector<asio::const_buffer> parts = {asio::buffer(head)};
    if (!isHead) {
      parts.push_back(asio::buffer(reply.body));
      for (Bytes tensor : reply.tensors) {
        parts.push_back(asio::buffer(tensor.data(), tensor.size()));
      }
    }
    if (reply.result) {
      uint64_t copyOut = static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now() - reply.begun).count());
      front.models.countReply(*reply.result, copyOut);
    }
    deadline = Clock::now() + front.options.slowest + std::chrono::seconds(bytes / kLeastRate);
    Error error;
    co_await asio::async_write(socket, parts, redirect_error(use_awaitable, error));
    if (!error && !goesOn) {
      co_await linger();
    }
    co_return goesOn && !error;
  }

  /// Reads for a moment what the client still sends: closing at once would take the reply from it.
  asio::awaitable<void> linger() {
    Error error;
    socket.shutdown(tcp::socket::shutdown_send, error);
    deadline = Clock::now() + std::chrono::seconds(1);
    constexpr uint64_t kMost = 16 << 20;
    buffer.clear();
    for (uint64_t bytes = 0; !error && bytes < kMost;) {
      bytes += co_await socket.async_read_some(buffer.prepare(kReadStep), redirect_error(use_awaitable, error));
    }
  }

  std::shared_ptr<Front> holder;
  Front &front;
  tcp::socket socket;
  boost::beast::flat_buffer buffer{kMostHeader + kReadStep};
  asio::steady_timer replied; ///< cancelled when the reply is there
  /// By when the client must have sent, or taken, what the connection waits for; Front's clock looks at it.
  Clock::time_point deadline = Clock::time_point::max();
  bool idle = false;
};

asio::awaitable<void> acceptAll(std::shared_ptr<Front> front) {
  for (;;) {
    Error error;
    tcp::socket socket = co_await front->acceptor.async_accept(redirect_error(use_awaitable, error));
    if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor) {
      co_return;
    }
    if (error) {
      // No descriptors, as a rule: connections that end give some back.
      asio::steady_timer pause(front->context, std::chrono::milliseconds(50));
      co_await pause.async_wait(use_awaitable);
      continue;
    }
    if (front->connections.size() >= front->options.mostConnections) {
      continue; // closed at once
    }
    asio::co_spawn(front->context, Connection::run(std::make_unique<Connection>(front, std::move(socket))), asio::detached);
  }
}

/// Ends what slow clients keep a connection waiting for. One clock for all costs a request nothing.
asio::awaitable<void> watchDeadlines(std::shared_ptr<Front> front) {
  constexpr std::chrono::milliseconds kPeriod{100};
  asio::steady_timer timer(front->context);
  for (;;) {
    timer.expires_after(kPeriod);
    co_await timer.async_wait(use_awaitable);
    for (Connection *connection : front->connections) {
      if (connection->latest() < Clock::now()) {
        connection->interrupt();
      }
    }
  }
}

asio::awaitable<void> awaitEnd(std::shared_ptr<Front> front) {
  asio::signal_set signals(front->context, SIGTERM, SIGINT);
  co_await signals.async_wait(use_awaitable);
  front->options.log("the server answers what it has accepted, then it ends; a second signal ends it at once");
  signals.async_wait([front](Error error, int) {
    if (!error) {
      front->context.stop();
    }
  });
  front->models.drain();
  front->isDraining = true;
  front->acceptor.close();
  for (Connection *connection : front->connections) {
    if (connection->isIdle()) {
      connection->interrupt();
    }
  }
  if (!front->connections.empty()) {
    front->drained.expires_after(front->options.drain);
    Error ignored;
    co_await front->drained.async_wait(redirect_error(use_awaitable, ignored));
  }
  front->context.stop();
}

Result<tcp::endpoint> chooseEndpoint(const ServerOptions &options) {
  Error error;
  asio::ip::address address = asio::ip::make_address(options.address == "localhost" ? "127.0.0.1" : options.address, error);
  if (error) {
    return Status::error(ErrorId::AddressNotAvailable, fmt::format("'{}' is not an IP address", options.address), "for example 127.0.0.1, 0.0.0.0 or ::1");
  }
  if (!address.is_loopback() && options.tokenFile.empty() && !options.isInsecure) {
    return Status::error(ErrorId::AddressNotProtected, fmt::format("others than this machine reach {}, and no tokens are set", options.address),
                         "give --token-file, or --insecure where the network keeps others out");
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
  return error ? Status::error(ErrorId::AddressNotAvailable, fmt::format("cannot listen at {} port {}: {}", endpoint.address().to_string(), endpoint.port(), error.message()),
                               "end what listens there, or choose another --port; 0 takes a free one")
               : Status::ok();
}

/// Each connection takes a descriptor, each model several, here and in the worker, which inherits the limit.
void raiseFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

} // namespace

Status serve(const ServerOptions &options) {
  asio::io_context context(1);
  TENON_ASSIGN(tcp::endpoint endpoint, chooseEndpoint(options));
  std::optional<Tokens> tokens;
  if (!options.tokenFile.empty()) {
    TENON_ASSIGN(tokens, Tokens::load(options.tokenFile));
  }
  TENON_ASSIGN(ModelFolder folder, ModelFolder::open(options.folder, options.isLenient));
  std::shared_ptr<Front> front = std::make_shared<Front>(options, context, std::move(folder), std::move(tokens));
  TENON_TRY(listen(front->acceptor, endpoint));
  std::signal(SIGPIPE, SIG_IGN);
  raiseFileLimit();
  TENON_TRY(front->models.start());
  asio::co_spawn(context, acceptAll(front), asio::detached);
  asio::co_spawn(context, watchDeadlines(front), asio::detached);
  asio::co_spawn(context, awaitEnd(front), asio::detached);
  options.onListening(front->acceptor.local_endpoint().port());
  context.run();
  return Status::ok();
}

} // namespace tenon::server
