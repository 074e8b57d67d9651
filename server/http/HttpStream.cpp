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
      : server(server), socket(socket), stream(stream), share(server), start(Clock::now()),
        last(start) {
    Status status = begin();
    if (!status.isOk()) {
      reply(errorReply(status));
    }
  }

  void received(std::string_view data) override {
    if (stream.hasResponded()) {
      return;
    }
    last = Clock::now();
    Status status = body.size() + data.size() > server.options.maxBody
                        ? bodyTooLarge(server.options)
                        : share.resize(body.size() + data.size());
    if (!status.isOk()) {
      reply(errorReply(status));
      return;
    }
    body += data;
  }

  void ended() override {
    isWhole = true;
    if (stream.hasResponded()) {
      return;
    }
    Status status = takeBody();
    if (!status.isOk()) {
      reply(errorReply(status));
      return;
    }
    request.maxLists = share.rest();
    pending = performHttp(server.api, request,
                          [alive = std::weak_ptr<HttpStream *>(self), this](HttpReply answer) {
                            if (!alive.expired()) { // a load goes on without its caller
                              reply(std::move(answer));
                            }
                          });
    if (pending && !stream.hasResponded()) {
      static_cast<void>(
          share.resize(share.size() + pending->payload.listBytes())); // not more than maxLists
    }
  }

  void closed() override {
    if (pending) {
      server.api.cancel(pending);
    }
  }

  void tick(Clock::time_point now) override {
    if (!isWhole && !stream.hasResponded() &&
        bodyDeadline(server.options, start, last, body.size()) < now) {
      reply(errorReply(Status::error(ErrorId::ClientTooSlow, "the request did not come in time")));
    }
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
    acceptEncoding = stream.field("accept-encoding");
    contentEncoding = stream.field("content-encoding");
    isHead = method == "HEAD";
    if (method == "POST" && matchGrpcRoute(target).isOk()) {
      return Status::error(ErrorId::BadEncoding,
                           fmt::format("a call of gRPC has the content-type '{}'",
                                       stream.field("content-type").substr(0, 64)),
                           "it is application/grpc");
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

  Status takeBody() {
    TENON_ASSIGN(Encoding encoding, parseEncoding(contentEncoding));
    TENON_ASSIGN(request.body, share.decode(encoding, std::move(body)));
    return Status::ok();
  }

  void reply(HttpReply answer) {
    answer.compress(chooseEncoding(acceptEncoding));
    HeaderFields fields = {{":status", std::to_string(answer.status)},
                           {"content-type", std::string(answer.contentType)},
                           {"content-length", std::to_string(answer.bytes())}};
    for (const auto &[name, value] : answer.fields) {
      fields.emplace_back(lower(name), value);
    }
    if (answer.result) {
      server.api.countReply(*answer.result, answer.begun);
    }
    bool hasBody = !isHead && answer.bytes() > 0;
    stream.respond(fields, !hasBody);
    if (!hasBody) {
      return;
    }
    std::shared_ptr<SharedBuffer> buffer = answer.result ? answer.result->buffer : nullptr;
    stream.send({std::move(answer.body), {}, nullptr});
    for (Bytes tensor : answer.tensors) {
      stream.send({{}, tensor, buffer});
    }
    stream.finish();
  }

  ServerContext &server;
  const ClientSocket &socket;
  Stream &stream;
  BodyShare share;
  HttpRequest request;
  std::string body, contentEncoding, acceptEncoding;
  bool isHead = false, isWhole = false;
  Clock::time_point start, last;
  std::shared_ptr<Request> pending;
  /// Expires with this.
  std::shared_ptr<HttpStream *> self = std::make_shared<HttpStream *>(this);
};

} // namespace

std::unique_ptr<StreamHandler> makeHttpStream(ServerContext &server, const ClientSocket &socket,
                                              Stream &stream) {
  return std::make_unique<HttpStream>(server, socket, stream);
}

} // namespace tenon::server
