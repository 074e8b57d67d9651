// The first reads of EngineFile, without the sections that follow.

#include "engine/Levels.h"

#include "engine/Format.h"
#include "engine/codec/PlanCodec.h"

#include <algorithm>
#include <cerrno>
#include <span>

#include <sys/stat.h>
#include <unistd.h>

namespace tenon::engine {
namespace {

Status readAt(int descriptor, uint64_t offset, MutableBytes out) {
  for (size_t at = 0; at < out.size();) {
    ssize_t bytes =
        pread(descriptor, out.data() + at, out.size() - at, static_cast<off_t>(offset + at));
    if (bytes < 0 && errno == EINTR) {
      continue;
    }
    if (bytes <= 0) {
      return Status::error(ErrorId::FileReadFailed, "the engine file cannot be read");
    }
    at += static_cast<size_t>(bytes);
  }
  return Status::ok();
}

} // namespace

Result<EngineTargets> readTargets(int descriptor) {
  struct stat info = {};
  FileHeader header = {};
  MutableBytes head = std::as_writable_bytes(std::span(&header, 1));
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    return Status::error(ErrorId::FileNotRegular, "the engine is not a regular file");
  }
  TENON_TRY(readAt(descriptor, 0, head));
  TENON_ASSIGN(header, checkHeader(head, static_cast<uint64_t>(info.st_size)));
  std::vector<std::byte> table(header.sectionCount * sizeof(SectionEntry));
  TENON_TRY(readAt(descriptor, sizeof(FileHeader), table));
  TENON_ASSIGN(std::vector<SectionEntry> sections, checkSectionTable(header, table));
  if (sections[0].bytes > kMaxFlatBuffer) {
    return Status::error(ErrorId::EngineBadManifest, "the manifest of the engine is too large");
  }
  std::vector<std::byte> text(sections[0].bytes);
  TENON_TRY(readAt(descriptor, sections[0].offset, text));
  TENON_ASSIGN(Manifest manifest, decodeManifest(text));
  EngineTargets targets;
  for (const VariantEntry &variant : manifest.variants) {
    targets.architectures.push_back(variant.architecture);
  }
  for (const Weight &weight : manifest.weights) {
    targets.ranks = std::max(targets.ranks, weight.ranks);
  }
  return targets;
}

} // namespace tenon::engine
