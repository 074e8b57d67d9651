// A call of gRPC: one request and one reply, a stream of inferences, or a watch of the server's
// health. One file: a call is one class, whose states call each other.

#include "registry/Sha256.h"
#include "server/grpc/Framing.h"
#include "server/grpc/Infer.h"
#include "server/grpc/Messages.h"
#include "server/grpc/Reflection.h"
#include "server/grpc/TextInfer.h"
#include "server/http/Exchange.h"
#include "server/http/Http2.h"
#include "server/protocol/DataType.h"
#include "server/protocol/Tokens.h"

#include <fmt/format.h>

#include <list>
#include <new>
#include <optional>
#include <random>

namespace tenon::server {
namespace {

/// Replies of one stream that are computed, or wait for the client to take them.
constexpr size_t kMaxReplies = 1024;
/// Pieces of texts that wait for the client to take them.
constexpr size_t kMaxPieces = 16 << 10;

class GrpcCall : public StreamHandler {
public:
  GrpcCall(ServerContext &server, const ClientSocket &socket, Stream &stream)
      : server(server), socket(socket), stream(stream),
        reader(server.options.maxBody, &server.memory) {
    Status status = begin();
    if (!status.isOk()) {
      finish(status);
    }
  }

  void received(std::string_view data) override {
    if (isOver) {
      return;
    }
    if (!reader.isWithinMessage()) {
      progress = Progress();
    }
    progress.add(data.size());
    Status status = reader.feed(data, [this](ChargedString message, bool isCompressed) {
      return take(std::move(message), isCompressed);
    });
    if (!status.isOk()) {
      finish(status);
    }
  }

  void ended() override {
    isWhole = true;
    if (isOver) {
      return;
    }
    Status status = reader.end();
    if (status.isOk() && !isStream() && !hasMessage) {
      status = Status::error(ErrorId::BadGrpcMessage, "the call contains no message");
    }
    if (!status.isOk()) {
      finish(status);
    } else if (isStream()) {
      endStream();
    } else {
      perform();
    }
  }

  void closed() override {
    isOver = true;
    dropInferences();
  }

  void tick(Clock::time_point now) override {
    if (isOver) {
      return;
    }
    if (deadline < now) {
      finish(Status::error(ErrorId::RequestTimedOut, "the call took longer than its grpc-timeout"));
    } else if (awaitsMessage() && progress.deadline(server.options.slowest) < now) {
      finish(Status::error(ErrorId::ClientTooSlow, "the message did not arrive in time"));
    } else if (watched) {
      notifyHealth();
    }
  }

  void drain() override {
    if (isOver || !stream.hasResponded()) {
      return; // it is answered as those of HTTP are
    }
    if (watched) {
      notifyHealth();
      finish(Status::error(ErrorId::ServerStopping, "the server is stopping"));
    } else if (isStream()) {
      isWhole = true; // what it has is answered
      endStream();
    }
  }

private:
  /// An inference of the call: until its reply is written, all that it refers to.
  struct Inference {
    Encoding encoding = Encoding::Identity;
    ChargedString message; ///< as it came, until it is read
    GrpcInferRequest parsed;
    std::string id;
    std::shared_ptr<Request> pending;
    std::optional<std::vector<Piece>> reply; ///< waits for those before it
    std::optional<OpenAiRequest> asked;      ///< of a language model
    std::shared_ptr<TextCall> text;
  };

  bool isStream() const {
    return match.route && (match.operation == Operation::ModelStreamInfer ||
                           match.operation == Operation::Reflection);
  }
  /// The client is in the middle of a message, or has not sent the only one.
  bool awaitsMessage() const {
    return !isWhole && !watched && (reader.isWithinMessage() || !isStream());
  }

