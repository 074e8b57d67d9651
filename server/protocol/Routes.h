// The one table of what the server answers: path, method, transport, role and operation. Matching a request, the answers 404,
// the rights of tokens and the test of all paths are made from it.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenon::server {

enum class Method : uint8_t { Get, Post };
/// Who may call a route: anybody (health only), or tokens that have the role.
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
  TraceSetting,
  Logging,
  SharedMemory,
  Metrics,
};

struct Route {
  Method method;
  /// Segments between slashes; {model} and {version} match one segment each.
  std::string_view path;
  Role role;
  Operation operation;
};

/// All routes of HTTP, in the order in which they are tried.
std::span<const Route> httpRoutes();

/// A route with what stands at its placeholders, percent-decoded.
struct RouteMatch {
  const Route *route = nullptr;
  std::string model;
  std::string version; ///< empty where the path names none
};

/// Finds the route of a request's target; a query is ignored. TN0809 when no path matches, or when one does with another method;
/// TN0806 for a target that is not valid: encoded slashes and control characters, dots alone.
Result<RouteMatch> matchRoute(std::string_view method, std::string_view target);

std::string_view nameOf(Method method);
std::string_view nameOf(Role role);
std::string_view nameOf(Operation operation);

} // namespace tenon::server
