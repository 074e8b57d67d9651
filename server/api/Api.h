// The operations of the server, free of transports: each is asked by a row of the table of routes,
// and answers with JSON or with outputs. HTTP sends that JSON as it is, gRPC as messages with the
// same fields.

#pragma once

#include "server/api/ErrorRing.h"
#include "server/api/ModelServer.h"
#include "server/api/RegistryAdmin.h"
#include "server/monitoring/Monitoring.h"
#include "server/protocol/Routes.h"
#include "support/WallClock.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::server {

struct ConnectionCounts {
  size_t open = 0;
  uint64_t beyondLimit = 0; ///< that came while there were as many as may be
};

class Api {
public:
  /// `admin` may be null.
  Api(ModelServer &models, ErrorRing &errors, RegistryAdmin *admin, Monitoring &monitoring,
      const ConnectionCounts &connections, std::string version)
      : models(models), errors(errors), admin(admin), monitoring(monitoring),
        connections(connections), version(std::move(version)) {}

  /// Everything but inferences. `settings` is the JSON object of operations that take one, or
  /// empty; `onAnswer` is called once, now or later, with JSON (Metrics: Prometheus' text). `by` is
  /// who asks, for the history of a registry.
  void perform(const RouteMatch &match, std::string_view settings,
               std::function<void(Result<std::string>)> onAnswer, const std::string &by = {});

  /// Makes and sends the reply, now or later. The request has what of it the reply needs.
  using OnResult = std::function<void(Result<InferResult>, std::shared_ptr<const Request>)>;
  /// Queues an inference for the model and version of `match`. `onResult` is called once, unless
  /// the request is cancelled before; never where this gives an error. What `request` refers to
  /// stays until then.
  Result<std::shared_ptr<Request>> infer(const RouteMatch &match, InferRequest request,
                                         OnResult onResult);
  void cancel(const std::shared_ptr<Request> &pending) {
    BatchScheduler::of(*pending->version).cancel(pending);
  }
  /// A result could not be turned into a reply.
  void replyFailed(const Request &request, const Status &status);
  /// The reply to a result is written: `begun` is when its making began.
  void countReply(InferResult &result, Clock::time_point begun);

  /// An error that a request of the model had elsewhere than here, for the page.
  void note(std::string_view model, const Status &status) { errors.add(model, status); }

  bool isReady() const { return models.catalog.isReady(); }

private:
  Result<std::string> answer(const RouteMatch &match, std::string_view settings);

  void askRegistry(const RouteMatch &match, std::string_view settings,
                   std::function<void(Result<std::string>)> onAnswer, const std::string &by);

  ModelServer &models;
  ErrorRing &errors;
  RegistryAdmin *admin;
  Monitoring &monitoring;
  const ConnectionCounts &connections;
  std::string version;
  int64_t started = wallClock();
};

/// The places of a result's outputs among the model's ports that the request asks for, with how it
/// wants them.
struct AskedOutput {
  size_t port;
  bool isBinary;
};
std::vector<AskedOutput> askedOutputs(const Version &version, const InferRequest &request);
/// The elements of an output, in its shared buffer.
Bytes elementsOf(const InferResult &result, size_t port);

} // namespace tenon::server
