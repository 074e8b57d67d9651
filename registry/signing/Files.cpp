#include "registry/signing/Files.h"

#include "registry/signing/Digest.h"
#include "support/files/FileError.h"
#include "support/files/MappedFile.h"
#include "support/text/Printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace tenon::signing {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = 1 << 20;
constexpr size_t kMaxShown = 5;
const std::vector<std::string> kAlwaysIgnored = {".git", ".gitattributes", ".github", ".gitignore"};

Status bad(std::string_view what, std::string_view hint) {
  return Status::error(ErrorId::BadSigningKey, what, hint);
}

std::string shown(const std::string &name) { return withoutControls(name.substr(0, 200)); }

bool isBelow(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/// What a walk through a model leaves out.
struct Rules {
  std::vector<std::string> ignored;
  bool followsLinks = false;
  const std::set<std::string> *only =
      nullptr; ///< the files that are wanted, where others are passed over

  bool leavesOut(const std::string &path) const {
    bool isWanted =
        !only || only->contains(path) ||
        std::ranges::any_of(*only, [&](const std::string &file) { return isBelow(file, path); });
    return !isWanted || std::ranges::any_of(
                            ignored, [&](const std::string &each) { return isBelow(path, each); });
  }
};

/// Paths of the regular files below a folder.
Status walk(const fs::path &root, const std::string &prefix, const Rules &rules,
            std::vector<std::string> &files) {
  std::error_code error;
  for (fs::directory_iterator it(root / prefix, error), end; !error && it != end;
       it.increment(error)) {
    std::string path = (prefix.empty() ? "" : prefix + "/") + it->path().filename().string();
    if (rules.leavesOut(path)) {
      continue;
    }
    bool isLink = it->is_symlink(error);
    fs::file_status status = it->status(error);
    if (fs::is_directory(status) && !isLink) {
      TENON_TRY(walk(root, path, rules, files));
    } else if (fs::is_regular_file(status) && (!isLink || rules.followsLinks)) {
      files.push_back(path);
    } else {
      return bad(fmt::format("'{}' in '{}' is {}", shown(path), root.string(),
                             isLink ? "a symbolic link; nobody signs what it points to"
                                    : "neither a file nor a folder"),
                 "replace it by a file, or leave the path out with --ignore");
    }
  }
  return error ? openError(error.value(), (root / prefix).string()) : Status::ok();
}

Result<std::string> hashPart(const FileReader &file, const std::string &algorithm, uint64_t begin,
                             uint64_t end) {
  Digest digest(algorithm);
  std::vector<std::byte> piece(std::min<uint64_t>(kPiece, end - begin));
  for (uint64_t at = begin; at < end; at += piece.size()) {
    MutableBytes part = MutableBytes(piece).first(std::min<uint64_t>(piece.size(), end - at));
    TENON_TRY(file.read(at, part));
    digest.update(part);
  }
  return digest.finish();
}

/// One resource, or one for each part. An empty file has no parts.
Status hashFile(const std::string &path, const std::string &name, const Manifest &form,
                std::vector<Resource> &resources) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  if (!form.partBytes) {
    TENON_ASSIGN(std::string digest, hashPart(file, form.algorithm, 0, file.size()));
    resources.push_back({name, std::move(digest)});
    return Status::ok();
  }
  for (uint64_t begin = 0, end; begin < file.size(); begin = end) {
    end = begin + std::min(*form.partBytes, file.size() - begin);
    TENON_ASSIGN(std::string digest, hashPart(file, form.algorithm, begin, end));
    resources.push_back({fmt::format("{}:{}:{}", name, begin, end), std::move(digest)});
  }
  return Status::ok();
}

/// Reads the model in the form of a manifest.
Result<std::vector<Resource>> readModel(const std::string &path, const Manifest &form,
                                        const Rules &rules, const std::string &nameOfOne) {
  std::vector<Resource> resources;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    TENON_TRY(hashFile(path, nameOfOne, form, resources));
    return resources;
  }
  std::vector<std::string> files;
  TENON_TRY(walk(path, "", rules, files));
  for (const std::string &file : files) {
    TENON_TRY(hashFile((fs::path(path) / file).string(), file, form, resources));
  }
  return resources;
}

/// What is ignored by what the user says: the signature itself, and the paths.
Result<std::vector<std::string>> ignoredBy(const Exclusions &exclusions, const std::string &path) {
  std::vector<std::string> ignored = kAlwaysIgnored;
  std::error_code error;
  if (!exclusions.signature.empty()) {
    fs::path place = fs::relative(fs::weakly_canonical(exclusions.signature, error),
                                  fs::weakly_canonical(path, error), error);
    if (staysInside(place.string())) {
      ignored.push_back(place.string());
    }
  }
  for (const std::string &each : exclusions.paths) {
    std::string inside = each.ends_with('/') ? each.substr(0, each.size() - 1) : each;
    if (!staysInside(inside) || inside.find_first_of("*?[") != inside.npos) {
      return bad(fmt::format("'{}' is not a path in the model", shown(each)),
                 "--ignore takes a path relative to the model's folder, such as cache/tmp");
    }
    ignored.push_back(inside);
  }
  return ignored;
}

