#include "support/Environment.h"
#include "tools/tenon/registry/Subcommands.h"

#include <fmt/format.h>

#include <pwd.h>
#include <unistd.h>

namespace tenon::tool {
namespace {

registry::Options options() {
  registry::Options options;
  const passwd *user = getpwuid(geteuid());
  options.by = user ? user->pw_name : fmt::format("user {}", geteuid());
  return options;
}

} // namespace

Result<std::string> registryFolder(const RegistryFlags &flags) {
  if (!flags.folder.empty()) {
    return flags.folder;
  }
  std::string named = environment("TENON_REGISTRY"), data = environment("XDG_DATA_HOME"),
              home = environment("HOME");
  if (!named.empty()) {
    return named;
  }
  if (data.empty() && home.empty()) {
    return Status::error(ErrorId::BadRegistry, "the environment names no folder for a registry",
                         "name one with --registry DIR");
  }
  return data.empty() ? home + "/.local/share/tenon/registry" : data + "/tenon/registry";
}

Result<registry::Registry> openRegistry(const RegistryFlags &flags) {
  TENON_ASSIGN(std::string folder, registryFolder(flags));
  return registry::Registry::open(folder, options());
}

Result<registry::Registry> createRegistry(const RegistryFlags &flags, const std::string &caller) {
  TENON_ASSIGN(std::string folder, registryFolder(flags));
  registry::Options made = options();
  TENON_TRY(registry::checkRemark("--for", caller));
  made.caller = caller;
  return registry::Registry::create(folder, std::move(made));
}

Result<registry::Reference> parseAliasReference(const std::string &text) {
  TENON_ASSIGN(registry::Reference reference, registry::parseReference(text));
  if (reference.alias.empty()) {
    return Status::error(ErrorId::BadObjectName, fmt::format("'{}' does not name an alias", text),
                         "write NAME@ALIAS");
  }
  return reference;
}

} // namespace tenon::tool