  Status begin() {
    if (stream.isHeaderCut()) {
      return Status::error(
          ErrorId::RequestTooLarge,
          fmt::format("the metadata of the call has more than {} bytes", kMaxHeader));
    }
    const std::string authority = stream.field(":authority"), origin = stream.field("origin"),
                      fetchSite = stream.field("sec-fetch-site");
    HttpHead head;
    head.host = authority;
    head.origin = origin;
    head.fetchSite = fetchSite;
    TENON_TRY(checkSite(head, server.onlyLocalNames()));
    Result<RouteMatch> found =
        stream.field(":method") == "POST"
            ? matchGrpcRoute(stream.field(":path"))
            : Status::error(ErrorId::NoSuchRoute, "a gRPC call must be a POST");
    TENON_TRY(checkRights(server.rights(), stream.field("authorization"), found));
    if (!found.isOk()) {
      return found.takeStatus();
    }
    match = std::move(*found);
    TENON_TRY(server.admitRoute(socket, *match.route));
    trace = parseTraceParent(stream.field("traceparent"));
    if (const Tokens *tokens = server.rights()) {
      client = registry::sha256Of(bearerToken(stream.field("authorization")));
      isAdmin = tokens->check(stream.field("authorization"), Role::Admin).isOk();
    }
    std::string encodingName = stream.field("grpc-encoding"),
                timeout = stream.field("grpc-timeout");
    TENON_ASSIGN(encoding, parseEncoding(encodingName));
    if (!timeout.empty()) {
      TENON_ASSIGN(std::chrono::nanoseconds duration, parseTimeout(timeout));
      deadline = Clock::now() + duration;
    }
    return Status::ok();
  }

  /// A whole message.
  Status take(ChargedString message, bool isCompressed) {
    if (isOver) {
      return Status::ok();
    }
    progress = Progress(); // of the next
    if (!isStream() && std::exchange(hasMessage, true)) {
      return Status::error(ErrorId::BadGrpcMessage, "the call has more than one message");
    }
    if (isCompressed && encoding == Encoding::Identity) {
      return Status::error(ErrorId::BadGrpcMessage,
                           "a message is compressed, but the call has no grpc-encoding");
    }
    std::shared_ptr<Inference> inference = std::make_shared<Inference>();
    inference->encoding = isCompressed ? encoding : Encoding::Identity;
    inference->message = std::move(message);
    if (!isStream()) {
      unary = std::move(inference);
      return Status::ok();
    }
    if (!stream.hasResponded()) {
      respond(); // clients wait for it before they send more
    }
    if (inferences.size() + texts.size() + stream.pendingPieces() >= kMaxReplies) {
      return Status::error(
          ErrorId::QueueFull,
          fmt::format("the client has not read {} replies of the stream", kMaxReplies),
          "read replies while you send");
    }
    if (match.operation == Operation::Reflection) {
      return reflect(*inference);
    }
    inferences.push_back(inference);
    infer(inference);
    return Status::ok();
  }

  Status reflect(Inference &inference) {
    constexpr size_t kMaxAsked = 4096; // names are shorter, and what is small needs no pool
    if (inference.message.text.size() > kMaxAsked) {
      return Status::error(ErrorId::RequestTooLarge,
                           fmt::format("a reflection request has more than {} bytes", kMaxAsked));
    }
    TENON_TRY(readMessage(server, inference, false));
    TENON_ASSIGN(std::string answer, answerReflection(inference.message.text));
    TENON_ASSIGN(Piece piece, ownedPiece(messagePrefix(answer.size()) + answer, server.memory));
    stream.send(std::move(piece));
    return Status::ok();
  }

  void perform() {
    switch (match.operation) {
    case Operation::ModelInfer:
      inferences.push_back(unary);
      infer(unary);
      return;
    default:
      work(
          unary, unary->encoding == Encoding::Identity,
          [&server = server, read = unary.get()] { return readMessage(server, *read, false); },
          [this](Status status) {
            if (!status.isOk()) {
              finish(status);
            } else if (match.operation == Operation::HealthCheck ||
                       match.operation == Operation::HealthWatch) {
              checkHealth();
            } else {
              ask();
            }
          });
    }
  }

  /// Does `task` now where it is little, else on the pool, which sees of the call what it was made
  /// with; then calls `then`, if the call is there.
  void work(const std::shared_ptr<Inference> &inference, bool isLittle,
            std::function<Status()> task, std::function<void(Status)> then) {
    if (isLittle) {
      then(task());
      return;
    }
    std::shared_ptr<Status> status = std::make_shared<Status>();
    server.work.run(
        [task = std::move(task), result = status.get()] { *result = task(); },
        [alive = std::weak_ptr<GrpcCall *>(self), this, inference, status, then = std::move(then)] {
          if (!alive.expired() && !isOver) {
            then(std::move(*status));
          }
        });
  }

