// Computes and checks the outer layout. The offsets in a file must be exactly those that this
// computes, so sections cannot overlap, leave gaps or run past the end.

#include "engine/Format.h"

#include "support/text/Text.h"

#include <algorithm>
#include <cstring>

namespace tenon::engine {
namespace {

Status tableError(std::string_view message) {
  return Status::error(ErrorId::EngineBadSectionTable, message,
                       "the file is damaged; compile the model again");
}

Status checkKinds(const std::vector<SectionEntry> &sections) {
  size_t count = sections.size();
  for (size_t i = 0; i < count; ++i) {
    SectionKind kind = sections[i].kind;
    if (kind < SectionKind::Manifest || kind > SectionKind::Weights) {
      return tableError(strCat("section ", i, " has unknown kind ", static_cast<uint32_t>(kind)));
    }
    bool isMiddle =
        kind == SectionKind::Plan || kind == SectionKind::Code || kind == SectionKind::Record;
    bool mustBeMiddle = i != 0 && i + 2 < count;
    if (isMiddle != mustBeMiddle) {
      return tableError(strCat("section ", i, " has a kind that is not allowed there"));
    }
  }
  if (count < 3 || sections[0].kind != SectionKind::Manifest ||
      sections[count - 2].kind != SectionKind::WeightHashes ||
      sections[count - 1].kind != SectionKind::Weights) {
    return tableError("the manifest, the weight hashes or the weights are missing");
  }
  return Status::ok();
}

Status checkSizes(const std::vector<SectionEntry> &sections, uint64_t fileBytes) {
  const SectionEntry &weights = sections.back();
  for (const SectionEntry &section : sections) {
    if (section.bytes > fileBytes) {
      return tableError(strCat("a section of ", section.bytes, " bytes does not fit in the file"));
    }
    bool isFlat = section.kind == SectionKind::Manifest || section.kind == SectionKind::Plan;
    if (isFlat && section.bytes > kMaxFlatBuffer) {
      return tableError(strCat("a plan or manifest of ", section.bytes, " bytes is too large"));
    }
    bool reservedSet = section.reserved0 != 0 ||
                       std::any_of(std::begin(section.reserved), std::end(section.reserved),
                                   [](uint64_t word) { return word != 0; });
    if (reservedSet) {
      return tableError("a reserved field is not zero");
    }
  }
  uint64_t blocks = weights.bytes / kWeightBlock + (weights.bytes % kWeightBlock != 0 ? 1 : 0);
  if (sections[sections.size() - 2].bytes != blocks * sizeof(Hash128)) {
    return tableError("the number of weight hashes does not match the weights");
  }
  if (weights.hashLow != 0 || weights.hashHigh != 0) {
    return tableError("the weights section has a hash of its own");
  }
  return Status::ok();
}

} // namespace

uint64_t sectionAlignment(SectionKind kind, uint64_t bytes) {
  constexpr uint64_t page = 4096;
  if (kind != SectionKind::Weights) {
    return 64;
  }
  return bytes > kLargeWeights ? kLargeWeights : page;
}

std::optional<uint64_t> layOutSections(std::vector<SectionEntry> &sections) {
  uint64_t end = sizeof(FileHeader) + sections.size() * sizeof(SectionEntry);
  for (SectionEntry &section : sections) {
    uint64_t alignment = sectionAlignment(section.kind, section.bytes);
    section.offset = (end + alignment - 1) / alignment * alignment;
    if (section.bytes > INT64_MAX || section.offset > INT64_MAX - section.bytes) {
      return std::nullopt;
    }
    end = section.offset + section.bytes;
  }
  return end;
}

Hash128 headerHash(FileHeader header, const std::vector<SectionEntry> &sections) {
  header.hashLow = 0;
  header.hashHigh = 0;
  // At once: hashing in pieces takes 8 KB of the runtime.
  std::vector<std::byte> bytes(sizeof(header) + sections.size() * sizeof(SectionEntry));
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::ranges::copy(std::as_bytes(std::span(sections)), bytes.begin() + sizeof(header));
  return hashBytes(bytes);
}

Result<FileHeader> checkHeader(Bytes head, uint64_t fileBytes) {
  size_t common = std::min(head.size(), sizeof(kMagic));
  if (head.empty() || std::memcmp(head.data(), kMagic, common) != 0) {
    return Status::error(ErrorId::EngineBadMagic, "the file does not start like an engine",
                         "give a file written by 'tenon compile'");
  }
  FileHeader header;
  if (head.size() < sizeof(header)) {
    return Status::error(ErrorId::EngineTooShort,
                         strCat("the file has ", fileBytes, " bytes, less than a header"),
                         "copy the file again, or compile the model again");
  }
  std::memcpy(&header, head.data(), sizeof(header));
  if (header.version < kOldestVersion || header.version > kFormatVersion) {
    return Status::error(ErrorId::EngineBadVersion,
                         strCat("the engine has format version ", header.version,
                                "; this runtime reads versions ", kOldestVersion, " to ",
                                kFormatVersion),
                         "compile the model with the same release of Tenon");
  }
  if (header.fileBytes != fileBytes) {
    bool isShort = fileBytes < header.fileBytes;
    return Status::error(isShort ? ErrorId::EngineTooShort : ErrorId::EngineTrailingBytes,
                         strCat("the file has ", fileBytes, " bytes but states ", header.fileBytes),
                         "copy the file again, or compile the model again");
  }
  if (header.sectionCount > kMaxSections ||
      sizeof(header) + header.sectionCount * sizeof(SectionEntry) > fileBytes) {
    return tableError(strCat("the file states ", header.sectionCount, " sections"));
  }
  return header;
}

Result<std::vector<SectionEntry>> checkSectionTable(const FileHeader &header, Bytes table) {
  std::vector<SectionEntry> sections(header.sectionCount);
  // A table of none has no address.
  std::ranges::copy(table.first(sections.size() * sizeof(SectionEntry)),
                    std::as_writable_bytes(std::span(sections)).begin());
  if (headerHash(header, sections) != Hash128{header.hashLow, header.hashHigh}) {
    return Status::error(ErrorId::EngineHashMismatch, "the header does not match its hash",
                         "the file is damaged; copy or compile it again");
  }
  for (uint64_t word : header.reserved) {
    if (word != 0) {
      return tableError("a reserved field is not zero");
    }
  }
  TENON_TRY(checkKinds(sections));
  TENON_TRY(checkSizes(sections, header.fileBytes));
  std::vector<SectionEntry> expected = sections;
  std::optional<uint64_t> end = layOutSections(expected);
  if (end != header.fileBytes) {
    return tableError("the sections do not fill the file");
  }
  for (size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].offset != expected[i].offset) {
      return tableError(strCat("section ", i, " is at the wrong position"));
    }
  }
  return sections;
}

} // namespace tenon::engine
