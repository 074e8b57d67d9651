// What programs ask of a registry over HTTP: parameters of a target and bodies in, JSON out. It
// relies on Registry for every check of names, roles and gates.

#pragma once

#include "registry/Registry.h"
#include "server/protocol/Routes.h"
#include "support/Result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// A version's file, whose hash was found to be right.
struct RegistryFile {
  registry::Version version;
  std::string path;
};

/// TN0815.
Status unknownToken();

/// A push that somebody is allowed to make.
struct PushCall {
  std::string registry; ///< where it is
  std::string name, file, kind, note, parent, data;
  std::vector<std::string> meta; ///< KEY=VALUE
  std::string hash;              ///< that the file must have; empty: any
  std::string token, caller;     ///< as registry::Options have them; no token: the server's own
};
/// Looks at a file and stores it as `tenon registry push` does, and gives what that prints as JSON.
using PushFile = std::function<Result<std::string>(const PushCall &call, const std::string &path)>;

/// Of operations that take no file and give none. TN0806 for parameters and bodies that are none.
Result<std::string> answerRegistry(registry::Registry &registry, const Question &asked,
                                   std::string_view body);
Result<RegistryFile> openRegistryFile(registry::Registry &registry, const Question &asked);
Result<PushCall> parsePush(const Question &asked);
/// TN1005 where the file has another hash than the call says.
Status checkPushed(const PushCall &call, const std::string &path);

} // namespace tenon::server
