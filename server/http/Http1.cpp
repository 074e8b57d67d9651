// Boost.Beast's parser, which takes a while to compile: no other file includes Beast. One coroutine
// for each connection, all on one thread, so nothing here is locked. One file: a connection is one
// class, whose steps share its buffer.

#include "server/http/Exchange.h"
#include "server/http/ServerContext.h"
#include "server/protocol/ErrorMap.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace tenon::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using Error = boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

constexpr std::string_view kVersion = "HTTP/1.1 ";

std::string_view viewOf(boost::core::string_view text) { return {text.data(), text.size()}; }

Status badRequest(std::string_view what) {
  return Status::error(ErrorId::BadRequest, fmt::format("the request is not valid HTTP: {}", what));
}

class Http1Connection : public Connection {
public:
  Http1Connection(std::shared_ptr<ServerContext> server, std::unique_ptr<ClientSocket> socket)
      : Connection(std::move(server), std::move(socket)), replied(holder->context) {}

  /// Gives what was received when the connection turns out to be one of HTTP/2; empty when it has
  /// ended.
  asio::awaitable<std::string> run() {
    Error error;
    deadline = Clock::now() + slowest();
    co_await socket->handshake(error);
    if (error || co_await beginsAsHttp2()) {
      co_return std::string(error ? std::string_view() : received());
    }
    while (co_await serveOne()) {
    }
    co_return std::string();
  }

  std::unique_ptr<ClientSocket> release() { return std::move(socket); }

  void tick(Clock::time_point now) override {
    if (std::min(deadline, socket->writeDeadline(server.options.slowest)) < now) {
      socket->cancel();
    }
  }
  void drain() override {
    if (isIdle) {
      socket->cancel();
    }
  }

private:
  /// Reads until the first bytes tell.
  asio::awaitable<bool> beginsAsHttp2() {
    for (;;) {
      if (buffer.size() == 0 && !co_await awaitRequest()) {
        co_return false; // serveOne finds the end
      }
      size_t compared = std::min(received().size(), kHttp2Preface.size());
      if (received().substr(0, compared) != kHttp2Preface.substr(0, compared) ||
          compared == kHttp2Preface.size()) {
        co_return received().starts_with(kHttp2Preface);
      }
      Error error;
      deadline = Clock::now() + slowest();
      if (!co_await readMore(error)) {
        co_return false;
      }
    }
  }

  /// The first bytes of a request; false when none come.
  asio::awaitable<bool> awaitRequest() {
    if (server.isDraining || isOver) {
      co_return false; // drain() ended those that were idle when it began
    }
    Error error;
    isIdle = true;
    deadline = Clock::now() + idle();
    bool hasMore = co_await readMore(error);
    isIdle = false;
    co_return hasMore;
  }

  asio::awaitable<bool> readMore(Error &error) {
    size_t room = std::min(kReadStep, buffer.max_size() - buffer.size());
    if (room == 0) {
      error = http::error::buffer_overflow;
      co_return false;
    }
    size_t bytes = co_await socket->readSome(buffer.prepare(room), error);
    if (error == asio::error::eof) {
      error = http::error::partial_message;
    }
    buffer.commit(error ? 0 : bytes);
    isOver = bool(error);
    co_return !error;
  }

  std::string_view received() const {
    return {static_cast<const char *>(buffer.data().data()), buffer.size()};
  }

  /// Until a request has begun: empty lines before it are passed over, which some clients send
  /// behind a body. False when none comes. Source: RFC 9112, section 2.2.
  asio::awaitable<bool> findRequest() {
    constexpr size_t kMaxEmptyLines = 8;
    for (size_t lines = 0; lines <= kMaxEmptyLines;) {
      Error error;
      if (received().starts_with("\r\n")) {
        buffer.consume(2);
        ++lines;
      } else if (buffer.size() == 0) {
        if (!co_await awaitRequest()) {
          co_return false;
        }
      } else if (received() != "\r" || !co_await readMore(error)) {
        break;
      }
    }
    co_return true;
  }

