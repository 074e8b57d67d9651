#include "tools/tenon/registry/Artifact.h"

#include "engine/Reader.h"
#include "registry/Pickle.h"
#include "runtime/tensors/Npy.h"
#include "support/files/MappedFile.h"
#include "support/text/Printable.h"
#include "support/zip/Zip.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/model/CompilerBridge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

namespace tenon::tool {
namespace {

/// Of an entry that is unpacked to be looked at.
constexpr uint64_t kMaxPickle = uint64_t(256) << 20;

Status isUnsafe(const std::string &path, std::string_view why, std::string_view hint) {
  return Status::error(ErrorId::UnsafeArtifact, fmt::format("'{}' {}", path, why), hint);
}

bool leavesFolder(const std::string &name) {
  std::filesystem::path path(name);
  bool hasParent =
      std::ranges::any_of(path, [](const std::filesystem::path &part) { return part == ".."; });
  return name.empty() || path.is_absolute() || hasParent || name.find('\\') != name.npos ||
         name.find(':') != name.npos || withoutControls(name) != name;
}

constexpr const char *kHint = "push a file made by torch.export.save or numpy.savez";

bool isNamedPickle(std::string_view name) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{".pkl", ".pickle", ".pt", ".pth"},
      [&](std::string_view end) { return name.ends_with(end); });
}

Status checkArchive(Bytes bytes, const std::string &path, bool isInner);

Status checkEntry(const zip::Archive &archive, const zip::Entry &entry, const std::string &path,
                  bool isInner) {
  std::string name = withoutControls(entry.name.substr(0, 200));
  if (leavesFolder(entry.name)) {
    return isUnsafe(path, fmt::format("has an entry '{}' outside its folder", name), kHint);
  }
  std::vector<std::byte> start(std::min<uint64_t>(entry.unpacked, NpyHeader::kMaxBytes));
  TENON_ASSIGN(Bytes packed, archive.packedBytes(entry));
  if (!zip::Unpacker(packed, entry.method).read(start)) {
    return archive.bad(fmt::format("the entry '{}' is damaged", name));
  }
  if (entry.name.ends_with(".npy")) {
    return parseNpyHeader(start, fmt::format("{} in {}", name, path)).takeStatus();
  }
  // Only what may be a pickle or hold one is unpacked whole: inputs of an exported program are kept
  // in such.
  bool isArchive = start.size() >= 2 && std::memcmp(start.data(), "PK", 2) == 0;
  bool isPickle = registry::beginsPickle(start) || entry.name.ends_with(".pkl");
  if (!isArchive && !isPickle) {
    return isNamedPickle(entry.name)
               ? isUnsafe(path,
                          fmt::format(
                              "has an entry '{}' that is named like a pickle but is not one", name),
                          kHint)
               : Status::ok();
  }
  if (entry.unpacked > kMaxPickle && entry.method != zip::kStored) {
    return isUnsafe(
        path,
        fmt::format("has an entry '{}' of {} bytes, too many to inspect", name, entry.unpacked),
        kHint);
  }
  std::vector<std::byte> owned;
  TENON_ASSIGN(Bytes content, archive.read(entry, owned));
  if (isArchive) {
    return isInner
               ? isUnsafe(path, fmt::format("has archives nested three levels deep, '{}'", name),
                          kHint)
               : checkArchive(content, fmt::format("{} in {}", name, path), true);
  }
  bool isUnsafeOne = registry::beginsPickle(content) ? registry::isUnsafePickle(content) : true;
  return isUnsafeOne ? isUnsafe(path,
                                fmt::format("contains a Python pickle, '{}', which imports "
                                            "functions that could run code",
                                            name),
                                kHint)
                     : Status::ok();
}

Status checkArchive(Bytes bytes, const std::string &path, bool isInner) {
  zip::Archive archive(bytes, path, ErrorId::UnsafeArtifact, kHint);
  TENON_ASSIGN(std::vector<zip::Entry> entries, archive.entries());
  for (const zip::Entry &entry : entries) {
    TENON_TRY(checkEntry(archive, entry, path, isInner));
  }
  return Status::ok();
}

Status checkArchive(const std::string &path) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  return checkArchive(file.bytes(), path, false);
}

Result<Artifact> examineEngine(const std::string &path) {
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(path));
  TENON_TRY(file->verifyWeights().prefix(path));
  Artifact artifact;
  artifact.kind = "engine";
  Json targets = Json::array();
  for (const engine::Variant &variant : file->variants()) {
    targets.push_back(variant.level);
  }
  Json options = parseJson(file->provenance().options);
  artifact.facts = {{"compiler", file->provenance().compiler},
                    {"source", file->provenance().model},
                    {"options", options.is_discarded() ? Json() : options},
                    {"targets", targets}};
  return artifact;
}

Result<Artifact> examineModel(const std::string &path, Bytes start, bool mayHaveData) {
  if (start.size() >= 2 && std::memcmp(start.data(), "PK", 2) == 0) {
    TENON_TRY(checkArchive(path));
  }
  std::vector<std::string> others = dataFilesOf(path);
  if (!others.empty() && !mayHaveData) {
    return isUnsafe(path,
                    fmt::format("stores weights in other files ({}), which the version would lack",
                                others.front()),
                    "push its folder, or the model and these files: `tenon registry push NAME "
                    "MODEL FILE...`");
  }
  return Artifact{"model", Json::object()};
}

Result<std::vector<std::byte>> beginningOf(const std::string &path) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  std::vector<std::byte> start(std::min<uint64_t>(file.size(), kSniffBytes));
  TENON_TRY(file.read(0, start));
  return start;
}

