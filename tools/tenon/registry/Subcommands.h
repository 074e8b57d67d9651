// The parts of `tenon registry`, as verbs are parts of the tool: each declares its flags and gives
// what it does.

#pragma once

#include "registry/Registry.h"
#include "tools/tenon/cli/Terminal.h"

#include <functional>
#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace tenon::tool {

/// What all of them take.
struct RegistryFlags {
  std::string folder; ///< or the URL of a shared one; empty: what the environment says
};

using RegistryTask = std::function<Status(const RegistryFlags &flags, Terminal &terminal)>;

RegistryTask declareRegistryPush(CLI::App &command);
RegistryTask declareRegistryList(CLI::App &command);
RegistryTask declareRegistryShow(CLI::App &command);
RegistryTask declareRegistryGate(CLI::App &command);
RegistryTask declareRegistryPromote(CLI::App &command);
RegistryTask declareRegistryRollback(CLI::App &command);
RegistryTask declareRegistryHistory(CLI::App &command);
RegistryTask declareRegistryCollect(CLI::App &command);
RegistryTask declareRegistryVerify(CLI::App &command);
RegistryTask declareRegistryToken(CLI::App &command);
RegistryTask declareRegistrySign(CLI::App &command);
RegistryTask declareRegistryWatch(CLI::App &command);

/// What --registry does.
inline constexpr const char *kRegistryHelp =
    "A folder, or postgresql://USER@HOST/DATABASE?blobs=s3://BUCKET/PREFIX; by default "
    "$TENON_REGISTRY, or tenon/registry in $XDG_DATA_HOME or ~/.local/share";
/// Where the registry is: what --registry or $TENON_REGISTRY says, or the user's own, for which
/// TN1001 is told where the environment names no home.
Result<std::string> registryFolder(const RegistryFlags &flags);
Result<registry::Registry> openRegistry(const RegistryFlags &flags);
Result<registry::Registry> createRegistry(const RegistryFlags &flags);
/// NAME@ALIAS and nothing else.
Result<registry::Reference> parseAliasReference(const std::string &text);

} // namespace tenon::tool