  /// One request and its reply; false when the connection ends.
  asio::awaitable<bool> serveOne() {
    if (!co_await findRequest()) {
      co_return false;
    }
    Parser parser;
    parser.header_limit(kMaxHeader);
    parser.body_limit(boost::none); // what is announced, checkHeader looks at
    deadline = Clock::now() + slowest();
    Error error;
    while (!error && !parser.is_header_done()) {
      buffer.consume(parser.put(buffer.data(), error));
      if (error == http::error::need_more) {
        error = Error();
        co_await readMore(error);
      }
    }
    if (error) {
      co_return co_await refuse(parseFailure(error), false);
    }
    std::shared_ptr<HttpExchange> exchange = std::make_shared<HttpExchange>(server);
    HttpRequest &request = exchange->request;
    Status status = checkHeader(parser, request);
    if (status.isOk() && request.match.operation == Operation::RegistryPush) {
      co_return co_await push(parser, exchange);
    }
    if (status.isOk()) {
      parser.body_limit(server.options.maxBody);
      // What is announced takes no memory yet, but is refused at once where it cannot come.
      status = request.body.charge.resize(parser.content_length().value_or(0));
    }
    if (!status.isOk()) {
      // Where the form is wrong it is not known where the next request begins.
      bool hasBody =
          !parser.is_done() && (parser.chunked() || parser.content_length().value_or(0) > 0);
      co_return co_await write(parser, errorReply(status, request.isOpenAi,
                                                  hasBody || status.id() == ErrorId::BadRequest));
    }
    status = co_await readBody(parser, request.body.charge);
    if (!status.isOk()) {
      co_return co_await refuse(status, request.isOpenAi);
    }
    request.body.text = std::move(parser.get().body());
    std::optional<HttpReply> reply = co_await perform(*exchange);
    if (reply && reply->stream) {
      bool goesOn = co_await writeParts(parser, std::move(*reply));
      exchange->cancel(); // where the client has gone
      co_return goesOn;
    }
    exchange = nullptr;
    if (!reply) {
      co_return false; // the client has gone
    }
    co_return co_await write(parser, std::move(*reply));
  }

  /// Everything that can be told before the body is read: form, route, rights, size.
  Status checkHeader(Parser &parser, HttpRequest &request) {
    const Parser::value_type &header = parser.get();
    std::string_view coding = viewOf(header[http::field::transfer_encoding]);
    bool isChunked = boost::beast::iequals(header[http::field::transfer_encoding], "chunked") &&
                     header.count(http::field::transfer_encoding) == 1;
    if (!coding.empty() && (header.count(http::field::content_length) > 0 || !isChunked)) {
      return badRequest("Transfer-Encoding is not chunked, or Content-Length is also given");
    }
    if (header.version() >= 11 && header.count(http::field::host) != 1) {
      return badRequest("it has no Host header, or several");
    }
    HttpHead head;
    head.method = viewOf(header.method_string());
    head.target = viewOf(header.target());
    head.host = viewOf(header[http::field::host]);
    takeAuthority(head);
    head.origin = viewOf(header[http::field::origin]);
    head.fetchSite = viewOf(header["Sec-Fetch-Site"]);
    head.userAgent = viewOf(header[http::field::user_agent]);
    head.acceptLanguage = viewOf(header[http::field::accept_language]);
    head.authorization = viewOf(header[http::field::authorization]);
    head.inferenceHeaderLength = viewOf(header["Inference-Header-Content-Length"]);
    head.traceparent =
        header.count("traceparent") == 1 ? viewOf(header["traceparent"]) : std::string_view();
    request.contentEncoding = viewOf(header[http::field::content_encoding]);
    request.replyEncoding = chooseEncoding(viewOf(header[http::field::accept_encoding]));
    TENON_TRY(readHead(head, server.rights(), server.onlyLocalNames(), request));
    TENON_TRY(server.admitRoute(*socket, *request.match.route));
    uint64_t announced = parser.content_length().value_or(0);
    if (request.match.operation == Operation::RegistryPush) {
      return parser.chunked() || parser.content_length() == boost::none ||
                     !request.contentEncoding.empty()
                 ? badRequest("a push must state the file's length in Content-Length")
             : announced > server.options.maxPush ? pushTooLarge(server.options)
                                                  : Status::ok();
    }
    return announced > server.options.maxBody ? bodyTooLarge(server.options) : Status::ok();
  }

