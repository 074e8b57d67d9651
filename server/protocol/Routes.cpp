// Matches targets segment by segment, decoded after they are split, so that an encoded slash never
// makes two segments of one.

#include "server/protocol/Routes.h"

#include <fmt/format.h>

#include <vector>

namespace tenon::server {
namespace {

using enum Method;
using enum Transport;

// Health tells no more than that the server runs, which probes ask without a token; the page asks
// for one before it asks for data.
constexpr Route kRoutes[] = {
    {Get, "v2/health/live", Role::Open, Operation::ServerLive},
    {Get, "v2/health/ready", Role::Open, Operation::ServerReady},
    {Get, "v2", Role::Read, Operation::ServerMetadata},
    {Get, "v2/models/stats", Role::Read, Operation::ModelStatistics},
    {Get, "v2/models/{model}", Role::Read, Operation::ModelMetadata},
    {Get, "v2/models/{model}/versions/{version}", Role::Read, Operation::ModelMetadata},
    {Get, "v2/models/{model}/ready", Role::Read, Operation::ModelReady},
    {Get, "v2/models/{model}/versions/{version}/ready", Role::Read, Operation::ModelReady},
    {Get, "v2/models/{model}/config", Role::Read, Operation::ModelConfig},
    {Get, "v2/models/{model}/versions/{version}/config", Role::Read, Operation::ModelConfig},
    {Get, "v2/models/{model}/stats", Role::Read, Operation::ModelStatistics},
    {Get, "v2/models/{model}/versions/{version}/stats", Role::Read, Operation::ModelStatistics},
    {Get, "v2/models/{model}/drift", Role::Read, Operation::ModelDrift},
    {Get, "v2/models/{model}/versions/{version}/drift", Role::Read, Operation::ModelDrift},
    {Post, "v2/models/{model}/labels", Role::Infer, Operation::ModelLabels},
    {Post, "v2/models/{model}/infer", Role::Infer, Operation::ModelInfer},
    {Post, "v2/models/{model}/versions/{version}/infer", Role::Infer, Operation::ModelInfer},
    {Post, "v2/repository/index", Role::Read, Operation::RepositoryIndex},
    {Post, "v2/repository/models/{model}/load", Role::Admin, Operation::RepositoryLoad},
    {Post, "v2/repository/models/{model}/unload", Role::Admin, Operation::RepositoryUnload},
    {Get, "v2/repository/models/{model}/traffic", Role::Read, Operation::ModelTraffic},
    {Post, "v2/repository/models/{model}/traffic", Role::Admin, Operation::ModelTraffic},
    {Post, "v2/repository/models/{model}/rollback", Role::Admin, Operation::ModelRollback},
    {Get, "v2/trace/setting", Role::Read, Operation::TraceSetting},
    {Post, "v2/trace/setting", Role::Admin, Operation::TraceSetting},
    {Get, "v2/models/{model}/trace/setting", Role::Read, Operation::TraceSetting},
    {Post, "v2/models/{model}/trace/setting", Role::Admin, Operation::TraceSetting},
    {Get, "v2/logging", Role::Read, Operation::Logging},
    {Post, "v2/logging", Role::Admin, Operation::Logging},
    {Get, "v2/systemsharedmemory/status", Role::Read, Operation::SharedMemory},
    {Get, "v2/systemsharedmemory/region/{region}/status", Role::Read, Operation::SharedMemory},
    {Post, "v2/systemsharedmemory/region/{region}/register", Role::Admin, Operation::SharedMemory},
    {Post, "v2/systemsharedmemory/region/{region}/unregister", Role::Admin,
     Operation::SharedMemory},
    {Post, "v2/systemsharedmemory/unregister", Role::Admin, Operation::SharedMemory},
    {Get, "v2/cudasharedmemory/status", Role::Read, Operation::SharedMemory},
    {Get, "v2/cudasharedmemory/region/{region}/status", Role::Read, Operation::SharedMemory},
    {Post, "v2/cudasharedmemory/region/{region}/register", Role::Admin, Operation::SharedMemory},
    {Post, "v2/cudasharedmemory/region/{region}/unregister", Role::Admin, Operation::SharedMemory},
    {Post, "v2/cudasharedmemory/unregister", Role::Admin, Operation::SharedMemory},
    {Get, "metrics", Role::Read, Operation::Metrics},
    {Get, "", Role::Open, Operation::Page},
    {Get, "page.css", Role::Open, Operation::Page},
    {Get, "page.js", Role::Open, Operation::Page},
    {Get, "icon.svg", Role::Open, Operation::Page},
    {Get, "v2/tenon/status", Role::Read, Operation::ServerStatus},
    {Get, "v2/tenon/models/{model}/history", Role::Read, Operation::RegistryHistory},
    {Post, "v2/tenon/models/{model}/promote", Role::Admin, Operation::RegistryPromote},
    {Post, "v2/tenon/models/{model}/rollback", Role::Admin, Operation::RegistryRollback},
    // TraceSetting and LogSettings read and set by one call; since nothing can be set, they take
    // the role of reading.
    {Post, "inference.GRPCInferenceService/ServerLive", Role::Open, Operation::ServerLive, Grpc},
    {Post, "inference.GRPCInferenceService/ServerReady", Role::Open, Operation::ServerReady, Grpc},
    {Post, "inference.GRPCInferenceService/ServerMetadata", Role::Read, Operation::ServerMetadata,
     Grpc},
    {Post, "inference.GRPCInferenceService/ModelReady", Role::Read, Operation::ModelReady, Grpc},
    {Post, "inference.GRPCInferenceService/ModelMetadata", Role::Read, Operation::ModelMetadata,
     Grpc},
    {Post, "inference.GRPCInferenceService/ModelConfig", Role::Read, Operation::ModelConfig, Grpc},
    {Post, "inference.GRPCInferenceService/ModelStatistics", Role::Read, Operation::ModelStatistics,
     Grpc},
    {Post, "inference.GRPCInferenceService/ModelInfer", Role::Infer, Operation::ModelInfer, Grpc},
    {Post, "inference.GRPCInferenceService/ModelStreamInfer", Role::Infer,
     Operation::ModelStreamInfer, Grpc},
    {Post, "inference.GRPCInferenceService/RepositoryIndex", Role::Read, Operation::RepositoryIndex,
     Grpc},
    {Post, "inference.GRPCInferenceService/RepositoryModelLoad", Role::Admin,
     Operation::RepositoryLoad, Grpc},
    {Post, "inference.GRPCInferenceService/RepositoryModelUnload", Role::Admin,
     Operation::RepositoryUnload, Grpc},
    {Post, "inference.GRPCInferenceService/TraceSetting", Role::Read, Operation::TraceSetting,
     Grpc},
    {Post, "inference.GRPCInferenceService/LogSettings", Role::Read, Operation::Logging, Grpc},
    {Post, "inference.GRPCInferenceService/SystemSharedMemoryStatus", Role::Read,
     Operation::SharedMemory, Grpc},
    {Post, "inference.GRPCInferenceService/SystemSharedMemoryRegister", Role::Admin,
     Operation::SharedMemory, Grpc},
    {Post, "inference.GRPCInferenceService/SystemSharedMemoryUnregister", Role::Admin,
     Operation::SharedMemory, Grpc},
    {Post, "inference.GRPCInferenceService/CudaSharedMemoryStatus", Role::Read,
     Operation::SharedMemory, Grpc},
    {Post, "inference.GRPCInferenceService/CudaSharedMemoryRegister", Role::Admin,
     Operation::SharedMemory, Grpc},
    {Post, "inference.GRPCInferenceService/CudaSharedMemoryUnregister", Role::Admin,
     Operation::SharedMemory, Grpc},
    {Post, "grpc.health.v1.Health/Check", Role::Open, Operation::HealthCheck, Grpc},
    {Post, "grpc.health.v1.Health/Watch", Role::Open, Operation::HealthWatch, Grpc},
    {Post, "grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Role::Read,
     Operation::Reflection, Grpc},
    {Post, "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Role::Read,
     Operation::Reflection, Grpc},
};

/// Longer segments name nothing here; a name of a model has at most 255 bytes.
constexpr size_t kMaxSegment = 3 * 255;

int hexDigit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

Status badTarget(std::string_view why) {
  return Status::error(ErrorId::BadRequest,
                       fmt::format("the path of the request is not valid: {}", why),
                       "names of models have letters, digits, '.', '_' and '-'");
}

Result<std::string> decodeSegment(std::string_view segment) {
  if (segment.size() > kMaxSegment) {
    return badTarget("a part of it is longer than any name");
  }
  std::string text;
  for (size_t i = 0; i < segment.size(); ++i) {
    char c = segment[i];
    if (c == '%') {
      int high = i + 2 < segment.size() ? hexDigit(segment[i + 1]) : -1;
      int low = i + 2 < segment.size() ? hexDigit(segment[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return badTarget("'%' without two hexadecimal digits");
      }
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '/' || c == '\\') {
      return badTarget("a control character or an encoded slash");
    }
    text += c;
  }
  if (text == "." || text == "..") {
    return badTarget("a part of it is '.' or '..'");
  }
  return text;
}

Result<std::vector<std::string>> splitTarget(std::string_view target) {
  if (!target.starts_with('/')) {
    return badTarget("it does not begin with '/'");
  }
  target = target.substr(1, target.find_first_of("?#") - 1);
  if (target.ends_with('/')) {
    target.remove_suffix(1);
  }
  std::vector<std::string> segments;
  constexpr size_t kMaxSegments = 16;
  while (segments.size() < kMaxSegments) {
    size_t slash = target.find('/');
    TENON_ASSIGN(std::string segment, decodeSegment(target.substr(0, slash)));
    segments.push_back(std::move(segment));
    if (slash == std::string_view::npos) {
      return segments;
    }
    target.remove_prefix(slash + 1);
  }
  return segments; // more than any route has
}

bool matches(const Route &route, std::span<const std::string> segments, RouteMatch &match) {
  match = {&route, "", ""};
  std::string_view path = route.path;
  for (size_t i = 0; i < segments.size(); ++i) {
    size_t slash = path.find('/');
    std::string_view part = path.substr(0, slash);
    if (part == "{model}" && !segments[i].empty()) {
      match.model = segments[i];
    } else if (part == "{version}" && !segments[i].empty()) {
      match.version = segments[i];
    } else if (part == "{region}" ? segments[i].empty() : part != segments[i]) {
      return false;
    }
    bool isLast = slash == std::string_view::npos;
    if (isLast) {
      return i + 1 == segments.size();
    }
    path.remove_prefix(slash + 1);
  }
  return false;
}

} // namespace

std::span<const Route> allRoutes() { return kRoutes; }

Result<RouteMatch> matchRoute(std::string_view method, std::string_view target) {
  bool otherMethod = false;
  TENON_ASSIGN(std::vector<std::string> segments, splitTarget(target));
  RouteMatch match;
  for (const Route &route : kRoutes) {
    if (route.transport != Http || !matches(route, segments, match)) {
      continue;
    }
    // HEAD is answered as GET, and its reply written without the body.
    if (nameOf(route.method) == (method == "HEAD" ? "GET" : method)) {
      return match;
    }
    otherMethod = true;
  }
  if (otherMethod) {
    return Status::error(ErrorId::NoSuchRoute,
                         fmt::format("the path takes another method than {}", method.substr(0, 32)),
                         "`tenon serve --routes` lists paths and methods");
  }
  return Status::error(ErrorId::NoSuchRoute, "the server has no such path",
                       "`tenon serve --routes` lists paths and methods");
}

Result<RouteMatch> matchGrpcRoute(std::string_view path) {
  for (const Route &route : kRoutes) {
    if (route.transport == Grpc && path.starts_with('/') && path.substr(1) == route.path) {
      RouteMatch match;
      match.route = &route;
      return match;
    }
  }
  return Status::error(ErrorId::NoSuchRoute, "the server has no such method",
                       "`tenon serve --routes` lists services and methods");
}

std::string_view nameOf(Transport transport) { return transport == Http ? "http" : "grpc"; }

std::string_view nameOf(Method method) { return method == Get ? "GET" : "POST"; }

std::string_view nameOf(Role role) {
  constexpr std::string_view kNames[] = {"open", "infer", "read", "admin"};
  return kNames[static_cast<size_t>(role)];
}

std::string_view nameOf(Operation operation) {
  constexpr std::string_view kNames[] = {
      "ServerLive",      "ServerReady",     "ServerMetadata",   "ModelReady",
      "ModelMetadata",   "ModelConfig",     "ModelStatistics",  "ModelInfer",
      "RepositoryIndex", "RepositoryLoad",  "RepositoryUnload", "ModelTraffic",
      "ModelRollback",   "ModelDrift",      "ModelLabels",      "TraceSetting",
      "Logging",         "SharedMemory",    "Metrics",          "ModelStreamInfer",
      "HealthCheck",     "HealthWatch",     "Reflection",       "Page",
      "ServerStatus",    "RegistryHistory", "RegistryPromote",  "RegistryRollback"};
  return kNames[static_cast<size_t>(operation)];
}

} // namespace tenon::server