  /// Everything but inferences and health.
  void ask() {
    Status status = readGrpcRequest(unary->message.text, match);
    if (!status.isOk()) {
      finish(status);
      return;
    }
    server.api.perform(
        match, {}, [alive = std::weak_ptr<GrpcCall *>(self), this](Result<Answer> answer) {
          if (alive.expired() || isOver) {
            return; // a load goes on without its caller
          }
          bool isUnready = match.operation == Operation::ModelReady && !answer.isOk();
          if (!isUnready && !answer.isOk()) {
            finish(answer.status());
            return;
          }
          std::string message =
              writeGrpcAnswer(match.operation, isUnready ? flagAnswer("ready", false) : *answer);
          Result<Piece> piece = ownedPiece(messagePrefix(message.size()) + message, server.memory);
          if (!piece.isOk()) {
            finish(piece.status());
            return;
          }
          respond();
          stream.send(std::move(*piece));
          finish(Status::ok());
        });
  }

  // Inferences.

  void infer(const std::shared_ptr<Inference> &inference) {
    constexpr size_t kLittle = 64 << 10;
    work(
        inference,
        inference->encoding == Encoding::Identity && inference->message.text.size() <= kLittle,
        [&server = server, read = inference.get(), mayBeText = isStream(),
         mayBeUrgent = server.mayBeUrgent(isAdmin)] {
          return mayBeText ? readStreamed(server, *read, mayBeUrgent)
                           : readMessage(server, *read, true);
        },
        [this, inference](Status status) {
          if (status.isOk() && inference->asked) {
            continueText(inference);
          } else if (status.isOk()) {
            inference->id = inference->parsed.request.id;
            status = submit(inference, inference->parsed);
          } else {
            server.api.note("", status);
          }
          if (!status.isOk()) {
            answer(*inference, status);
          }
        });
  }

  /// On any thread.
  static Status readStreamed(ServerContext &server, Inference &inference, bool mayBeUrgent) {
    TENON_TRY(unpack(server, inference));
    TENON_ASSIGN(std::optional<GrpcTextRequest> text, parseGrpcText(inference.message.text));
    if (!text) {
      return readMessage(server, inference, true);
    }
    inference.id = text->id;
    uint64_t chance =
        (static_cast<uint64_t>(std::random_device()()) << 32) | std::random_device()();
    std::string field;
    TENON_ASSIGN(inference.asked,
                 parseOpenAi(text->isChat, text->body, {chance, mayBeUrgent}, field));
    return Status::ok();
  }

  static Status noRoom() {
    return Status::error(ErrorId::OutOfMemory, "out of memory for the request",
                         "send fewer requests at once");
  }

  static Status unpack(ServerContext &server, Inference &inference) {
    try {
      if (inference.encoding != Encoding::Identity) {
        TENON_ASSIGN(inference.message, decompress(inference.encoding, inference.message.text,
                                                   server.options.maxBody, &server.memory));
        inference.encoding = Encoding::Identity;
      }
      return Status::ok();
    } catch (const std::bad_alloc &) {
      return noRoom();
    }
  }

  /// On any thread.
  static Status readMessage(ServerContext &server, Inference &inference, bool isInference) {
    constexpr size_t kMaxSettings = 256 << 10;
    TENON_TRY(unpack(server, inference));
    try {
      if (isInference) {
        TENON_ASSIGN(inference.parsed, parseGrpcInfer(inference.message.text, &server.memory));
      } else if (inference.message.text.size() > kMaxSettings) {
        return Status::error(
            ErrorId::RequestTooLarge,
            fmt::format("a message other than inference has more than {} bytes", kMaxSettings));
      }
      return Status::ok();
    } catch (const std::bad_alloc &) {
      return noRoom();
    }
  }

