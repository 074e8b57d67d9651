// Versions of a registry as files that a verb can read.

#pragma once

#include "registry/Registry.h"
#include "support/files/ScratchFolder.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

struct RegistryFlags;

/// A folder for `stage`: on the registry's file system where this user may make one.
Result<ScratchFolder> scratchOf(const registry::Registry &registry, const std::string &name);

/// The version's file in the folder, under a name that says what it is, its hash checked.
Result<std::string> stage(registry::Registry &registry, const registry::Version &version,
                          const ScratchFolder &folder);

/// Files of versions that a command line names, for as long as it is worked on.
class StagedVersions {
public:
  /// Puts the path of the version's file where an argument is registry:REF, also behind "compiled:"
  /// and in --FLAG=registry:REF. The registry is the one of --registry among the arguments. TN1001,
  /// TN1003 to TN1005; TN0105 where `compile` is not told where to write to.
  Status replace(std::vector<std::string> &arguments);
  /// The same of a path, for callers without a command line; the registry is the user's own.
  Result<std::string> pathOf(std::string path);

private:
  /// `begin`: where registry:REF begins. A registry that is not open yet is that of `where`.
  Status replaceAt(size_t begin, std::string &argument, std::optional<registry::Registry> &registry,
                   const RegistryFlags &where);

  std::optional<ScratchFolder> folder;
};

} // namespace tenon::tool