  /// Does something that answers later, and waits for it.
  template <typename Value>
  asio::awaitable<Value> await(std::function<void(std::function<void(Value)>)> begin) {
    std::shared_ptr<std::optional<Value>> answer = std::make_shared<std::optional<Value>>();
    begin([this, answer, keep = holder](Value value) {
      *answer = std::move(value);
      replied.cancel();
    });
    while (!*answer) {
      Error ignored;
      replied.expires_at(Clock::time_point::max());
      co_await replied.async_wait(redirect_error(use_awaitable, ignored));
    }
    co_return std::move(**answer);
  }

  /// A push, whose body goes to the disk as it comes.
  asio::awaitable<bool> push(Parser &parser, std::shared_ptr<HttpExchange> exchange) {
    uint64_t left = *parser.content_length();
    deadline = Clock::time_point::max();
    Status status = co_await await<Status>(
        [&](std::function<void(Status)> then) { exchange->beginPush(std::move(then)); });
    Error error;
    if (status.isOk()) {
      co_await sendContinue(parser, error);
    }
    Progress received;
    while (status.isOk() && !error && left > 0) {
      size_t piece = std::min<uint64_t>(buffer.size(), left);
      if (piece == 0) {
        deadline = received.deadline(server.options.slowest);
        co_await readMore(error);
        continue;
      }
      deadline = Clock::time_point::max(); // it is the disk's turn
      status = co_await await<Status>([&](std::function<void(Status)> then) {
        exchange->appendPush(this->received().substr(0, piece), std::move(then));
      });
      buffer.consume(piece);
      received.add(piece);
      left -= piece;
    }
    if (status.isOk() && error) {
      status = parseFailure(error);
    }
    if (!status.isOk()) {
      HttpReply reply = errorReply(status, false, left > 0);
      co_return co_await write(parser, std::move(reply));
    }
    HttpReply reply = co_await await<HttpReply>(
        [&](std::function<void(HttpReply)> then) { exchange->endPush(std::move(then)); });
    co_return co_await write(parser, std::move(reply));
  }

  asio::awaitable<void> sendContinue(Parser &parser, Error &error) {
    if (parser.get().version() >= 11 && !parser.is_done() &&
        boost::beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      std::vector<asio::const_buffer> parts = {asio::buffer(kVersion),
                                               asio::buffer("100 Continue\r\n\r\n", 16)};
      co_await socket->write(parts, error);
    }
  }

  /// The host of a target in absolute form counts, not that of the field. Source: RFC 9112, section
  /// 3.2.2.
  static void takeAuthority(HttpHead &head) {
    for (std::string_view scheme : {"http://", "https://"}) {
      if (boost::beast::iequals(head.target.substr(0, scheme.size()), scheme)) {
        size_t path = std::min(head.target.find_first_of("/?", scheme.size()), head.target.size());
        head.host = head.target.substr(scheme.size(), path - scheme.size());
        head.target.remove_prefix(path);
        head.target = head.target.empty() ? "/" : head.target;
        return;
      }
    }
  }