  /// Has a language model continue a text. Its pieces do not wait for replies before them: they
  /// have the id of their request.
  void continueText(const std::shared_ptr<Inference> &inference) {
    inferences.remove(inference);
    TextCall::Events events;
    events.onFailure = [this, alive = std::weak_ptr<GrpcCall *>(self),
                        inference](const Status &why) {
      if (!alive.expired() && !isOver) {
        send(writeGrpcInferError(why, inference->id));
        endText(inference);
      }
    };
    events.onPiece = [this, alive = std::weak_ptr<GrpcCall *>(self),
                      inference](uint64_t choice, const TextPiece &piece, const TextRecord &record,
                                 bool isLast) {
      if (alive.expired() || isOver) {
        return;
      }
      send(writeGrpcText(record, inference->id, choice, piece, isLast));
      if (isLast) {
        endText(inference);
      } else if (stream.pendingPieces() > kMaxPieces) {
        finish(Status::error(ErrorId::ClientTooSlow, "the client takes the answer too slowly"));
      }
    };
    for (TextAsk &ask : inference->asked->asks) {
      ask.salt = client;
    }
    inference->asked->trace = trace;
    texts.push_back(inference);
    Result<std::shared_ptr<TextCall>> begun =
        server.api.continueText(std::move(*inference->asked), server.memory, std::move(events));
    inference->message = ChargedString();
    if (!begun.isOk()) {
      send(writeGrpcInferError(begun.status(), inference->id));
      endText(inference);
      return;
    }
    inference->text = std::move(*begun);
  }

  void endText(const std::shared_ptr<Inference> &inference) {
    inference->text = nullptr;
    texts.remove(inference);
    endStream();
  }

  void send(std::vector<Piece> pieces) {
    if (!stream.hasResponded()) {
      respond();
    }
    for (Piece &piece : pieces) {
      stream.send(std::move(piece));
    }
  }

  Status submit(const std::shared_ptr<Inference> &inference, GrpcInferRequest &parsed) {
    if (deadline != Clock::time_point::max()) {
      // What waits until then is taken out of the queue at once; the clock of connections ends what
      // runs.
      std::chrono::microseconds left =
          std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now());
      if (left.count() <= 0) {
        return Status::error(ErrorId::RequestTimedOut,
                             "the call took longer than its grpc-timeout");
      }
      uint64_t &timeout = parsed.request.timeoutMicroseconds;
      timeout = timeout == 0 ? static_cast<uint64_t>(left.count())
                             : std::min<uint64_t>(timeout, static_cast<uint64_t>(left.count()));
    }
    RouteMatch target = match;
    target.model = std::move(parsed.model);
    target.version = std::move(parsed.version);
    parsed.request.trace = trace;
    parsed.request.owner = inference;
    // The call is there: closed() cancels the request.
    TENON_ASSIGN(inference->pending,
                 server.api.infer(target, std::move(parsed.request),
                                  [this, inference](Result<InferResult> result,
                                                    const std::shared_ptr<Request> &request) {
                                    try {
                                      result.isOk()
                                          ? sendResult(*inference, *result, request->payload)
                                          : answer(*inference, result.status());
                                    } catch (const std::bad_alloc &) {
                                      Status status = Status::error(ErrorId::OutOfMemory,
                                                                    "out of memory for the reply",
                                                                    "request fewer outputs");
                                      server.api.replyFailed(*request, status);
                                      finish(status);
                                    }
                                  }));
    return Status::ok();
  }

  void sendResult(Inference &inference, InferResult &result, const InferRequest &request) {
    Clock::time_point begun = Clock::now();
    const Version &version = *result.version;
    std::vector<GrpcOutput> outputs;
    for (const AskedOutput &asked : askedOutputs(version, request)) {
      const ModelPort &port = version.ports.outputs[asked.port];
      outputs.push_back({port.name, protocolName(port.dtype), result.outputs[asked.port].dims,
                         elementsOf(result, asked.port)});
    }
    std::vector<Piece> reply = writeGrpcInfer(version.model, version.number, request.id, outputs,
                                              isStream(), result.buffer);
    server.api.countReply(result, begun);
    answer(inference, std::move(reply));
  }

  /// An error of one inference: of a stream, the others go on.
  void answer(Inference &inference, const Status &status) {
    if (!isStream()) {
      finish(status);
      return;
    }
    answer(inference, writeGrpcInferError(status, inference.id));
  }

