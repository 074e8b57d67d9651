// HTTP's form of what Api answers.

#include "server/http/Exchange.h"

#include "registry/Sha256.h"
#include "server/http/ServerContext.h"
#include "server/page/Page.h"
#include "server/protocol/ErrorMap.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <random>
#include <span>

namespace tenon::server {
namespace {

/// Of outputs as JSON in one reply; some hundred MiB of text.
constexpr uint64_t kMaxElements = 16 << 20;
/// To be freed beside the loop.
constexpr uint64_t kLarge = 1 << 20;
/// Of a request that is no inference: it is read on the loop.
constexpr uint64_t kMaxSettings = 256 << 10;

Status noMemory(std::string_view what, std::string_view hint) {
  return Status::error(ErrorId::OutOfMemory, fmt::format("out of memory for {}", what), hint);
}

HttpReply pageReply(std::string_view path) {
  const PageFile &file = pageFile(path);
  HttpReply reply;
  reply.contentType = file.type;
  reply.pieces.push_back({std::string(file.text), {}, nullptr});
  reply.fields = {{"Content-Security-Policy", std::string(kPagePolicy)},
                  {"X-Content-Type-Options", "nosniff"},
                  {"Referrer-Policy", "no-referrer"},
                  {"Cross-Origin-Opener-Policy", "same-origin"},
                  {"Cross-Origin-Resource-Policy", "same-origin"},
                  {"Cache-Control", "no-cache"}};
  return reply;
}

/// The optional body of operations that take settings.
Status readSettings(std::string_view body, Question &asked) {
  bool takesSettings =
      asked.operation == Operation::RepositoryLoad || asked.operation == Operation::RepositoryIndex;
  if (!takesSettings || body.empty()) {
    return Status::ok();
  }
  Json settings;
  TENON_TRY(parseRequestJson(body, settings));
  if (!settings.is_object()) {
    return Status::error(ErrorId::BadRequest, "the JSON of the request is not an object");
  }
  asked.hasSettings = settings.contains("parameters") && !settings["parameters"].empty();
  asked.onlyReady = settings.value("ready", Json(false)) == true;
  return Status::ok();
}

} // namespace

uint64_t HttpReply::bytes() const {
  uint64_t sum = 0;
  for (const Piece &piece : pieces) {
    sum += piece.size();
  }
  return sum;
}

void HttpReply::append(const ChargedText &text) {
  for (const std::shared_ptr<ChargedString> &block : text.blocks()) {
    pieces.push_back({{}, std::as_bytes(std::span(block->text)), block});
  }
}

Result<Piece> ownedPiece(std::string text, MemoryBudget &budget) {
  std::shared_ptr<ChargedString> owned = std::make_shared<ChargedString>(&budget);
  owned->text = std::move(text);
  TENON_TRY(owned->settle());
  return Piece{{}, std::as_bytes(std::span(owned->text)), owned};
}

HttpReply errorReply(const Status &status, bool isOpenAi, bool closes) {
  HttpReply reply;
  reply.status = wireStatusOf(status.id()).http;
  reply.pieces.push_back({isOpenAi ? openAiError(status) : errorBody(status), {}, nullptr});
  reply.closes = closes;
  if (reply.status == 429 || reply.status == 503) {
    reply.fields.emplace_back("Retry-After", "1");
  } else if (reply.status == 401) {
    reply.fields.emplace_back("WWW-Authenticate", "Bearer");
  }
  return reply;
}

Status checkRights(const Tokens *tokens, std::string_view authorization,
                   const Result<RouteMatch> &match) {
  return tokens ? tokens->check(authorization, match.isOk() ? roleOf(match->operation) : Role::Read)
                : Status::ok();
}

Status readHead(const HttpHead &head, const Tokens *tokens, bool onlyLocalNames,
                HttpRequest &request) {
  request.isOpenAi = head.target.starts_with("/v1/");
  TENON_TRY(checkSite(head, onlyLocalNames));
  Result<RouteMatch> match = matchRoute(head.method, head.target);
  Status rights = checkRights(tokens, head.authorization, match);
  std::string_view bearer = bearerToken(head.authorization);
  bool isOfRegistry = match.isOk() && server::isOfRegistry(match->operation);
  // A token that the server does not know may be one of the registry's, which is asked with it.
  bool isUnknown = isOfRegistry && rights.id() == ErrorId::NotAuthenticated && !bearer.empty();
  if (!isUnknown) {
    TENON_TRY(rights);
  }
  if (!match.isOk()) {
    return match.takeStatus();
  }
  request.match = std::move(*match);
  request.match.isUnknown = isUnknown;
  request.match.isTrusted = tokens && !isUnknown;
  request.match.token = isOfRegistry && !request.match.isTrusted ? bearer : "";
  if (roleOf(request.match.operation) == Role::Admin) {
    std::string hash = tokens ? registry::sha256Of(bearerToken(head.authorization)) : "";
    request.match.by = tokens ? "serve, token " + hash.substr(0, 8)
                              : "serve, without token"; // which token it was, not the token
  }
  if (request.isOpenAi && tokens) {
    request.client = registry::sha256Of(bearer);
    request.isAdmin = tokens->check(head.authorization, Role::Admin).isOk();
  }
  request.trace = parseTraceParent(head.traceparent);
  std::string_view jsonBytes = head.inferenceHeaderLength;
  if (!jsonBytes.empty()) {
    uint64_t bytes = 0;
    std::from_chars_result result =
        std::from_chars(jsonBytes.data(), jsonBytes.data() + jsonBytes.size(), bytes);
    if (result.ec != std::errc() || result.ptr != jsonBytes.data() + jsonBytes.size()) {
      return Status::error(
          ErrorId::BadRequest,
          "the request is not valid HTTP: Inference-Header-Content-Length is not a number");
    }
    request.jsonBytes = bytes;
  }
  return Status::ok();
}

HttpExchange::HttpExchange(ServerContext &server) : server(server) {
  request.body = ChargedString(&server.memory);
}

void HttpExchange::run(bool isLittle, std::function<void()> work, std::function<void()> then) {
  auto guarded = [this, work = std::move(work)] {
    try {
      work();
    } catch (const std::bad_alloc &) { // the others are served on
      problem = noMemory("the request or its reply",
                         "send and request tensors as binary data, or send fewer at once");
    }
  };
  if (isLittle) {
    guarded();
    then();
    return;
  }
  server.work.run(std::move(guarded),
                  [self = shared_from_this(), then = std::move(then)] { then(); });
}

void HttpExchange::perform(std::function<void(HttpReply)> callback) {
  onReply = std::move(callback);
  Result<Encoding> encoding = parseEncoding(request.contentEncoding);
  if (!encoding.isOk()) {
    fail(encoding.status());
    return;
  }
  bool isLittle = *encoding == Encoding::Identity &&
                  ((request.match.operation != Operation::ModelInfer &&
                    !continuesText(request.match.operation)) ||
                   request.jsonBytes.value_or(request.body.text.size()) <= kLittle);
  run(
      isLittle, [this, encoding = *encoding] { problem = readBody(encoding); },
      [this] {
        if (!onReply) {
          return; // the client has gone
        }
        if (request.match.operation == Operation::ModelInfer) {
          infer();
        } else if (!problem.isOk()) {
          fail(problem);
        } else if (asked) {
          continueText();
        } else {
          performOther();
        }
      });
}

Status HttpExchange::readBody(Encoding encoding) {
  if (encoding != Encoding::Identity) {
    TENON_ASSIGN(request.body,
                 decompress(encoding, request.body.text, server.options.maxBody, &server.memory));
  }
  body = std::make_shared<ChargedString>(std::move(request.body));
  if (request.match.operation == Operation::RegistryPush) {
    return Status::ok(); // by HTTP/2: --max-body bounds it
  }
  if (continuesText(request.match.operation)) {
    bool isChat = request.match.operation == Operation::ChatCompletions;
    uint64_t chance =
        (static_cast<uint64_t>(std::random_device()()) << 32) | std::random_device()();
    bool mayBeUrgent = server.mayBeUrgent(request.isAdmin);
    TENON_ASSIGN(asked, parseOpenAi(isChat, body->text, {chance, mayBeUrgent}, wrongField));
    return Status::ok();
  }
  if (request.match.operation != Operation::ModelInfer) {
    return body->text.size() <= kMaxSettings
               ? Status::ok()
               : Status::error(
                     ErrorId::RequestTooLarge,
                     fmt::format(
                         "the body of a request other than inference has more than {} bytes",
                         kMaxSettings));
  }
  TENON_ASSIGN(parsed, parseInferRequest(body->text, request.jsonBytes, &server.memory));
  parsed->owner = body;
  return Status::ok();
}

void HttpExchange::infer() {
  if (!problem.isOk()) {
    server.api.note(request.match.model, problem);
    fail(problem);
    return;
  }
  parsed->trace = request.trace;
  Result<std::shared_ptr<Request>> queued =
      server.api.infer(request.match, std::move(*parsed),
                       [self = shared_from_this()](Result<InferResult> result,
                                                   const std::shared_ptr<Request> &asked) {
                         self->write(std::move(result), asked);
                       });
  if (!queued.isOk()) {
    fail(queued.status());
    return;
  }
  pending = std::move(*queued);
}

void HttpExchange::fail(const Status &status) {
  HttpReply made = errorReply(status, request.isOpenAi, false);
  if (!wrongField.empty()) {
    made.pieces = {{openAiError(status, wrongField), {}, nullptr}};
  }
  answer(std::move(made));
}

void HttpExchange::write(Result<InferResult> result, const std::shared_ptr<Request> &asked) {
  pending = nullptr;
  bool isLarge = body->text.size() + asked->payload.charge.size() > kLarge;
  body = nullptr;
  InferRequest inputs = asked->payload.takeInputs();
  if (isLarge) {
    server.work.drop(std::make_shared<InferRequest>(std::move(inputs)));
  }
  if (!result.isOk()) {
    fail(result.status());
    return;
  }
  reply = HttpReply();
  reply.begun = Clock::now();
  reply.result = std::move(*result);
  const Version &version = *reply.result->version;
  uint64_t jsonBytes = 0;
  std::vector<ReplyOutput> outputs;
  for (const AskedOutput &output : askedOutputs(version, asked->payload)) {
    const ModelPort &port = version.ports.outputs[output.port];
    Bytes elements = elementsOf(*reply.result, output.port);
    outputs.push_back({port.name, port.dtype, reply.result->outputs[output.port].dims, elements,
                       output.isBinary});
    jsonBytes += output.isBinary ? 0 : elements.size();
  }
  run(
      jsonBytes <= kLittle / 2, // a number is longer as text
      [this, id = asked->payload.id, outputs = std::move(outputs), model = version.model,
       number = version.number] {
        problem = Status::ok();
        Result<InferReply> written =
            writeInferReply(model, number, id, outputs, kMaxElements, &server.memory);
        if (!written.isOk()) {
          problem = written.takeStatus();
          return;
        }
        if (written->hasBinary) {
          reply.contentType = "application/octet-stream";
          reply.fields.emplace_back("Inference-Header-Content-Length",
                                    fmt::format("{}", written->json.size()));
        }
        reply.append(written->json);
        for (const ReplyOutput &output : outputs) {
          if (output.isBinary) {
            reply.pieces.push_back({{}, output.bytes, reply.result->buffer});
          }
        }
      },
      [this, asked] {
        if (!problem.isOk()) {
          server.api.replyFailed(*asked, problem);
          fail(problem);
          return;
        }
        compress();
      });
}

void HttpExchange::answer(HttpReply made) {
  if (std::function<void(HttpReply)> callback = std::exchange(onReply, nullptr)) {
    callback(std::move(made));
  }
}

void HttpExchange::cancel() {
  onReply = nullptr;
  if (text) {
    std::exchange(text, nullptr)->cancel();
  }
  if (pending) {
    server.api.cancel(std::exchange(pending, nullptr));
  }
}

void HttpExchange::performOther() {
  Operation operation = request.match.operation;
  if (operation == Operation::Page) {
    reply = pageReply(request.match.route->path);
    compress();
    return;
  }
  if (operation == Operation::RegistryFile || operation == Operation::RegistryPush) {
    operation == Operation::RegistryFile ? sendFile() : pushBody();
    return;
  }
  Status status = readSettings(body->text, request.match);
  if (!status.isOk()) {
    fail(status);
    return;
  }
  bool isUnready = operation == Operation::ServerReady && !server.api.isReady();
  server.api.perform(request.match, body->text,
                     [self = shared_from_this(), operation, isUnready](Result<Answer> answer) {
                       Result<Piece> piece = answer.isOk()
                                                 ? ownedPiece(textOf(*answer), self->server.memory)
                                                 : Result<Piece>(answer.takeStatus());
                       if (!piece.isOk()) {
                         self->fail(piece.status());
                         return;
                       }
                       HttpReply &reply = self->reply;
                       reply.status = isUnready ? 503 : 200;
                       reply.pieces.push_back(std::move(*piece));
                       if (operation == Operation::Metrics) {
                         reply.contentType = "text/plain; version=0.0.4; charset=utf-8";
                       }
                       self->compress();
                     });
}

} // namespace tenon::server