  Status parseFailure(Error error) const {
    if (error == asio::error::operation_aborted) {
      return Status::error(ErrorId::ClientTooSlow, "the request did not arrive in time");
    }
    if (error == http::error::body_limit) {
      return bodyTooLarge(server.options);
    }
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      return Status::error(
          ErrorId::RequestTooLarge,
          fmt::format("the header of the request has more than {} bytes", kMaxHeader));
    }
    return badRequest(error.message());
  }

  asio::awaitable<Status> readBody(Parser &parser, MemoryCharge &charge) {
    Error error;
    co_await sendContinue(parser, error);
    Progress received;
    while (!error && !parser.is_done()) {
      size_t parsed = buffer.size() > 0 ? parser.put(buffer.data(), error) : 0;
      buffer.consume(parsed);
      received.add(parsed);
      Status status = charge.resize(parser.get().body().size());
      if (!status.isOk()) {
        co_return status;
      }
      if (received.moved > 2 * server.options.maxBody + kReadStep) {
        co_return bodyTooLarge(
            server.options); // in chunks, which take more room than what they carry
      }
      bool needsMore = error == http::error::need_more || (!error && parsed == 0);
      if (needsMore && !parser.is_done()) {
        error = Error();
        deadline = received.deadline(server.options.slowest);
        co_await readMore(error);
      }
    }
    co_return error ? parseFailure(error) : charge.resize(parser.get().body().size());
  }

  struct Waiting {
    std::optional<HttpReply> reply;
    unsigned operations = 0; ///< of the socket, that watch the client
    bool isGone = false;
  };

  /// None when the client went away before the reply.
  asio::awaitable<std::optional<HttpReply>> perform(HttpExchange &exchange) {
    deadline = Clock::time_point::max(); // it is the server's turn
    std::shared_ptr<Waiting> waiting = std::make_shared<Waiting>();
    replied.expires_at(Clock::time_point::max());
    exchange.perform([this, waiting](HttpReply reply) {
      waiting->reply = std::move(reply);
      replied.cancel();
    });
    if (waiting->reply) {
      co_return std::move(waiting->reply);
    }
    watch(waiting);
    Error ignored;
    co_await replied.async_wait(redirect_error(use_awaitable, ignored));
    if (!waiting->reply) {
      exchange.cancel();
    }
    socket->cancel(); // the watch
    while (waiting->operations > 0) {
      replied.expires_at(Clock::time_point::max());
      co_await replied.async_wait(redirect_error(use_awaitable, ignored));
    }
    co_return waiting->isGone ? std::nullopt : std::move(waiting->reply);
  }

  /// Notices the end of the client's side while its request waits; what comes instead is the next
  /// request.
  void watch(const std::shared_ptr<Waiting> &waiting) {
    if (buffer.size() + kReadStep > buffer.max_size()) {
      return;
    }
    ++waiting->operations;
    socket->beginRead(buffer.prepare(kReadStep), [this, waiting](Error error, size_t bytes) {
      buffer.commit(error ? 0 : bytes);
      isOver = error && error != asio::error::operation_aborted;
      if (error == asio::error::eof && !waiting->reply) {
        askWhetherGone(waiting);
      }
      endWatch(waiting, error == asio::error::eof ? Error() : error);
    });
  }

  /// A client that sends nothing more may still read, or be gone: only one that is gone answers a
  /// byte with a reset. Every reply begins with these.
  void askWhetherGone(const std::shared_ptr<Waiting> &waiting) {
    waiting->operations += 2;
    socket->awaitReset([this, waiting](Error error) {
      endWatch(waiting, error ? error : Error(asio::error::connection_reset));
    });
    socket->beginWrite(asio::buffer(kVersion), [this, waiting](Error error, size_t) {
      isBegun = !error;
      endWatch(waiting, error);
    });
  }

  void endWatch(const std::shared_ptr<Waiting> &waiting, Error error) {
    --waiting->operations;
    waiting->isGone = waiting->isGone || (error && error != asio::error::operation_aborted);
    if (waiting->isGone || waiting->reply) {
      replied.cancel();
    }
  }

  asio::awaitable<bool> refuse(const Status &status, bool isOpenAi) {
    HttpReply reply = errorReply(status, isOpenAi, true);
    Parser none;
    co_return co_await write(none, std::move(reply));
  }

  bool staysOpen(const Parser &parser, const HttpReply &reply) const {
    return !reply.closes && parser.get().keep_alive() && !server.isDraining && !socket->isForProbes;
  }

  /// `framing` is the field that tells where the body ends; it may be empty.
  std::string headOf(const Parser &parser, const HttpReply &reply, std::string_view framing,
                     bool goesOn) {
    std::string head =
        fmt::format("{}{} {}\r\nContent-Type: {}\r\n{}",
                    std::exchange(isBegun, false) ? std::string_view() : kVersion, reply.status,
                    reasonOf(reply.status), reply.contentType, framing);
    for (const auto &[name, value] : reply.fields) {
      fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
    }
    return head + (goesOn
                       ? (parser.get().version() < 11 ? "Connection: keep-alive\r\n\r\n" : "\r\n")
                       : "Connection: close\r\n\r\n");
  }

  /// A reply whose body comes in parts, in chunks of HTTP/1.1 (before, the connection's end is that
  /// of the body); false also when the client has gone.
  asio::awaitable<bool> writeParts(Parser &parser, HttpReply reply) {
    bool isChunked = parser.get().version() >= 11;
    bool goesOn = isChunked && staysOpen(parser, reply);
    std::string text =
        headOf(parser, reply, isChunked ? "Transfer-Encoding: chunked\r\n" : "", goesOn);
    std::shared_ptr<Waiting> waiting = std::make_shared<Waiting>();
    ++waiting->operations;
    socket->awaitReset([this, waiting](Error error) {
      --waiting->operations;
      waiting->isGone = error != asio::error::operation_aborted;
      replied.cancel();
    });
    ReplyStream &stream = *reply.stream;
    stream.onMore = [this] { replied.cancel(); };
    deadline = Clock::time_point::max(); // the socket has one of its own
    Error error, ignored;
    for (bool isLast = false; !error && !waiting->isGone && !isLast;) {
      if (stream.isEmpty() && !stream.isOver() && text.empty()) {
        replied.expires_at(Clock::time_point::max());
        co_await replied.async_wait(redirect_error(use_awaitable, ignored));
        continue;
      }
      isLast = stream.isOver();
      std::string part = stream.take();
      text += isChunked && !part.empty() ? fmt::format("{:x}\r\n{}\r\n", part.size(), part) : part;
      text += isChunked && isLast ? "0\r\n\r\n" : "";
      std::vector<asio::const_buffer> parts = {asio::buffer(text)};
      co_await socket->write(parts, error);
      text.clear();
    }
    stream.onMore = nullptr;
    socket->cancel(); // the watch
    while (waiting->operations > 0) {
      replied.expires_at(Clock::time_point::max());
      co_await replied.async_wait(redirect_error(use_awaitable, ignored));
    }
    if (!error && !waiting->isGone && !goesOn) {
      deadline = Clock::now() + std::chrono::seconds(1);
      co_await socket->linger();
    }
    co_return goesOn && !error && !waiting->isGone;
  }

  asio::awaitable<bool> write(Parser &parser, HttpReply reply) {
    bool isHead = parser.get().method() == http::verb::head; // its reply is all but the body
    bool goesOn = staysOpen(parser, reply);
    std::string head =
        headOf(parser, reply, fmt::format("Content-Length: {}\r\n", reply.bytes()), goesOn);
    std::vector<asio::const_buffer> parts = {asio::buffer(head)};
    if (!isHead) {
      for (const Piece &piece : reply.pieces) {
        parts.push_back(piece.text.empty() ? asio::buffer(piece.bytes.data(), piece.bytes.size())
                                           : asio::buffer(piece.text));
      }
    }
    if (reply.result) {
      server.api.countReply(*reply.result, reply.begun);
    }
    deadline = Clock::time_point::max(); // the socket has one of its own
    Error error;
    co_await socket->write(parts, error);
    if (!error && !goesOn) {
      deadline = Clock::now() + std::chrono::seconds(1);
      co_await socket->linger();
    }
    co_return goesOn && !error;
  }

  boost::beast::flat_buffer buffer{kMaxHeader + kReadStep};
  asio::steady_timer replied; ///< cancelled when the reply is there
  /// By when the client must have sent, or taken, what the connection waits for.
  Clock::time_point deadline = Clock::time_point::max();
  bool isIdle = false;
  bool isOver = false;  ///< nothing more can be read
  bool isBegun = false; ///< kVersion of the reply is sent
};

} // namespace

asio::awaitable<void> serveConnection(std::shared_ptr<ServerContext> server,
                                      std::unique_ptr<ClientSocket> socket) {
  std::string received;
  {
    Http1Connection connection(server, std::move(socket));
    received = co_await connection.run();
    socket = connection.release();
  }
  if (!received.empty()) {
    co_await serveHttp2(std::move(server), std::move(socket), std::move(received));
  }
}

} // namespace tenon::server