  void answer(Inference &inference, std::vector<Piece> reply) {
    inference.pending = nullptr;
    ChargedString message = std::exchange(inference.message, ChargedString()); // nobody reads it
    constexpr size_t kLarge = 1 << 20;
    if (message.text.size() > kLarge) {
      server.work.drop(std::make_shared<ChargedString>(std::move(message)));
    }
    inference.parsed.numbers.clear();
    inference.reply = std::move(reply);
    while (!inferences.empty() && inferences.front()->reply) {
      send(std::move(*inferences.front()->reply));
      inferences.pop_front();
    }
    if (!isStream()) {
      finish(Status::ok());
    } else {
      endStream();
    }
  }

  /// Ends a stream whose client has sent all and has all replies.
  void endStream() {
    if (isWhole && inferences.empty() && texts.empty() && !isOver) {
      finish(Status::ok());
    }
  }

  void dropInferences() {
    for (const std::shared_ptr<Inference> &inference : inferences) {
      if (inference->pending) {
        server.api.cancel(std::exchange(inference->pending, nullptr));
      }
    }
    inferences.clear();
    for (const std::shared_ptr<Inference> &inference : std::exchange(texts, {})) {
      if (inference->text) {
        std::exchange(inference->text, nullptr)->cancel();
      }
    }
  }

  // Health.

  Health health() const {
    bool isKnown = match.model.empty() || match.model == "inference.GRPCInferenceService";
    return !isKnown               ? Health::UnknownService
           : server.api.isReady() ? Health::Serving
                                  : Health::NotServing;
  }

  void checkHealth() {
    Status status = readGrpcRequest(unary->message.text, match);
    bool isWatch = match.operation == Operation::HealthWatch;
    if (status.isOk() && !isWatch && health() == Health::UnknownService) {
      status = Status::error(
          ErrorId::NoSuchModel, "the server has no such service",
          "the services are '' and inference.GRPCInferenceService; ModelReady reports on models");
    }
    if (!status.isOk()) {
      finish(status);
      return;
    }
    respond();
    watched = health();
    sendHealth();
    if (!isWatch) {
      finish(Status::ok());
    }
  }

  void notifyHealth() {
    if (watched != health()) {
      watched = health();
      sendHealth();
    }
  }

  void sendHealth() {
    std::string message = writeHealth(*watched);
    stream.send({messagePrefix(message.size()) + message, {}, nullptr});
  }

  // Replies.

  static const HeaderFields &replyFields() {
    static const HeaderFields fields = {{":status", "200"},
                                        {"content-type", "application/grpc"},
                                        {"grpc-accept-encoding", "identity,deflate,gzip"}};
    return fields;
  }

  void respond() { stream.respond(replyFields(), false); }

  /// Ends the call: nothing of it is sent or told after that.
  void finish(const Status &status) {
    isOver = true;
    HeaderFields fields = statusFields(status);
    if (stream.hasResponded()) {
      stream.finish(std::move(fields));
    } else {
      HeaderFields all = replyFields();
      all.insert(all.end(), fields.begin(), fields.end());
      stream.respond(all, true);
    }
    dropInferences();
  }

  ServerContext &server;
  const ClientSocket &socket;
  Stream &stream;
  RouteMatch match;
  TraceContext trace;
  Encoding encoding = Encoding::Identity;
  Clock::time_point deadline = Clock::time_point::max();
  MessageReader reader;
  Progress progress; ///< of the message that is not whole
  bool hasMessage = false, isWhole = false, isOver = false;
  std::shared_ptr<Inference> unary;
  std::list<std::shared_ptr<Inference>> inferences; ///< in the order in which they came
  std::list<std::shared_ptr<Inference>> texts;      ///< of language models
  std::string client;                               ///< the hash of the token; empty without tokens
  bool isAdmin = false;                             ///< the token has the role
  std::optional<Health> watched;
  /// Expires with this.
  std::shared_ptr<GrpcCall *> self = std::make_shared<GrpcCall *>(this);
};

} // namespace

std::unique_ptr<StreamHandler> makeGrpcCall(ServerContext &server, const ClientSocket &socket,
                                            Stream &stream) {
  return std::make_unique<GrpcCall>(server, socket, stream);
}

} // namespace tenon::server
