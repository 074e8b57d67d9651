// A request and its reply in the words of HTTP, whichever version carries them, free of sockets:
// what is checked before a body is read, what is read of it, what is answered with which headers.

#pragma once

#include "server/api/Api.h"
#include "server/protocol/Compression.h"
#include "server/protocol/Site.h"
#include "server/protocol/Tokens.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// What of a request an operation looks at.
struct HttpRequest {
  RouteMatch match;
  std::string body; ///< decompressed
  std::string by;   ///< who asks, for the history of a registry; of routes for Role::Admin
  std::optional<uint64_t> jsonBytes;
  TraceContext trace;
  uint64_t maxLists = 0; ///< bytes that number lists of the body may take in memory
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
  std::string body;
  /// Follow the body: outputs in a shared buffer, which `result` keeps.
  std::vector<Bytes> tensors;
  std::optional<InferResult> result;
  Clock::time_point begun; ///< when the reply's making began, for the stage copy_out
  bool closes = false;     ///< the connection ends with it

  uint64_t bytes() const;
  /// Replaces body and tensors by their compressed form where that is asked for and pays.
  void compress(Encoding encoding);
};

/// `closes`: the body of the request was not read, so no other can follow on the connection.
HttpReply errorReply(const Status &status, bool closes = false);

/// Calls `onReply` once, now or later, unless the request that it returns (null where there is
/// none) is cancelled before. `request` stays until then.
std::shared_ptr<Request> performHttp(Api &api, const HttpRequest &request,
                                     std::function<void(HttpReply)> onReply);

} // namespace tenon::server
