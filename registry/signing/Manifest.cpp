#include "registry/signing/Manifest.h"

#include "registry/signing/Digest.h"
#include "registry/signing/SignedJson.h"
#include "support/text/Printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tenon::signing {
namespace {

constexpr const char *kStatement = "https://in-toto.io/Statement/v1";
constexpr const char *kPredicate = "https://model_signing/signature/v1.0";
constexpr double kMaxPart = 1e15;
constexpr const char *kPredicate02 = "https://model_signing/Digests/v0.1";

Status malformed(std::string_view what) {
  return Status::error(ErrorId::SignatureWrong, fmt::format("the signed statement {}", what),
                       "sign the model again with `tenon sign`");
}

std::string printable(std::string_view text) { return withoutControls(text.substr(0, 200)); }

/// SHA-256 of the digests as bytes, one after the other: a name for the whole model.
std::string rootOf(const std::vector<Resource> &resources) {
  Digest root("sha256");
  for (const Resource &resource : resources) {
    std::string bytes = bytesOfHex(resource.digest);
    root.update(std::as_bytes(std::span(bytes)));
  }
  return root.finish();
}

/// "path:start:end" of a part; the path may have colons too.
std::string_view pathOfPart(std::string_view name) {
  for (int i = 0; i < 2; ++i) {
    size_t colon = name.rfind(':');
    bool isNumber = colon != name.npos && colon + 1 < name.size() &&
                    name.find_first_not_of("0123456789", colon + 1) == name.npos;
    name = isNumber ? name.substr(0, colon) : std::string_view();
  }
  return name;
}

Status readSerialization(const Json &predicate, Manifest &manifest) {
  const Json &form = member(predicate, "serialization");
  std::string method = textOf(form, "method");
  manifest.algorithm = textOf(form, "hash_type");
  const Json &links = member(form, "allow_symlinks"), &part = member(form, "shard_size"),
             &ignored = member(form, "ignore_paths");
  // model-signing writes all numbers as those of protocol buffers: 1000.0.
  double size = part.is_number() ? part.get<double>() : 0;
  bool isOfParts = method == "shards" && size >= 1 && size <= kMaxPart && size == std::floor(size);
  if ((method != "files" && !isOfParts) || (method == "files" && !part.is_null()) ||
      !links.is_boolean() || (!ignored.is_null() && !ignored.is_array())) {
    return malformed("does not describe how its files were hashed");
  }
  if (digestDigits(manifest.algorithm) == 0) {
    return malformed(fmt::format("uses the hash '{}', which Tenon does not compute",
                                 printable(manifest.algorithm)));
  }
  manifest.followsLinks = links.get<bool>();
  manifest.partBytes = isOfParts ? std::optional(static_cast<uint64_t>(size)) : std::nullopt;
  for (const Json &path : ignored) {
    if (!path.is_string()) {
      return malformed("has an ignored path that is not valid");
    }
    manifest.ignored.push_back(path.get<std::string>());
  }
  return Status::ok();
}

Status readResource(const Json &row, std::string_view algorithm, std::string digest,
                    Manifest &manifest) {
  std::string name = textOf(row, "name");
  // model-signing calls the hash of a part "sha256-sharded-1000".
  bool isOfPart =
      manifest.partBytes &&
      algorithm == fmt::format("{}-sharded-{}", manifest.algorithm, *manifest.partBytes);
  if (algorithm != manifest.algorithm && !isOfPart) {
    return malformed(
        fmt::format("has a hash for '{}' of another kind than declared", printable(name)));
  }
  if (digest.size() != digestDigits(manifest.algorithm) || bytesOfHex(digest).empty()) {
    return malformed(fmt::format("has no hash for '{}'", printable(name)));
  }
  std::string_view path = manifest.partBytes ? pathOfPart(name) : std::string_view(name);
  if (path != kOnlyFile && !staysInside(path)) {
    return malformed(fmt::format("names '{}', which is not a path in the model", printable(name)));
  }
  manifest.resources.push_back({std::move(name), std::move(digest)});
  return Status::ok();
}

Status readResources(const Json &statement, Manifest &manifest) {
  const Json &predicate = member(statement, "predicate");
  TENON_TRY(readSerialization(predicate, manifest));
  const Json &subjects = member(statement, "subject"), &rows = member(predicate, "resources");
  if (!subjects.is_array() || subjects.size() != 1 || !rows.is_array()) {
    return malformed("does not describe one model with its files");
  }
  manifest.model = textOf(subjects[0], "name");
  for (const Json &row : rows) {
    TENON_TRY(readResource(row, textOf(row, "algorithm"), textOf(row, "digest"), manifest));
  }
  bool isWhole = !manifest.model.empty() &&
                 textOf(member(subjects[0], "digest"), "sha256") == rootOf(manifest.resources);
  return isWhole ? Status::ok() : malformed("lists files that do not match its own hash");
}

/// Files are subjects here.
Status readVersion02(const Json &statement, Manifest &manifest) {
  manifest.isOfVersion02 = true;
  const Json &subjects = member(statement, "subject");
  if (!subjects.is_array()) {
    return malformed("has no files");
  }
  for (const Json &row : subjects) {
    TENON_TRY(readResource(row, "sha256", textOf(member(row, "digest"), "sha256"), manifest));
  }
  return Status::ok();
}

} // namespace

