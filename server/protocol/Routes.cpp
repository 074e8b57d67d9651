// Matches targets segment by segment, decoded after they are split, so that an encoded slash never
// makes two segments of one: it stands in the name of a model, or in a name that nothing has.

#include "server/protocol/Routes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace tenon::server {
namespace {

using enum Method;
using enum Transport;

// Health tells no more than that the server runs, which probes ask without a token; the page asks
// for one before it asks for data.
constexpr Route kRoutes[] = {
    {Get, "v2/health/live", Operation::ServerLive},
    {Get, "v2/health/ready", Operation::ServerReady},
    {Get, "v2", Operation::ServerMetadata},
    {Get, "v2/models/stats", Operation::ModelStatistics},
    {Get, "v2/models/{model}", Operation::ModelMetadata},
    {Get, "v2/models/{model}/versions/{version}", Operation::ModelMetadata},
    {Get, "v2/models/{model}/ready", Operation::ModelReady},
    {Get, "v2/models/{model}/versions/{version}/ready", Operation::ModelReady},
    {Get, "v2/models/{model}/config", Operation::ModelConfig},
    {Get, "v2/models/{model}/versions/{version}/config", Operation::ModelConfig},
    {Get, "v2/models/{model}/stats", Operation::ModelStatistics},
    {Get, "v2/models/{model}/versions/{version}/stats", Operation::ModelStatistics},
    {Get, "v2/models/{model}/drift", Operation::ModelDrift},
    {Get, "v2/models/{model}/versions/{version}/drift", Operation::ModelDrift},
    {Post, "v2/models/{model}/labels", Operation::ModelLabels},
    {Post, "v2/models/{model}/infer", Operation::ModelInfer},
    {Post, "v2/models/{model}/versions/{version}/infer", Operation::ModelInfer},
    {Post, "v2/repository/index", Operation::RepositoryIndex},
    {Post, "v2/repository/models/{model}/load", Operation::RepositoryLoad},
    {Post, "v2/repository/models/{model}/unload", Operation::RepositoryUnload},
    {Get, "v2/repository/models/{model}/traffic", Operation::ModelTraffic},
    {Post, "v2/repository/models/{model}/traffic", Operation::SetModelTraffic},
    {Post, "v2/repository/models/{model}/rollback", Operation::ModelRollback},
    {Get, "v2/trace/setting", Operation::TraceSetting},
    {Post, "v2/trace/setting", Operation::SetTraceSetting},
    {Get, "v2/models/{model}/trace/setting", Operation::TraceSetting},
    {Post, "v2/models/{model}/trace/setting", Operation::SetTraceSetting},
    {Get, "v2/logging", Operation::Logging},
    {Post, "v2/logging", Operation::SetLogging},
    {Get, "v2/systemsharedmemory/status", Operation::SharedMemory},
    {Get, "v2/systemsharedmemory/region/{region}/status", Operation::SharedMemory},
    {Post, "v2/systemsharedmemory/region/{region}/register", Operation::SetSharedMemory},
    {Post, "v2/systemsharedmemory/region/{region}/unregister", Operation::SetSharedMemory},
    {Post, "v2/systemsharedmemory/unregister", Operation::SetSharedMemory},
    {Get, "v2/cudasharedmemory/status", Operation::SharedMemory},
    {Get, "v2/cudasharedmemory/region/{region}/status", Operation::SharedMemory},
    {Post, "v2/cudasharedmemory/region/{region}/register", Operation::SetSharedMemory},
    {Post, "v2/cudasharedmemory/region/{region}/unregister", Operation::SetSharedMemory},
    {Post, "v2/cudasharedmemory/unregister", Operation::SetSharedMemory},
    {Get, "v1/models", Operation::TextModels},
    {Get, "v1/models/{model}", Operation::TextModel},
    {Post, "v1/chat/completions", Operation::ChatCompletions},
    {Post, "v1/completions", Operation::Completions},
    {Get, "metrics", Operation::Metrics},
    {Get, "", Operation::Page},
    {Get, "page.css", Operation::Page},
    {Get, "page.js", Operation::Page},
    {Get, "icon.svg", Operation::Page},
    {Get, "v2/tenon/status", Operation::ServerStatus},
    {Get, "v2/tenon/models/{model}/history", Operation::RegistryHistory},
    {Get, "v2/tenon/models/{model}/lineage", Operation::RegistryLineage},
    {Post, "v2/tenon/models/{model}/promote", Operation::RegistryPromote},
    {Post, "v2/tenon/models/{model}/rollback", Operation::RegistryRollback},
    {Get, "v2/registry/objects", Operation::RegistryObjects},
    {Get, "v2/registry/search", Operation::RegistrySearch},
    {Get, "v2/registry/history", Operation::RegistryEvents},
    {Get, "v2/registry/objects/{object}", Operation::RegistryObject},
    {Get, "v2/registry/objects/{object}/history", Operation::RegistryEvents},
    {Post, "v2/registry/objects/{object}/versions", Operation::RegistryPush},
    {Get, "v2/registry/objects/{object}/versions/{version}", Operation::RegistryVersion},
    {Get, "v2/registry/objects/{object}/versions/{version}/file", Operation::RegistryFile},
    {Get, "v2/registry/objects/{object}/aliases/{alias}", Operation::RegistryVersion},
    {Get, "v2/registry/objects/{object}/aliases/{alias}/file", Operation::RegistryFile},
    {Post, "v2/registry/objects/{object}/aliases/{alias}", Operation::RegistryAliasPromote},
    {Post, "v2/registry/objects/{object}/aliases/{alias}/rollback",
     Operation::RegistryAliasRollback},
    {Get, "v2/registry/objects/{object}/aliases/{alias}/rules", Operation::RegistryRules},
    {Post, "v2/registry/objects/{object}/aliases/{alias}/rules", Operation::SetRegistryRules},
    // TraceSetting and LogSettings read and set by one call; since nothing can be set, they take
    // the role of reading.
    {Post, "inference.GRPCInferenceService/ServerLive", Operation::ServerLive, Grpc},
    {Post, "inference.GRPCInferenceService/ServerReady", Operation::ServerReady, Grpc},
    {Post, "inference.GRPCInferenceService/ServerMetadata", Operation::ServerMetadata, Grpc},
    {Post, "inference.GRPCInferenceService/ModelReady", Operation::ModelReady, Grpc},
    {Post, "inference.GRPCInferenceService/ModelMetadata", Operation::ModelMetadata, Grpc},
    {Post, "inference.GRPCInferenceService/ModelConfig", Operation::ModelConfig, Grpc},
    {Post, "inference.GRPCInferenceService/ModelStatistics", Operation::ModelStatistics, Grpc},
    {Post, "inference.GRPCInferenceService/ModelInfer", Operation::ModelInfer, Grpc},
    {Post, "inference.GRPCInferenceService/ModelStreamInfer", Operation::ModelStreamInfer, Grpc},
    {Post, "inference.GRPCInferenceService/RepositoryIndex", Operation::RepositoryIndex, Grpc},
    {Post, "inference.GRPCInferenceService/RepositoryModelLoad", Operation::RepositoryLoad, Grpc},
    {Post, "inference.GRPCInferenceService/RepositoryModelUnload", Operation::RepositoryUnload,
     Grpc},
    {Post, "inference.GRPCInferenceService/TraceSetting", Operation::TraceSetting, Grpc},
    {Post, "inference.GRPCInferenceService/LogSettings", Operation::Logging, Grpc},
    {Post, "inference.GRPCInferenceService/SystemSharedMemoryStatus", Operation::SharedMemory,
     Grpc},
    {Post, "inference.GRPCInferenceService/SystemSharedMemoryRegister", Operation::SetSharedMemory,
     Grpc},
    {Post, "inference.GRPCInferenceService/SystemSharedMemoryUnregister",
     Operation::SetSharedMemory, Grpc},
    {Post, "inference.GRPCInferenceService/CudaSharedMemoryStatus", Operation::SharedMemory, Grpc},
    {Post, "inference.GRPCInferenceService/CudaSharedMemoryRegister", Operation::SetSharedMemory,
     Grpc},
    {Post, "inference.GRPCInferenceService/CudaSharedMemoryUnregister", Operation::SetSharedMemory,
     Grpc},
    {Post, "grpc.health.v1.Health/Check", Operation::HealthCheck, Grpc},
    {Post, "grpc.health.v1.Health/Watch", Operation::HealthWatch, Grpc},
    {Post, "grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Operation::Reflection, Grpc},
    {Post, "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Operation::Reflection,
     Grpc},
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
                       "model names consist of letters, digits, '.', '_' and '-'");
}

Result<std::string> decodeSegment(std::string_view segment) {
  if (segment.size() > kMaxSegment) {
    return badTarget("a part of it is too long for a name");
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
    if (byte < 0x20 || byte == 0x7f || c == '\\') {
      return badTarget("a control character or a backslash");
    }
    text += c;
  }
  std::string between = '/' + text + '/';
  if (between.find("/./") != text.npos || between.find("/../") != text.npos) {
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
  match = RouteMatch();
  match.route = &route;
  match.operation = route.operation;
  std::string_view path = route.path;
  size_t parts = static_cast<size_t>(std::ranges::count(path, '/')) + 1;
  size_t more = segments.size() - std::min(parts, segments.size()); // of the model's name
  for (size_t i = 0; i < segments.size(); ++i) {
    size_t slash = path.find('/');
    std::string_view part = path.substr(0, slash);
    std::string *name = part == "{model}"    ? &match.model
                        : part == "{object}" ? &match.object
                                             : nullptr;
    std::string *other = part == "{version}" ? &match.version
                         : part == "{alias}" ? &match.alias
                                             : nullptr;
    if (name && !segments[i].empty()) {
      *name = fmt::format("{}", fmt::join(segments.subspan(i, more + 1), "/"));
      i += more;
    } else if (other && !segments[i].empty()) {
      *other = segments[i];
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

size_t lengthOf(const RouteMatch &match) { return match.model.size() + match.object.size(); }

} // namespace

std::span<const Route> allRoutes() { return kRoutes; }

Result<RouteMatch> matchRoute(std::string_view method, std::string_view target) {
  TENON_ASSIGN(std::vector<std::string> segments, splitTarget(target));
  RouteMatch match, best;
  bool isFound = false; // with the method that is asked for
  for (const Route &route : kRoutes) {
    if (route.transport != Http || !matches(route, segments, match) ||
        (best.route && lengthOf(match) > lengthOf(best))) {
      continue;
    }
    // HEAD is answered as GET, and its reply written without the body.
    bool isMethod = nameOf(route.method) == (method == "HEAD" ? "GET" : method);
    bool isShorter = !best.route || lengthOf(match) < lengthOf(best);
    if (isShorter || (isMethod && !isFound)) {
      best = match;
      isFound = isMethod;
    }
  }
  if (isFound) {
    size_t query = std::min(target.find('?'), target.size());
    best.query = target.substr(query, target.find('#') - query).substr(query < target.size());
    return best;
  }
  if (best.route) {
    return Status::error(ErrorId::NoSuchRoute,
                         fmt::format("the path needs another method than {}", method.substr(0, 32)),
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
      match.operation = route.operation;
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

} // namespace tenon::server
