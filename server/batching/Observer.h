// What is reported of requests as they end, by the thread of the models. An observer never waits:
// it is between a request and its reply.

#pragma once

#include <cstdint>

namespace tenon::server {

class Request;
struct InferResult;

class RequestObserver {
public:
  virtual ~RequestObserver() = default;
  /// The model has run: the request's inputs and its outputs are there, the reply is not made yet.
  virtual void answered(const Request &request, const InferResult &result) = 0;
  /// The reply is made.
  virtual void replied(const InferResult &result, uint64_t copyOutNanoseconds) = 0;
  virtual void failed(const Request &request) = 0;
};

} // namespace tenon::server