bool staysInside(std::string_view path) {
  if (path.empty() || path.find('\0') != path.npos) {
    return false;
  }
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find('/', begin), path.size());
    std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") {
      return false;
    }
    begin = end + 1;
  }
  return true;
}

Result<std::string> statementOf(Manifest manifest) {
  std::ranges::sort(manifest.resources, {}, &Resource::name);
  Json resources = Json::array();
  for (const Resource &resource : manifest.resources) {
    resources.push_back(
        {{"name", resource.name}, {"algorithm", manifest.algorithm}, {"digest", resource.digest}});
  }
  Json form = {{"method", "files"},
               {"hash_type", manifest.algorithm},
               {"allow_symlinks", manifest.followsLinks}};
  if (!manifest.ignored.empty()) {
    form["ignore_paths"] = manifest.ignored;
  }
  Json statement = {
      {"_type", kStatement},
      {"subject",
       {{{"name", manifest.model}, {"digest", {{"sha256", rootOf(manifest.resources)}}}}}},
      {"predicateType", kPredicate},
      {"predicate", {{"serialization", form}, {"resources", resources}}}};
  std::optional<std::string> text = dumpUtf8(statement);
  if (!text) {
    return Status::error(
        ErrorId::BadSigningKey,
        fmt::format("'{}' has a file whose name is not UTF-8, which a signature cannot contain",
                    printable(manifest.model)),
        "rename the file");
  }
  return std::move(*text);
}

Result<Manifest> parseStatement(std::string_view text) {
  Json statement;
  TENON_TRY(parseSignedJson(text, "the signed statement", statement));
  std::string type = textOf(statement, "_type"), predicate = textOf(statement, "predicateType");
  if (type != kStatement || (predicate != kPredicate && predicate != kPredicate02)) {
    return malformed(
        fmt::format("has the types '{}' and '{}', which OpenSSF Model Signing v1.0 does not define",
                    printable(type), printable(predicate)));
  }
  Manifest manifest;
  TENON_TRY(predicate == kPredicate ? readResources(statement, manifest)
                                    : readVersion02(statement, manifest));
  std::set<std::string_view> names;
  for (const Resource &resource : manifest.resources) {
    if (!names.insert(resource.name).second) {
      return malformed(fmt::format("names '{}' twice", printable(resource.name)));
    }
  }
  return manifest.resources.empty() ? Result<Manifest>(malformed("has no files")) : manifest;
}

} // namespace tenon::signing
