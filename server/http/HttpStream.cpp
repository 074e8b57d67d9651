// A request of HTTP over HTTP/2: what Http1.cpp does, without its framing.

#include "server/http/Exchange.h"
#include "server/http/Http2.h"

#include <fmt/format.h>

#include <charconv>

namespace tenon::server {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char &c : result) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
  }
  return result;
}

class HttpStream : public StreamHandler {
public:
  HttpStream(ServerContext &server, const ClientSocket &socket, Stream &stream)
      : server(server), socket(socket), stream(stream),
        exchange(std::make_shared<HttpExchange>(server)) {
    Status status = begin();
    if (!status.isOk()) {
      refuse(status);
    }
  }

  void received(std::string_view data) override {
    if (stream.hasResponded()) {
      return;
    }
    progress.add(data.size());
    ChargedString &body = exchange->request.body;
    Status status = body.text.size() + data.size() > server.options.maxBody
                        ? bodyTooLarge(server.options)
                        : body.append(data);
    if (!status.isOk()) {
      body = ChargedString();
      refuse(status);
    }
  }

  void ended() override {
    isWhole = true;
    if (!stream.hasResponded()) {
      exchange->perform([this](HttpReply answer) { reply(std::move(answer)); });
    }
  }

  void closed() override {
    exchange->cancel();
    if (parts) {
      parts->onMore = nullptr;
    }
  }

  void tick(Clock::time_point now) override {
    if (!isWhole && !stream.hasResponded() && progress.deadline(server.options.slowest) < now) {
      refuse(Status::error(ErrorId::ClientTooSlow, "the request did not arrive in time"));
    }
    flush(); // what waited for the client to take more
  }

  void drain() override {}

private:
  Status begin() {
    if (stream.isHeaderCut()) {
      return Status::error(
          ErrorId::RequestTooLarge,
          fmt::format("the header of the request has more than {} bytes", kMaxHeader));
    }
    const std::string method = stream.field(":method"), target = stream.field(":path"),
                      authority = stream.field(":authority"), host = stream.field("host"),
                      origin = stream.field("origin"), fetchSite = stream.field("sec-fetch-site"),
                      userAgent = stream.field("user-agent"),
                      acceptLanguage = stream.field("accept-language"),
                      authorization = stream.field("authorization"),
                      jsonBytes = stream.field("inference-header-content-length"),
                      length = stream.field("content-length"),
                      traceparent = stream.field("traceparent");
    HttpRequest &request = exchange->request;
    request.replyEncoding = chooseEncoding(stream.field("accept-encoding"));
    request.contentEncoding = stream.field("content-encoding");
    isHead = method == "HEAD";
    if (method == "POST" && matchGrpcRoute(target).isOk()) {
      return Status::error(ErrorId::BadEncoding,
                           fmt::format("a gRPC call has the content-type '{}'",
                                       stream.field("content-type").substr(0, 64)),
                           "it must be application/grpc");
    }
    HttpHead head = {method,         target,        authority.empty() ? host : authority,
                     origin,         fetchSite,     userAgent,
                     acceptLanguage, authorization, jsonBytes,
                     traceparent};
    TENON_TRY(readHead(head, server.rights(), server.onlyLocalNames(), request));
    TENON_TRY(server.admitRoute(socket, *request.match.route));
    uint64_t announced = 0;
    std::from_chars(length.data(), length.data() + length.size(),
                    announced); // nghttp2 has checked that it is a number
    return announced > server.options.maxBody ? bodyTooLarge(server.options) : Status::ok();
  }

  void refuse(const Status &status) {
    reply(errorReply(status, exchange->request.isOpenAi, false));
  }

  /// Gives the stream what has come of a body in parts, while it has little that the client has not
  /// taken.
  void flush() {
    constexpr size_t kMaxPending = 64; // pieces
    if (!parts || areSent || stream.pendingPieces() > kMaxPending) {
      return;
    }
    if (!parts->isEmpty()) {
      stream.send({parts->take(), {}, nullptr});
    }
    if (parts->isOver()) {
      areSent = true;
      stream.finish();
    }
  }

  void reply(HttpReply answer) {
    HeaderFields fields = {{":status", std::to_string(answer.status)},
                           {"content-type", std::string(answer.contentType)}};
    if (!answer.stream) {
      fields.emplace_back("content-length", std::to_string(answer.bytes()));
    }
    for (const auto &[name, value] : answer.fields) {
      fields.emplace_back(lower(name), value);
    }
    if (answer.result) {
      server.api.countReply(*answer.result, answer.begun);
    }
    bool hasBody = !isHead && (answer.stream || answer.bytes() > 0);
    stream.respond(fields, !hasBody);
    if (!hasBody) {
      return;
    }
    if (answer.stream) {
      parts = std::move(answer.stream);
      parts->onMore = [this] { flush(); };
      flush();
      return;
    }
    for (Piece &piece : answer.pieces) {
      stream.send(std::move(piece));
    }
    stream.finish();
  }

  ServerContext &server;
  const ClientSocket &socket;
  Stream &stream;
  std::shared_ptr<HttpExchange> exchange;
  std::shared_ptr<ReplyStream> parts; ///< of a body that comes in parts
  bool isHead = false, isWhole = false;
  bool areSent = false; ///< all parts
  Progress progress;
};

} // namespace

std::unique_ptr<StreamHandler> makeHttpStream(ServerContext &server, const ClientSocket &socket,
                                              Stream &stream) {
  return std::make_unique<HttpStream>(server, socket, stream);
}

} // namespace tenon::server
