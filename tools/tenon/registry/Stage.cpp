// Hard links where they can be made: a file stays as it was checked, whatever gc does meanwhile,
// and takes no room. Else copies, which are checked.

#include "tools/tenon/registry/Stage.h"

#include "registry/BlobFolder.h"
#include "support/files/FileError.h"
#include "tools/tenon/registry/Subcommands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <unistd.h>

namespace tenon::tool {
namespace {

constexpr std::string_view kReferencePrefix = "registry:";
constexpr std::string_view kCompiled = "compiled:";

/// Where "registry:" begins in an argument; npos where it names no version.
size_t schemeIn(const std::string &argument) {
  size_t begin = argument.starts_with("--") ? argument.find('=') + 1 : 0; // 0 where there is none
  begin += std::string_view(argument).substr(begin).starts_with(kCompiled) ? kCompiled.size() : 0;
  return std::string_view(argument).substr(begin).starts_with(kReferencePrefix) ? begin
                                                                                : argument.npos;
}

bool isOutput(const std::string &flag) { return flag == "-o" || flag == "--output"; }

RegistryFlags flagsIn(const std::vector<std::string> &arguments) {
  constexpr std::string_view kFlag = "--registry";
  RegistryFlags flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == kFlag && i + 1 < arguments.size()) {
      flags.folder = arguments[i + 1];
    } else if (arguments[i].starts_with(std::string(kFlag) + "=")) {
      flags.folder = arguments[i].substr(kFlag.size() + 1);
    }
  }
  return flags;
}

} // namespace

Result<std::string> stage(registry::Registry &registry, const registry::Version &version,
                          const ScratchFolder &folder) {
  if (version.isDeleted) {
    return Status::error(ErrorId::NoSuchObject, fmt::format("gc deleted {}", version.text()),
                         "push its file again; it gets a new number");
  }
  if (version.isFolder()) {
    std::string whole = fmt::format("{}/{}-{}", folder.path(), version.name, version.number);
    std::error_code ignored;
    if (!std::filesystem::exists(whole, ignored)) { // else it is named twice
      // Weights beside a model are read from files with one name only.
      TENON_TRY(registry.writeFolder(version, whole, version.kind == "model"));
    }
    return version.mainPath().empty() ? whole : whole + "/" + version.mainPath();
  }
  TENON_TRY(registry.check(version));
  std::string name = version.name;
  std::ranges::replace(name, '/', '+'); // which no name has
  std::string path = fmt::format("{}/{}-{}{}", folder.path(), name, version.number,
                                 std::filesystem::path(version.file).extension().string());
  int code = ::link(registry.pathOf(version).c_str(), path.c_str()) == 0 ? 0 : errno;
  if (code == 0 || code == EEXIST) { // named twice
    return path;
  }
  // Somebody else's registry, or one on another file system than the folder.
  std::error_code error;
  std::filesystem::copy_file(registry.pathOf(version), path, error);
  if (error) {
    return writeError(error.value(), "copy to", path);
  }
  TENON_ASSIGN(std::string difference, registry::differenceOf(path, version.blob));
  return difference.empty() ? Result<std::string>(path)
                            : Status::error(ErrorId::BlobMismatch,
                                            fmt::format("the copy of {} is damaged: {}",
                                                        version.text(), difference),
                                            "try again");
}

Result<ScratchFolder> scratchOf(const registry::Registry &registry, const std::string &name) {
  Result<ScratchFolder> near = ScratchFolder::create(registry.filesFolder(), name);
  return near.isOk() ? std::move(near) : ScratchFolder::create(name);
}

Status StagedVersions::replaceAt(size_t begin, std::string &argument,
                                 std::optional<registry::Registry> &registry,
                                 const RegistryFlags &where) {
  TENON_ASSIGN(
      registry::Reference reference,
      registry::parseReference(std::string_view(argument).substr(begin + kReferencePrefix.size())));
  if (!registry) {
    TENON_ASSIGN(registry, openRegistry(where));
  }
  if (!folder) {
    TENON_ASSIGN(folder, scratchOf(*registry, "use"));
  }
  TENON_ASSIGN(registry::FilesLock lock, registry->keepFiles());
  TENON_ASSIGN(registry::Version version, registry->find(reference));
  TENON_ASSIGN(std::string path, stage(*registry, version, *folder));
  argument.replace(begin, argument.size() - begin, path);
  return Status::ok();
}

Result<std::string> StagedVersions::pathOf(std::string path) {
  size_t begin = schemeIn(path);
  std::optional<registry::Registry> registry;
  if (begin != std::string::npos) {
    TENON_TRY(replaceAt(begin, path, registry, {}));
  }
  return path;
}

Status StagedVersions::replace(std::vector<std::string> &arguments) {
  bool writes = std::ranges::any_of(arguments, isOutput) ||
                std::ranges::any_of(arguments, [](const std::string &each) {
                  return each.starts_with("--output=") || each.starts_with("-o=");
                });
  std::optional<registry::Registry> registry;
  for (size_t i = 1; i < arguments.size(); ++i) {
    size_t begin = isOutput(arguments[i - 1]) ? std::string::npos : schemeIn(arguments[i]);
    if (begin == std::string::npos) {
      continue;
    }
    if (arguments.front() == "compile" && !writes) {
      return Status::error(ErrorId::BadArgument,
                           "the engine of a version has no default output path",
                           "say where to write it: -o model.tenon");
    }
    TENON_TRY(replaceAt(begin, arguments[i], registry, flagsIn(arguments)));
  }
  return Status::ok();
}

} // namespace tenon::tool
