#include "registry/Folder.h"

#include "registry/Reference.h"
#include "registry/Sha256.h"
#include "registry/signing/Files.h"
#include "support/files/FileError.h"
#include "support/text/Printable.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>

namespace tenon::registry {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxShown = 200;
constexpr const char *kSignature = "model.sig"; // where `tenon sign` puts the one of a folder

Status unsafe(std::string_view path, std::string_view why, std::string_view hint) {
  return Status::error(ErrorId::UnsafeArtifact,
                       fmt::format("'{}' {}", withoutControls(path.substr(0, kMaxShown)), why),
                       hint);
}

std::string lowerCase(std::string text) {
  for (char &c : text) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
  }
  return text;
}

/// Whether a path stays in its folder, on any system that it is written out on.
Status checkPath(const std::string &path) {
  bool isPlain = signing::staysInside(path) && path.find_first_of("\\:") == path.npos &&
                 checkRemark("a path", path).isOk();
  return isPlain ? Status::ok()
                 : unsafe(path, "cannot be the path of a file in a version",
                          "a path is relative UTF-8 without '..', '\\' or ':'");
}

/// Paths so far, and the folders above them, as a file system without upper and lower case has
/// them.
using Names = std::map<std::string, std::string>;

Status addName(Names &names, const std::string &path) {
  for (size_t end = path.find('/'); end != path.npos; end = path.find('/', end + 1)) {
    std::string folder = path.substr(0, end + 1);
    const std::string &other = names.try_emplace(lowerCase(folder), folder).first->second;
    if (other != folder || names.contains(lowerCase(folder.substr(0, end)))) {
      return unsafe(path,
                    fmt::format("is in the folder '{}', whose name collides with another path",
                                withoutControls(folder)),
                    "use names that differ in more than upper and lower case");
    }
  }
  bool isNew =
      !names.contains(lowerCase(path) + "/") && names.try_emplace(lowerCase(path), path).second;
  return isNew ? Status::ok()
               : unsafe(path, "collides with another path",
                        "use names that differ in more than upper and lower case");
}

Status addFolder(const fs::path &root, const std::string &prefix,
                 std::vector<SourceFile> &sources) {
  std::error_code error;
  for (fs::directory_iterator it(root / prefix, error), end; !error && it != end;
       it.increment(error)) {
    std::string path = (prefix.empty() ? "" : prefix + "/") + it->path().filename().string();
    if (prefix.empty() && (signing::isLeftOut(path) || path == kSignature)) {
      continue;
    }
    std::error_code gone;
    fs::file_status status = it->symlink_status(gone);
    if (fs::is_directory(status)) {
      TENON_TRY(addFolder(root, path, sources));
    } else if (fs::is_regular_file(status)) {
      sources.push_back({path, it->path().string(), FileStamp::of(it->path().string())});
    } else {
      return unsafe(it->path().string(),
                    fs::is_symlink(status) ? "is a symbolic link out of the version's folder"
                                           : "is neither a file nor a folder",
                    "replace it by a file: cp --dereference copies what a link points to");
    }
    if (sources.size() > kMaxParts) {
      return Status::error(ErrorId::BadArgument,
                           fmt::format("'{}' has more than {} files", root.string(), kMaxParts),
                           "numpy.savez packs a data set of many files into one");
    }
  }
  return error ? openError(error.value(), (root / prefix).string()) : Status::ok();
}

} // namespace

Json rowsOf(const std::vector<Part> &parts) {
  Json rows = Json::array();
  for (const Part &part : parts) {
    rows.push_back({{"path", part.path}, {"sha256", part.blob.hash}, {"bytes", part.blob.bytes}});
  }
  return rows;
}

Result<std::vector<Part>> partsOf(const Json &rows) {
  std::vector<Part> parts;
  Names names;
  for (const Json &row : rows) {
    bool isRow = row.is_object() && row.contains("path") && row["path"].is_string() &&
                 row.contains("sha256") && row["sha256"].is_string() && row.contains("bytes") &&
                 row["bytes"].is_number_unsigned() && row.size() == 3;
    if (!isRow || !isSha256(row["sha256"].get<std::string>())) {
      return unsafe("files", "has a row that does not describe a file", "push the version again");
    }
    std::string path = row["path"].get<std::string>();
    TENON_TRY(checkPath(path));
    TENON_TRY(addName(names, path));
    if (!parts.empty() && parts.back().path >= path) {
      return unsafe(path, "is not in path order", "push the version again");
    }
    parts.push_back(
        {std::move(path), {row["sha256"].get<std::string>(), row["bytes"].get<uint64_t>()}});
  }
  bool isSome = !parts.empty() && parts.size() <= kMaxParts;
  return isSome ? Result<std::vector<Part>>(std::move(parts))
                : unsafe("files", fmt::format("has {} files", parts.size()),
                         fmt::format("a version has 1 to {} files", kMaxParts));
}

std::string manifestOf(const std::vector<Part> &parts) {
  return dumpJson({{"files", rowsOf(parts)}});
}

uint64_t bytesOf(const std::vector<Part> &parts) {
  uint64_t bytes = 0;
  for (const Part &part : parts) {
    bytes += part.blob.bytes;
  }
  return bytes;
}

bool isFolderName(std::string_view file) { return file.ends_with('/'); }

Result<std::vector<SourceFile>> sourcesOf(const std::vector<std::string> &named) {
  std::vector<SourceFile> sources;
  std::error_code ignored;
  bool isFolder = named.size() == 1 && fs::is_directory(named.front(), ignored);
  if (isFolder) {
    TENON_TRY(addFolder(named.front(), "", sources));
  }
  for (const std::string &file : isFolder ? std::vector<std::string>() : named) {
    if (fs::is_directory(file, ignored)) {
      return Status::error(ErrorId::FileNotRegular,
                           fmt::format("'{}' is a folder among other files", file),
                           "a version consists of one folder or of files");
    }
    sources.push_back({fs::path(file).filename().string(), file, FileStamp::of(file)});
  }
  if (sources.empty() || sources.size() > kMaxParts) {
    return Status::error(ErrorId::BadArgument,
                         sources.empty() ? fmt::format("the folder '{}' is empty", named.front())
                                         : fmt::format("{} files are too many", sources.size()),
                         fmt::format("a version has 1 to {} files", kMaxParts));
  }
  std::ranges::sort(sources, {}, &SourceFile::path);
  Names names;
  for (const SourceFile &each : sources) {
    TENON_TRY(checkPath(each.path));
    TENON_TRY(addName(names, each.path));
  }
  return sources;
}

} // namespace tenon::registry
