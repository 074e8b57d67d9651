// The one table of what the server answers: path, method, transport, role and operation. Matching a
// request, the answers 404 and UNIMPLEMENTED, the rights of tokens and the test of all paths are
// made from it.

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
  ModelRollback,
  ModelDrift,
  ModelLabels,
  TraceSetting,
  Logging,
  SharedMemory,
  Metrics,
  ModelStreamInfer,
  HealthCheck,
  HealthWatch,
  Reflection,
  Page,
  ServerStatus,
  RegistryHistory,
  RegistryPromote,
  RegistryRollback,
};

struct Route {
  Method method;
  /// Segments between slashes; {model}, {version} and {region} match one segment each. In gRPC,
  /// service and method.
  std::string_view path;
  Role role;
  Operation operation;
  Transport transport = Transport::Http;
};

/// All routes, in the order in which they are tried.
std::span<const Route> allRoutes();

/// A route with what stands at its placeholders, percent-decoded.
struct RouteMatch {
  const Route *route = nullptr;
  std::string model;
  std::string version; ///< empty where the path names none
};

/// Finds the route of a request's target; a query is ignored. TN0809 when no path matches, or when
/// one does with another method; TN0806 for a target that is not valid: encoded slashes and control
/// characters, dots alone.
Result<RouteMatch> matchRoute(std::string_view method, std::string_view target);
/// The route of a gRPC call: `path` is "/SERVICE/METHOD", matched as it stands. TN0809.
Result<RouteMatch> matchGrpcRoute(std::string_view path);

std::string_view nameOf(Method method);
std::string_view nameOf(Transport transport);
std::string_view nameOf(Role role);
std::string_view nameOf(Operation operation);

} // namespace tenon::server
