// The one table of the paths of the server: method, transport and operation. Matching a request,
// the answers 404 and UNIMPLEMENTED and the test of all paths are made from it; what an operation
// is called, who may ask for it and who answers stands in server/api/Operations.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenon::server {

enum class Method : uint8_t { Get, Post };
enum class Transport : uint8_t { Http, Grpc };
/// Who may call a route: anybody (health, and the page, which holds no data), or tokens that have
/// the role.
enum class Role : uint8_t { Open, Infer, Read, Admin };

enum class Operation : uint8_t {
  ServerLive,
  ServerReady,
  ServerMetadata,
  ModelReady,
  ModelMetadata,
  ModelConfig,
  ModelStatistics,
  ModelInfer,
  RepositoryIndex,
  RepositoryLoad,
  RepositoryUnload,
  ModelTraffic,
  SetModelTraffic,
  ModelRollback,
  ModelDrift,
  ModelLabels,
  TraceSetting,
  SetTraceSetting,
  Logging,
  SetLogging,
  SharedMemory,
  SetSharedMemory,
  Metrics,
  ModelStreamInfer,
  HealthCheck,
  HealthWatch,
  Reflection,
  TextModels,
  TextModel,
  ChatCompletions,
  Completions,
  Page,
  ServerStatus,
  RegistryHistory,
  RegistryLineage,
  RegistryPromote,
  RegistryRollback,
  RegistryObjects,
  RegistrySearch,
  RegistryEvents,
  RegistryObject,
  RegistryVersion,
  RegistryFile,
  RegistryPush,
  RegistryAliasPromote,
  RegistryAliasRollback,
  RegistryRules,
  SetRegistryRules,
};

struct Route {
  Method method;
  /// Segments between slashes; {version}, {region} and {alias} match one segment each, {model} and
  /// {object} one or more: a name in namespaces, team/model. In gRPC, service and method.
  std::string_view path;
  Operation operation;
  Transport transport = Transport::Http;
};

/// All routes, in the order in which they are tried.
std::span<const Route> allRoutes();

/// What an operation is asked, by whichever transport.
struct Question {
  Operation operation = Operation::ServerLive;
  std::string model;
  std::string version;       ///< empty where none is named
  bool onlyReady = false;    ///< RepositoryIndex: of versions that are
  bool hasSettings = false;  ///< settings are given, of which none can be
  std::string by;            ///< who asks, for the history of a registry
  std::string object, alias; ///< of the registry
  std::string query;         ///< of the target, as it came
  std::string token;         ///< that the registry is asked with
  bool isUnknown = false;    ///< the server does not know the token: the registry must
  bool isTrusted = false;    ///< the server's own tokens allow it
};

/// A route with what stands at its placeholders, percent-decoded.
struct RouteMatch : Question {
  const Route *route = nullptr;
};

/// Finds the route of a request's target, whatever its query. Of several the one with the shortest
/// name of a model: v2/models/a/ready asks whether 'a' is ready. A model whose own name ends so is
/// named by a segment with encoded slashes, v2/models/a%2Fready. TN0809 when no path matches, or
/// when one does with another method; TN0806 for a target that is not valid: control
/// characters, parts of dots alone.
Result<RouteMatch> matchRoute(std::string_view method, std::string_view target);
/// The route of a gRPC call: `path` is "/SERVICE/METHOD", matched as it stands. TN0809.
Result<RouteMatch> matchGrpcRoute(std::string_view path);

std::string_view nameOf(Method method);
std::string_view nameOf(Transport transport);
std::string_view nameOf(Role role);

} // namespace tenon::server
