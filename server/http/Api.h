// The operations of the server as requests and replies of HTTP, free of sockets: what is read, what is answered with which headers.

#pragma once

#include "server/protocol/Compression.h"
#include "server/protocol/Routes.h"
#include "server/scheduler/Models.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

struct HttpReply {
  unsigned status = 200;
  std::string_view contentType = "application/json";
  std::string extraHeaders; ///< lines that end in CRLF
  std::string body;
  /// Follow the body: outputs in a slab, which `result` keeps.
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

/// What of a request's header an operation looks at.
struct HttpRequest {
  RouteMatch match;
  std::string body; ///< decompressed
  std::optional<uint64_t> jsonBytes;
  uint64_t mostLists = 0; ///< bytes that number lists of the body may take in memory
};

class Api {
public:
  Api(Models &models, std::string version) : models(models), version(std::move(version)) {}

  /// Calls `onReply` once, now or later, unless the job that it returns (null where there is none) is cancelled before. `request`
  /// stays until then.
  std::shared_ptr<Job> perform(const HttpRequest &request, std::function<void(HttpReply)> onReply);

private:
  HttpReply performNow(const HttpRequest &request);
  std::shared_ptr<Job> infer(const HttpRequest &request, std::function<void(HttpReply)> onReply);

  Models &models;
  std::string version;
};

} // namespace tenon::server
