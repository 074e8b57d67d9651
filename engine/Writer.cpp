// Lays the sections out from their sizes, streams the weights to the end of the file, then writes
// what precedes them. Relies on AtomicFile: a failed write leaves nothing behind.

#include "engine/Writer.h"

#include "engine/Format.h"
#include "engine/validate/ValidateVariant.h"
#include "support/files/AtomicFile.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace tenon::engine {
namespace {

/// The first version that has all that the variant has.
uint32_t versionOf(const VariantContent &content) {
  const Plan &plan = content.variant.plan;
  return plan.stages > 1              ? kFormatVersion
         : plan.ranks > 1             ? 7
         : plan.sessionSymbols() != 0 ? 6
                                      : kOldestVersion;
}

/// Collects weights into blocks, hashes each and appends it to the file.
class BlockWriter {
public:
  BlockWriter(AtomicFile &target, MutableBytes hashBytes) : file(target), hashes(hashBytes) {
    block.reserve(kWeightBlock);
  }

  uint64_t written() const { return flushed + block.size(); }

  Status append(Bytes bytes) {
    while (!bytes.empty()) {
      size_t count = std::min<size_t>(bytes.size(), kWeightBlock - block.size());
      block.insert(block.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
      bytes = bytes.subspan(count);
      if (block.size() == kWeightBlock) {
        TENON_TRY(flush());
      }
    }
    return Status::ok();
  }

  Status padTo(uint64_t offset) {
    static constexpr std::byte zeros[kBufferAlignment] = {};
    return append(Bytes(zeros, offset - written()));
  }

  Status flush() {
    if (block.empty()) {
      return Status::ok();
    }
    Hash128 hash = hashBytes(block);
    std::memcpy(hashes.data() + flushed / kWeightBlock * sizeof(Hash128), &hash, sizeof(Hash128));
    TENON_TRY(file.append(block));
    flushed += block.size();
    block.clear();
    return Status::ok();
  }

private:
  AtomicFile &file;
  MutableBytes hashes;
  std::vector<std::byte> block;
  uint64_t flushed = 0;
};

Status sourceError(const Weight &weight, uint64_t given) {
  return Status::error(ErrorId::EngineWeightsSource,
                       strCat("weight '", weight.name, "' has ", weight.bytes,
                              " bytes, but its source gave ", given));
}

class EngineWriter {
public:
  explicit EngineWriter(const EngineContent &engineContent) : content(engineContent) {}

  Result<EngineFileSize> write(const std::string &path, const WeightSource &source,
                               const std::function<Status()> &mayAppear) {
    TENON_TRY(prepare());
    EngineFileSize size;
    std::optional<uint64_t> fileBytes = layOutSections(sections);
    if (!fileBytes || sections.size() > kMaxSections) {
      return Status::error(ErrorId::BadArgument, "the engine would be too large for its format");
    }
    size.fileBytes = *fileBytes;
    size.weightsBytes = sections.back().bytes;
    TENON_ASSIGN(AtomicFile file, AtomicFile::create(path));
    TENON_TRY(file.resize(sections.back().offset));
    TENON_TRY(writeWeights(file, source));
    TENON_TRY(writePrefix(file, size.fileBytes));
    TENON_TRY(mayAppear ? mayAppear() : Status::ok());
    TENON_TRY(file.commit());
    return size;
  }

private:
  /// Makes the bytes of every section but the weights, hashes of weights still zero.
  Status prepare() {
    manifest.weights = content.weights;
    manifest.provenance = content.provenance;
    std::optional<uint64_t> weightsBytes = layOutWeights(manifest.weights);
    if (!weightsBytes) {
      return Status::error(ErrorId::BadArgument, "the weights are too large for the format");
    }
    add(SectionKind::Manifest, {});
    for (const VariantContent &variant : content.variants) {
      VariantEntry entry = entryOf(variant);
      const Plan &plan = variant.variant.plan;
      Status status = validateVariant(entry, plan, manifest.weights, variant.code, variant.cubin);
      TENON_TRY(status.prefix(strCat("variant '", entry.level, "'")));
      owned.push_back(encodePlan(plan));
      entry.planSection = addShared(SectionKind::Plan, owned.back());
      entry.codeSection = addShared(SectionKind::Code, variant.code);
      entry.cubinSection = variant.cubin.empty() ? 0 : add(SectionKind::Code, variant.cubin);
      manifest.variants.push_back(std::move(entry));
    }
    for (const Record &record : content.records) {
      Bytes text = std::as_bytes(std::span(record.json));
      manifest.records.push_back({record.name, add(SectionKind::Record, text)});
    }
    hashes.resize((*weightsBytes + kWeightBlock - 1) / kWeightBlock * sizeof(Hash128));
    add(SectionKind::WeightHashes, hashes);
    owned.push_back(encodeManifest(manifest));
    setBytes(0, owned.back());
    add(SectionKind::Weights, {});
    sections.back().bytes = *weightsBytes;
    return Status::ok();
  }

