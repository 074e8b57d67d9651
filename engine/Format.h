// The outer layout of an engine file: a header, a table of sections and the sections in order, each
// on the first border of its alignment after the one before. Private to engine/.

#pragma once

#include "support/Hash.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tenon::engine {

inline constexpr char kMagic[8] = {'\x89', 'T', 'E', 'N', 'O', 'N', '\r', '\n'};
/// Version 6 has symbols of the session, version 7 ranks, version 8 stages; an engine without them
/// is written as version 5.
inline constexpr uint32_t kFormatVersion = 8, kOldestVersion = 5;
inline constexpr uint64_t kWeightBlock = uint64_t(4) << 20;
inline constexpr uint64_t kLargeWeights = uint64_t(2) << 20;
/// FlatBuffers offsets are 32-bit; far below that a plan is not credible.
inline constexpr uint64_t kMaxFlatBuffer = uint64_t(64) << 20;
inline constexpr uint32_t kMaxSections = 4096;

enum class SectionKind : uint32_t {
  Manifest = 1, ///< exactly one, the first
  Plan = 2,
  Code = 3,
  Record = 4,
  WeightHashes = 5, ///< exactly one, the last but one: 16 bytes for each block of 4 MiB
  Weights = 6,      ///< exactly one, the last; its hash field is zero
};

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t sectionCount;
  uint64_t fileBytes;
  uint64_t hashLow; ///< of the header, this field and the next zero, followed by the table
  uint64_t hashHigh;
  uint64_t reserved[3];
};
static_assert(sizeof(FileHeader) == 64);

struct SectionEntry {
  SectionKind kind;
  uint32_t reserved0;
  uint64_t offset;
  uint64_t bytes;
  uint64_t hashLow;
  uint64_t hashHigh;
  uint64_t reserved[3];
};
static_assert(sizeof(SectionEntry) == 64);

/// Weights start on a page, so that they can be mapped; large ones on a large page.
uint64_t sectionAlignment(SectionKind kind, uint64_t bytes);
/// Sets every offset from the kinds and sizes; returns the size of the file. None on overflow.
std::optional<uint64_t> layOutSections(std::vector<SectionEntry> &sections);
Hash128 headerHash(FileHeader header, const std::vector<SectionEntry> &sections);

/// Checks magic, version and size, and gives the number of sections. `head` is the file's start.
Result<FileHeader> checkHeader(Bytes head, uint64_t fileBytes);
/// Checks the header's hash, the order of kinds, every offset and size.
Result<std::vector<SectionEntry>> checkSectionTable(const FileHeader &header, Bytes table);

} // namespace tenon::engine
