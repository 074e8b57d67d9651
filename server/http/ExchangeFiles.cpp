// Files of the registry over HTTP: downloads, and pushes, which go to the disk before they are
// looked at.

#include "server/http/Exchange.h"
#include "server/http/ServerContext.h"
#include "support/files/MappedFile.h"

#include <fmt/format.h>

namespace tenon::server {
namespace {

/// Files that may be pushed at once.
constexpr unsigned kMaxPushes = 4;

} // namespace

HttpExchange::~HttpExchange() {
  if (pushed) {
    server.work.drop(std::move(pushed));
  }
}

void HttpExchange::answerText(Result<std::string> text) {
  Result<Piece> piece =
      text.isOk() ? ownedPiece(std::move(*text), server.memory) : Result<Piece>(text.takeStatus());
  if (!piece.isOk()) {
    fail(piece.status());
    return;
  }
  reply.pieces.push_back(std::move(*piece));
  compress();
}

void HttpExchange::sendFile() {
  Result<RegistryAdmin *> registry = server.api.registry(request.match);
  if (!registry.isOk()) {
    fail(registry.status());
    return;
  }
  (*registry)->file(request.match, [self = shared_from_this()](Result<RegistryFile> file) {
    Result<MappedFile> opened =
        file.isOk() ? MappedFile::open(file->path) : Result<MappedFile>(file.takeStatus());
    if (!opened.isOk()) {
      self->fail(opened.status());
      return;
    }
    std::shared_ptr<MappedFile> mapped = std::make_shared<MappedFile>(std::move(*opened));
    HttpReply &reply = self->reply;
    reply.contentType = "application/octet-stream";
    reply.fields = {{"ETag", fmt::format("\"{}\"", file->version.blob.hash)},
                    {"Tenon-Version", file->version.text()},
                    {"X-Content-Type-Options", "nosniff"}};
    reply.pieces.push_back({{}, mapped->bytes(), mapped});
    self->answer(std::move(reply));
  });
}

void HttpExchange::beginPush(std::function<void(Status)> then) {
  if (server.pushes >= kMaxPushes) {
    then(Status::error(ErrorId::QueueFull,
                       fmt::format("{} files are already being pushed", kMaxPushes),
                       "try again later"));
    return;
  }
  Result<RegistryAdmin *> registry = server.api.registry(request.match);
  if (!registry.isOk()) {
    then(registry.takeStatus());
    return;
  }
  (*registry)->admit(
      request.match, [self = shared_from_this(), then = std::move(then)](Result<PushCall> call) {
        if (!call.isOk()) {
          then(call.takeStatus());
          return;
        }
        self->pushed = std::make_shared<PushedFile>(self->server.pushes, std::move(*call));
        self->run(
            false, [self] { self->problem = self->pushed->create(); },
            [self, then] { then(self->problem); });
      });
}

void HttpExchange::appendPush(std::string_view bytes, std::function<void(Status)> then) {
  run(
      false, [this, bytes] { problem = pushed->append(bytes); },
      [this, then = std::move(then)] { then(problem); });
}

void HttpExchange::endPush(std::function<void(HttpReply)> callback) {
  onReply = std::move(callback);
  PushCall call = pushed->call();
  (*server.api.registry(request.match))
      ->push(std::move(call), pushed->path(),
             [self = shared_from_this()](Result<std::string> text) {
               self->server.work.drop(std::exchange(self->pushed, nullptr));
               self->answerText(std::move(text));
             });
}

void HttpExchange::pushBody() {
  beginPush([self = shared_from_this()](Status status) {
    if (!status.isOk()) {
      self->fail(status);
      return;
    }
    self->appendPush(self->body->text, [self](Status status) {
      status.isOk() ? self->endPush(std::exchange(self->onReply, nullptr)) : self->fail(status);
    });
  });
}

} // namespace tenon::server
