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

namespace tenon::server {
struct PushCall;
} // namespace tenon::server

namespace tenon::tool {

/// What all of them take.
struct RegistryFlags {
  std::string folder; ///< or the URL of a shared one; empty: what the environment says
};

using RegistryTask = std::function<Status(const RegistryFlags &flags, Terminal &terminal)>;

RegistryTask declareRegistryPush(CLI::App &command);
RegistryTask declareRegistryList(CLI::App &command);
RegistryTask declareRegistrySearch(CLI::App &command);
RegistryTask declareRegistryShow(CLI::App &command);
RegistryTask declareRegistryGate(CLI::App &command);
RegistryTask declareRegistryPromote(CLI::App &command);
RegistryTask declareRegistryRollback(CLI::App &command);
RegistryTask declareRegistryHistory(CLI::App &command);
RegistryTask declareRegistryCollect(CLI::App &command);
RegistryTask declareRegistryVerify(CLI::App &command);
RegistryTask declareRegistryToken(CLI::App &command);
RegistryTask declareRegistrySign(CLI::App &command);
RegistryTask declareRegistryTag(CLI::App &command);
RegistryTask declareRegistryWatch(CLI::App &command);

/// What --registry does.
inline constexpr const char *kRegistryHelp =
    "A folder, or postgresql://USER@HOST/DATABASE?blobs=s3://BUCKET/PREFIX; by default "
    "$TENON_REGISTRY, or tenon/registry in $XDG_DATA_HOME or ~/.local/share";
/// Where the registry is: what --registry or $TENON_REGISTRY says, or the user's own, for which
/// TN1001 is told where the environment names no home.
Result<std::string> registryFolder(const RegistryFlags &flags);
Result<registry::Registry> openRegistry(const RegistryFlags &flags);
/// With `caller`, for whom it is done, as the history tells it.
Result<registry::Registry> createRegistry(const RegistryFlags &flags,
                                          const std::string &caller = "");
/// What a server does with a file that was sent to it: the command `push` in a process of its own,
/// so that no file that somebody made can harm the server. TN0902 where that ended without a word.
Result<std::string> pushFor(const server::PushCall &call, const std::string &path);
/// NAME@ALIAS and nothing else.
Result<registry::Reference> parseAliasReference(const std::string &text);

} // namespace tenon::tool