Result<Artifact> examineOther(const std::string &path, std::string_view what,
                              const std::string &kind) {
  for (std::string_view refused : {"pickle", "pickled", "program", "archive"}) {
    if (what.find(refused) != what.npos) {
      return isUnsafe(
          path, fmt::format("is {}: opening it could run code or write outside a folder", what),
          "push models as ONNX or from torch.export.save, and data sets as npz");
    }
  }
  bool isText = what.find("text") != what.npos || what.find("web page") != what.npos;
  if (kind.empty() && !isText) {
    return Status::error(ErrorId::BadArgument, fmt::format("'{}' is {}", path, what),
                         "--kind report or --kind data stores it as such");
  }
  return Artifact{!kind.empty()              ? kind
                  : path.ends_with(".jsonl") ? "data"
                                             : "report",
                  Json::object()};
}

Result<Artifact> examineContent(const std::string &path, const std::string &kind,
                                bool mayHaveData) {
  TENON_ASSIGN(std::vector<std::byte> start, beginningOf(path));
  if (registry::beginsPickle(start) || isNamedPickle(path)) {
    return examineOther(path, "a Python pickle, or named like one", kind);
  }
  FileContent content = contentOf(Bytes(start));
  switch (content.kind) {
  case FileKind::Engine:
    return examineEngine(path);
  case FileKind::Model:
    return examineModel(path, start, mayHaveData);
  case FileKind::Npz:
    TENON_TRY(checkArchive(path));
    return Artifact{"data", Json::object()};
  case FileKind::Npy:
    TENON_TRY(readNpy(path).takeStatus());
    return Artifact{"data", Json::object()};
  case FileKind::Picture:
    return Artifact{"data", Json::object()};
  case FileKind::Empty:
    return Status::error(ErrorId::BadArgument, fmt::format("'{}' is empty", path),
                         "push a file with content");
  case FileKind::Other:
    return examineOther(path, content.what, kind);
  case FileKind::Unknown:
  case FileKind::PhaseDump:
    break;
  }
  return examineOther(path, "text", kind);
}

/// TN1010 where a model keeps weights in a file that is not among them, or not where it looks.
Status checkDataFiles(const std::vector<registry::SourceFile> &files,
                      const std::vector<std::string> &models,
                      const std::set<std::string> &sources) {
  for (const registry::SourceFile &file : files) {
    if (std::ranges::find(models, file.path) == models.end()) {
      continue;
    }
    std::vector<std::string> named = dataFilesOf(file.source);
    for (const std::string &data : named) {
      std::error_code ignored;
      if (!sources.contains(std::filesystem::weakly_canonical(data, ignored))) {
        return isUnsafe(file.source,
                        fmt::format("stores weights in '{}', which is not among the files", data),
                        "push it too, under the path that the model uses");
      }
    }
  }
  return Status::ok();
}

} // namespace

Result<Artifact> examine(const std::string &path, const std::string &kind) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return Status::error(ErrorId::FileNotRegular, fmt::format("'{}' is a folder", path),
                         "`tenon registry push` accepts a folder of several files");
  }
  TENON_ASSIGN(Artifact artifact, examineContent(path, kind, false));
  // Reports and tuning records may be of any form; what is run or measured is what it is.
  bool isFree = kind == "report" || kind == "tuning" || kind == "data";
  if (!kind.empty() && kind != artifact.kind && !isFree) {
    return Status::error(ErrorId::BadArgument, fmt::format("'{}' is not a {}", path, kind),
                         fmt::format("it seems to be: {}", artifact.kind));
  }
  artifact.kind = kind.empty() ? artifact.kind : kind;
  return artifact;
}

Result<Artifact> examineFiles(const std::vector<registry::SourceFile> &files,
                              const std::string &kind, const std::string &main) {
  std::map<std::string, std::vector<std::string>> byKind; // paths
  std::map<std::string, Artifact> artifacts;
  std::set<std::string> sources;
  for (const registry::SourceFile &file : files) {
    TENON_ASSIGN(Artifact artifact, examineContent(file.source, "data", true));
    byKind[artifact.kind].push_back(file.path);
    artifacts[file.path] = std::move(artifact);
    std::error_code ignored;
    sources.insert(std::filesystem::weakly_canonical(file.source, ignored));
  }
  TENON_TRY(checkDataFiles(files, byKind["model"], sources));
  std::string path = main;
  for (const char *each : {"engine", "model"}) {
    if (path.empty() && byKind[each].size() > 1) {
      return Status::error(ErrorId::BadArgument,
                           fmt::format("'{}' and '{}' are each {} {}", byKind[each][0],
                                       byKind[each][1], *each == 'e' ? "an" : "a", each),
                           "--main PATH selects the main file");
    }
    path = path.empty() && !byKind[each].empty() ? byKind[each].front() : path;
  }
  if (!path.empty() && !artifacts.contains(path)) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("there is no '{}' among the files", path),
                         "--main expects a path in the version, such as onnx/model.onnx");
  }
  Artifact artifact = path.empty() ? Artifact{"data", Json::object()} : artifacts[path];
  bool isFree = kind == "report" || kind == "tuning" || kind == "data";
  if (!kind.empty() && kind != artifact.kind && !isFree) {
    return Status::error(ErrorId::BadArgument, fmt::format("the files are not a {}", kind),
                         fmt::format("they seem to be: {}", artifact.kind));
  }
  artifact.kind = kind.empty() ? artifact.kind : kind;
  if (!path.empty()) {
    artifact.facts["main"] = path;
  }
  return artifact;
}

} // namespace tenon::tool