  /// What it asks of a machine is what its level says, where the table has it.
  static VariantEntry entryOf(const VariantContent &content) {
    const Variant &variant = content.variant;
    const Level *level = findLevel(variant.level);
    VariantEntry entry;
    entry.level = variant.level;
    entry.kernels = variant.kernels;
    entry.cubinBy = content.cubinBy;
    entry.architecture = level ? level->architecture : variant.architecture;
    entry.features = level ? level->features : variant.features;
    return entry;
  }

  uint32_t add(SectionKind kind, Bytes bytes) {
    uint32_t index = static_cast<uint32_t>(sections.size());
    sections.push_back({});
    sections.back().kind = kind;
    contents.push_back({});
    setBytes(index, bytes);
    return index;
  }

  /// That of equal bytes, where another variant has some.
  uint32_t addShared(SectionKind kind, Bytes bytes) {
    for (uint32_t i = 0; i < sections.size(); ++i) {
      if (sections[i].kind == kind && std::ranges::equal(contents[i], bytes) &&
          ++uses[i] < kLevels.size()) {
        return i;
      }
    }
    return add(kind, bytes);
  }

  void setBytes(uint32_t index, Bytes bytes) {
    sections[index].bytes = bytes.size();
    contents[index] = bytes;
  }

  Status writeWeights(AtomicFile &file, const WeightSource &source) {
    BlockWriter writer(file, hashes);
    for (uint32_t i = 0; i < manifest.weights.size(); ++i) {
      const Weight &weight = manifest.weights[i];
      for (uint32_t rank = 0; rank < weight.ranks; ++rank) {
        TENON_TRY(writer.padTo(weight.offsetOf(rank)));
        uint64_t given = 0;
        TENON_TRY(source(i, rank, [&](Bytes bytes) {
          given += bytes.size();
          return given > weight.bytes ? sourceError(weight, given) : writer.append(bytes);
        }));
        if (given != weight.bytes) {
          return sourceError(weight, given);
        }
      }
    }
    return writer.flush();
  }

  Status writePrefix(AtomicFile &file, uint64_t fileBytes) {
    for (size_t i = 0; i + 1 < sections.size(); ++i) {
      Hash128 hash = hashBytes(contents[i]);
      sections[i].hashLow = hash.low;
      sections[i].hashHigh = hash.high;
      TENON_TRY(file.write(sections[i].offset, contents[i]));
    }
    FileHeader header = {};
    std::memcpy(header.magic, kMagic, sizeof(kMagic));
    header.version = kOldestVersion;
    for (const VariantContent &variant : content.variants) {
      header.version = std::max(header.version, versionOf(variant));
    }
    header.sectionCount = static_cast<uint32_t>(sections.size());
    header.fileBytes = fileBytes;
    Hash128 hash = headerHash(header, sections);
    header.hashLow = hash.low;
    header.hashHigh = hash.high;
    TENON_TRY(file.write(0, std::as_bytes(std::span(&header, 1))));
    return file.write(sizeof(header), std::as_bytes(std::span(sections)));
  }

  const EngineContent &content;
  Manifest manifest;
  std::vector<SectionEntry> sections;
  std::vector<Bytes> contents;               ///< by section; views of `owned` and of the content
  std::map<uint32_t, size_t> uses;           ///< of a section, beyond the first
  std::vector<std::vector<std::byte>> owned; ///< encoded plans and manifest
  std::vector<std::byte> hashes;
};

} // namespace

Result<EngineFileSize> writeEngine(const std::string &path, const EngineContent &content,
                                   const WeightSource &weights,
                                   const std::function<Status()> &mayAppear) {
  return EngineWriter(content).write(path, weights, mayAppear);
}

} // namespace tenon::engine
