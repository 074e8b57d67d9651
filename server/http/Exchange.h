// A request and its reply in the words of HTTP, whichever version carries them, free of sockets:
// what is checked before a body is read, what is read of it, what is answered with which headers.

#pragma once

#include "server/api/Api.h"
#include "server/http/PushedFile.h"
#include "server/http/ReplyStream.h"
#include "server/http2/Session.h"
#include "server/protocol/Compression.h"
#include "server/protocol/Site.h"
#include "server/protocol/Tokens.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

struct ServerContext;

/// What of a request an operation looks at.
struct HttpRequest {
  RouteMatch match;
  ChargedString body; ///< as it came
  std::optional<uint64_t> jsonBytes;
  TraceContext trace;
  std::string contentEncoding;
  Encoding replyEncoding = Encoding::Identity;
  bool isOpenAi = false; ///< of OpenAI's interface, whose errors are objects
  std::string client;    ///< of that interface: the hash of the token; empty without tokens
  bool isAdmin = false;  ///< of that interface: its token has the role
};

/// Finds the route and checks site and rights (`tokens` may be null; `onlyLocalNames` is that of
/// checkSite): TN0806, TN0809, TN0815, TN0816, TN0822.
Status readHead(const HttpHead &head, const Tokens *tokens, bool onlyLocalNames,
                HttpRequest &request);

/// "Authorization" against the role of the route. Without a right to read, a client learns nothing
/// of which routes there are, so `match` may be an error.
Status checkRights(const Tokens *tokens, std::string_view authorization,
                   const Result<RouteMatch> &match);

struct HttpReply {
  unsigned status = 200;
  std::string_view contentType = "application/json";
  std::vector<std::pair<std::string_view, std::string>> fields;
  std::vector<Piece> pieces;
  std::optional<InferResult> result;
  Clock::time_point begun; ///< when the reply's making began, for the stage copy_out
  bool closes = false;     ///< the connection ends with it
  std::shared_ptr<ReplyStream>
      stream; ///< of a reply whose body comes in parts; there are no pieces

  uint64_t bytes() const;
  void append(const ChargedText &text);
};

/// A piece that keeps its text and the text's charge. TN0812.
Result<Piece> ownedPiece(std::string text, MemoryBudget &budget);

/// An error in the form of its interface. `closes`: the body of the request was not read, so no
/// other can follow on the connection.
HttpReply errorReply(const Status &status, bool isOpenAi, bool closes);

/// Performs one request. What takes long is done by the pool: the loop has the exchange meanwhile,
/// and other requests.
class HttpExchange : public std::enable_shared_from_this<HttpExchange> {
public:
  explicit HttpExchange(ServerContext &server);
  ~HttpExchange();

  HttpRequest request;

  /// Calls `onReply` once, now or later, unless it is cancelled before.
  void perform(std::function<void(HttpReply)> onReply);
  /// The client has gone, also behind a reply whose body comes in parts.
  void cancel();

  /// A push whose body goes to the disk as it comes: begin, append piece by piece, each after the
  /// one before, end. Where `then` has an error, the push is over, and nothing is left of it.
  void beginPush(std::function<void(Status)> then);
  void appendPush(std::string_view bytes, std::function<void(Status)> then);
  void endPush(std::function<void(HttpReply)> onReply);

private:
  /// Bytes of JSON that take the loop less time than a turn through the pool would take the
  /// request.
  static constexpr uint64_t kLittle = 32 << 10;

  /// Does `work` now where it is little, else on the pool; then calls `then`.
  void run(bool isLittle, std::function<void()> work, std::function<void()> then);
  Status readBody(Encoding encoding);
  void performOther();
  void answerText(Result<std::string> text);
  void sendFile();
  /// Of a body that is in memory.
  void pushBody();
  void infer();
  void continueText();
  void sendPart(std::string part, bool isLast);
  void write(Result<InferResult> result, const std::shared_ptr<Request> &asked);
  void compress();
  void answer(HttpReply reply);
  void fail(const Status &status);

  ServerContext &server;
  std::function<void(HttpReply)> onReply; ///< empty once it is called, or not to be
  std::shared_ptr<ChargedString> body;    ///< decompressed
  std::optional<InferRequest> parsed;
  std::shared_ptr<Request> pending;
  std::shared_ptr<PushedFile> pushed;
  std::optional<OpenAiRequest> asked;
  std::string wrongField; ///< of a request of OpenAI's that is wrong
  std::shared_ptr<TextCall> text;
  std::shared_ptr<ReplyStream> parts;
  HttpReply reply;
  std::vector<Piece> uncompressed; ///< the pool lets go of nothing that the loop has given it
  Status problem;                  ///< of the work that was done last
};

} // namespace tenon::server