std::string modelName(const std::string &path) {
  std::error_code error;
  return fs::weakly_canonical(path, error).filename().string();
}

std::string listOf(const char *what, const std::vector<std::string> &names) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(names.size(), kMaxShown); ++i) {
    texts.push_back(fmt::format("'{}'", shown(names[i])));
  }
  return fmt::format(
      "{} {}{}", what, fmt::join(texts, ", "),
      names.size() > kMaxShown ? fmt::format(" and {} more", names.size() - kMaxShown) : "");
}

Status differs(const std::string &path, std::string_view how) {
  return Status::error(ErrorId::SignatureWrong,
                       fmt::format("'{}' differs from what was signed; {}", path, how),
                       "get the model from its source again, or have it signed as it is now");
}

Status describeDifference(const std::string &path, std::map<std::string, std::string> wanted,
                          const std::vector<Resource> &present) {
  bool isOne = present.size() == 1 && wanted.size() == 1 && present.front().name == kOnlyFile &&
               wanted.contains(kOnlyFile);
  if (isOne && wanted[kOnlyFile] != present.front().digest) {
    return differs(path, "its bytes have changed");
  }
  std::vector<std::string> changed, added, gone, texts;
  for (const Resource &resource : present) {
    std::map<std::string, std::string>::iterator found = wanted.find(resource.name);
    if (found == wanted.end()) {
      added.push_back(resource.name);
      continue;
    }
    if (found->second != resource.digest) {
      changed.push_back(resource.name);
    }
    wanted.erase(found);
  }
  for (const auto &[name, digest] : wanted) {
    gone.push_back(name);
  }
  for (auto [what, names] : {std::pair("changed:", changed), std::pair("not signed:", added),
                             std::pair("missing:", gone)}) {
    if (!names.empty()) {
      texts.push_back(listOf(what, names));
    }
  }
  return texts.empty() ? Status::ok() : differs(path, fmt::format("{}", fmt::join(texts, "; ")));
}

} // namespace

bool isLeftOut(const std::string &name) {
  return std::ranges::find(kAlwaysIgnored, name) != kAlwaysIgnored.end();
}

std::string signaturePathOf(const std::string &path) {
  std::error_code error;
  return fs::is_directory(path, error) ? (fs::path(path) / "model.sig").string() : path + ".sig";
}

Result<Manifest> manifestOf(const std::string &path, const Exclusions &exclusions) {
  Manifest manifest;
  manifest.model = modelName(path);
  std::error_code error;
  Rules rules;
  TENON_ASSIGN(rules.ignored, ignoredBy(exclusions, path));
  if (fs::is_directory(path, error)) {
    manifest.ignored = rules.ignored;
  }
  TENON_ASSIGN(manifest.resources, readModel(path, manifest, rules, kOnlyFile));
  if (manifest.resources.empty()) {
    return bad(fmt::format("'{}' has no files to sign", path),
               "give a model, or a folder that contains one");
  }
  return manifest;
}

Manifest manifestOfFile(const std::string &name, const std::string &sha256) {
  Manifest manifest;
  manifest.model = name;
  manifest.resources = {{kOnlyFile, sha256}};
  return manifest;
}

Manifest manifestOfFiles(const std::string &name, std::vector<Resource> files) {
  Manifest manifest;
  manifest.model = name;
  manifest.resources = std::move(files);
  return manifest;
}

Status compareFiles(const Manifest &signedOnes, const std::string &path,
                    const Exclusions &exclusions) {
  std::map<std::string, std::string> wanted;
  std::set<std::string> files;
  for (const Resource &resource : signedOnes.resources) {
    wanted[resource.name] = resource.digest;
    files.insert(resource.name);
  }
  Rules rules;
  TENON_ASSIGN(rules.ignored, ignoredBy(exclusions, path));
  rules.ignored.insert(rules.ignored.end(), signedOnes.ignored.begin(), signedOnes.ignored.end());
  rules.followsLinks = signedOnes.followsLinks;
  rules.only = exclusions.ignoresUnsigned && !signedOnes.partBytes ? &files : nullptr;
  // A single file is called "." by model-signing, and by its name in the specification.
  std::string name = modelName(path), first = signedOnes.resources.front().name;
  std::string nameOfOne = first == name || first.starts_with(name + ":0:") ? name : kOnlyFile;
  Result<std::vector<Resource>> present = readModel(path, signedOnes, rules, nameOfOne);
  if (!present.isOk() && present.status().id() == ErrorId::BadSigningKey) {
    return Status::error(ErrorId::SignatureWrong, present.status().message(),
                         present.status().hint());
  }
  TENON_TRY(present.takeStatus());
  return describeDifference(path, std::move(wanted), *present);
}

Result<std::string> signedHash(const Manifest &manifest, const std::string &name) {
  const Resource &first = manifest.resources.front();
  bool isOne = manifest.resources.size() == 1 && !manifest.partBytes &&
               manifest.algorithm == "sha256" && (first.name == kOnlyFile || first.name == name);
  return isOne ? Result<std::string>(first.digest)
               : Status::error(ErrorId::SignatureWrong,
                               fmt::format("the signature does not cover '{}' alone by its SHA-256",
                                           shown(name)),
                               "sign the file itself with `tenon sign`");
}

} // namespace tenon::signing
