// Reads the part of an engine before its weights in one piece, so that what is checked is what is
// used, then maps the weights. Relies on Format, the codecs and the validator for the rules.

#include "engine/Reader.h"

#include "engine/Format.h"
#include "engine/validate/Validate.h"
#include "engine/validate/ValidateVariant.h"
#include "support/files/MappedFile.h"
#include "support/memory/AlignedBuffer.h"
#include "support/text/Text.h"
#include "support/threads/ThreadPool.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

namespace tenon::engine {
namespace {

Status damaged(ErrorId id, std::string_view message) {
  return Status::error(id, message, "the file is damaged; copy or compile it again");
}

/// Where an engine's bytes come from: a file, or memory of the caller.
class Source {
public:
  explicit Source(FileReader opened) : file(std::move(opened)), bytes(file->size()) {}
  explicit Source(Bytes memory) : image(memory), bytes(memory.size()) {}

  uint64_t size() const { return bytes; }
  const FileReader *reader() const { return file ? &*file : nullptr; }
  Bytes memory() const { return image; }

  Status read(uint64_t offset, MutableBytes out) const {
    if (file) {
      return file->read(offset, out);
    }
    std::ranges::copy(image.subspan(offset, out.size()), out.begin());
    return Status::ok();
  }

private:
  std::optional<FileReader> file;
  Bytes image;
  uint64_t bytes;
};

} // namespace

struct EngineFile::Impl {
  AlignedBuffer prefix; ///< everything before the padding in front of the weights
  std::vector<SectionEntry> sections;
  Manifest manifest;
  std::vector<Variant> variants;
  MappedFile mapped;
  AlignedBuffer copied;
  Bytes weights;
  uint64_t fileBytes = 0;

  Bytes section(size_t index) const {
    const SectionEntry &entry = sections[index];
    return Bytes(prefix.data() + entry.offset, entry.bytes);
  }

  Status checkHash(size_t index) const {
    const SectionEntry &entry = sections[index];
    if (hashBytes(section(index)) != Hash128{entry.hashLow, entry.hashHigh}) {
      return damaged(ErrorId::EngineHashMismatch, strCat("section ", index, " at byte ",
                                                         entry.offset, " does not match its hash"));
    }
    return Status::ok();
  }

  Status load(const Source &source) {
    fileBytes = source.size();
    FileHeader header = {};
    MutableBytes head = std::as_writable_bytes(std::span(&header, 1));
    head = head.first(std::min<uint64_t>(head.size(), fileBytes));
    TENON_TRY(source.read(0, head));
    TENON_ASSIGN(header, checkHeader(head, fileBytes));
    std::vector<std::byte> table(header.sectionCount * sizeof(SectionEntry));
    TENON_TRY(source.read(sizeof(FileHeader), table));
    TENON_ASSIGN(sections, checkSectionTable(header, table));
    TENON_TRY(readPrefix(source));
    for (size_t i = 0; i + 1 < sections.size(); ++i) {
      if (sections[i].kind != SectionKind::Record) {
        TENON_TRY(checkHash(i));
      }
    }
    TENON_TRY(readManifest());
    for (const VariantEntry &entry : manifest.variants) {
      TENON_TRY(readVariant(entry));
    }
    return mapWeights(source);
  }

  uint64_t weightBlocks() const { return (weights.size() + kWeightBlock - 1) / kWeightBlock; }

  Bytes weightBlock(uint64_t block) const {
    uint64_t begin = block * kWeightBlock;
    return weights.subspan(begin, std::min<uint64_t>(kWeightBlock, weights.size() - begin));
  }

  bool isIntact(uint64_t block) const {
    Hash128 expected;
    const std::byte *hashes = section(sections.size() - 2).data();
    std::memcpy(&expected, hashes + block * sizeof(Hash128), sizeof(Hash128));
    return hashBytes(weightBlock(block)) == expected;
  }

  /// An error names the first block that is damaged.
  Status compareBlocks(const std::vector<uint64_t> &blocks) const {
    std::vector<char> intact(blocks.size());
    size_t threads = std::clamp<size_t>(blocks.size(), 1, usableCpus());
    TENON_ASSIGN(std::unique_ptr<ThreadPool> pool,
                 ThreadPool::create(static_cast<unsigned>(threads)));
    pool->parallelFor(static_cast<int64_t>(blocks.size()),
                      [&](int64_t begin, int64_t end, unsigned) {
                        for (int64_t i = begin; i < end; ++i) {
                          intact[i] = isIntact(blocks[i]);
                        }
                      });
    size_t first = std::ranges::find(intact, 0) - intact.begin();
    if (first == blocks.size()) {
      return Status::ok();
    }
    uint64_t begin = blocks[first] * kWeightBlock;
    return damaged(ErrorId::EngineWeightsHashMismatch,
                   strCat("bytes ", begin, " to ", begin + weightBlock(blocks[first]).size(),
                          " of the weights do not match their hash"));
  }

  /// Reads up to the last section before the weights and checks that all padding is zero.
  Status readPrefix(const Source &source) {
    const SectionEntry &last = sections[sections.size() - 2];
    TENON_ASSIGN(prefix, AlignedBuffer::create(last.offset + last.bytes));
    TENON_TRY(source.read(0, prefix.bytes()));
    uint64_t end = sizeof(FileHeader) + sections.size() * sizeof(SectionEntry);
    for (size_t i = 0; i + 1 < sections.size(); ++i) {
      TENON_TRY(checkZero(Bytes(prefix.data() + end, sections[i].offset - end)));
      end = sections[i].offset + sections[i].bytes;
    }
    std::vector<std::byte> gap(sections.back().offset - end);
    TENON_TRY(source.read(end, gap));
    return checkZero(gap);
  }

  static Status checkZero(Bytes padding) {
    bool isZero = padding.empty() ||
                  (padding[0] == std::byte(0) &&
                   std::memcmp(padding.data(), padding.data() + 1, padding.size() - 1) == 0);
    if (!isZero) {
      return damaged(ErrorId::EngineBadSectionTable, "the space between two sections is not empty");
    }
    return Status::ok();
  }

  /// Each section must be named, by what its kind says: plans and code by as many variants as there
  /// are levels (equal ones are stored once), others exactly once.
  Status claim(uint32_t index, SectionKind kind, std::map<uint32_t, size_t> &claimed) const {
    bool isShared = kind == SectionKind::Plan || kind == SectionKind::Code;
    if (index >= sections.size() || sections[index].kind != kind ||
        ++claimed[index] > (isShared ? kLevels.size() : 1)) {
      return damaged(ErrorId::EngineBadManifest,
                     strCat("section ", index, " is missing, of another kind or used too often"));
    }
    return Status::ok();
  }

  Status readManifest() {
    TENON_ASSIGN(manifest, decodeManifest(section(0)));
    std::optional<uint64_t> bytes = layOutWeights(manifest.weights);
    if (bytes != sections.back().bytes) {
      return damaged(ErrorId::EngineBadManifest, "the weights do not fill their section");
    }
    std::map<uint32_t, size_t> claimed;
    std::set<std::string_view> names;
    if (manifest.variants.empty()) {
      return damaged(ErrorId::EngineBadManifest, "the engine has no variant");
    }
    for (const VariantEntry &variant : manifest.variants) {
      TENON_TRY(claim(variant.planSection, SectionKind::Plan, claimed));
      TENON_TRY(claim(variant.codeSection, SectionKind::Code, claimed));
      if (variant.cubinSection != 0) {
        TENON_TRY(claim(variant.cubinSection, SectionKind::Code, claimed));
      }
      if (variant.level.empty()) {
        return damaged(ErrorId::EngineBadManifest, "a variant has no name");
      }
    }
    names.clear();
    for (const RecordEntry &record : manifest.records) {
      TENON_TRY(claim(record.section, SectionKind::Record, claimed));
      if (record.name.empty() || !names.insert(record.name).second) {
        return damaged(ErrorId::EngineBadManifest, "a record has no name, or a name that is taken");
      }
    }
    if (claimed.size() + 3 != sections.size()) {
      return damaged(ErrorId::EngineBadManifest, "a section belongs to nothing");
    }
    return Status::ok();
  }

  Status checkVariant(const Plan &plan, const VariantEntry &entry) const {
    Bytes cubin = entry.cubinSection == 0 ? Bytes() : section(entry.cubinSection);
    return validateVariant(entry, plan, manifest.weights, section(entry.codeSection), cubin);
  }

  Status readVariant(const VariantEntry &entry) {
    Variant variant;
    variant.level = entry.level;
    variant.kernels = entry.kernels;
    variant.architecture = entry.architecture;
    variant.features = entry.features;
    Result<Plan> plan = decodePlan(section(entry.planSection));
    Status status = plan.isOk() ? checkVariant(*plan, entry) : plan.takeStatus();
    TENON_TRY(status.prefix(strCat("variant '", entry.level, "'")));
    variant.plan = std::move(*plan);
    auto general = std::ranges::find(variants, variant.level, &Variant::level);
    if (general != variants.end()) {
      Status isSame = validateSameModel(general->plan, variant.plan);
      TENON_TRY(isSame.prefix(strCat("another variant '", entry.level, "'")));
    }
    variants.push_back(std::move(variant));
    return Status::ok();
  }

  Status mapWeights(const Source &source) {
    const SectionEntry &entry = sections.back();
    if (const FileReader *file = source.reader()) {
      TENON_ASSIGN(mapped, MappedFile::map(*file, entry.offset, entry.bytes));
      weights = mapped.bytes();
      return Status::ok();
    }
    weights = source.memory().subspan(entry.offset, entry.bytes);
    if (reinterpret_cast<uintptr_t>(weights.data()) % kBufferAlignment != 0) {
      TENON_ASSIGN(copied, AlignedBuffer::create(entry.bytes));
      TENON_TRY(source.read(entry.offset, copied.bytes()));
      weights = copied.bytes();
    }
    return Status::ok();
  }
};

EngineFile::EngineFile(std::unique_ptr<Impl> implementation) : impl(std::move(implementation)) {}
EngineFile::~EngineFile() = default;

Result<std::unique_ptr<EngineFile>> EngineFile::open(const std::string &path) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  std::unique_ptr<Impl> impl = std::make_unique<Impl>();
  Status status = impl->load(Source(std::move(file)));
  TENON_TRY(status.prefix(strCat("engine '", path, "'")));
  return std::unique_ptr<EngineFile>(new EngineFile(std::move(impl)));
}

Result<std::unique_ptr<EngineFile>> EngineFile::fromMemory(Bytes image) {
  std::unique_ptr<Impl> impl = std::make_unique<Impl>();
  Status status = impl->load(Source(image));
  TENON_TRY(status.prefix("engine in memory"));
  return std::unique_ptr<EngineFile>(new EngineFile(std::move(impl)));
}

std::span<const Variant> EngineFile::variants() const { return impl->variants; }

Bytes EngineFile::code(size_t variant) const {
  return impl->section(impl->manifest.variants[variant].codeSection);
}

Bytes EngineFile::cubin(size_t variant) const {
  uint32_t index = impl->manifest.variants[variant].cubinSection;
  return index == 0 ? Bytes() : impl->section(index);
}

const std::string &EngineFile::cubinBy(size_t variant) const {
  return impl->manifest.variants[variant].cubinBy;
}

std::span<const Weight> EngineFile::weights() const { return impl->manifest.weights; }

Bytes EngineFile::weightsSection() const { return impl->weights; }

void EngineFile::populateWeights() const { impl->mapped.populate(); }

const Provenance &EngineFile::provenance() const { return impl->manifest.provenance; }

uint64_t EngineFile::fileBytes() const { return impl->fileBytes; }

std::vector<std::string> EngineFile::recordNames() const {
  std::vector<std::string> names;
  for (const RecordEntry &record : impl->manifest.records) {
    names.push_back(record.name);
  }
  return names;
}

Result<std::string_view> EngineFile::record(std::string_view name) const {
  for (const RecordEntry &record : impl->manifest.records) {
    if (record.name != name) {
      continue;
    }
    if (!impl->checkHash(record.section).isOk()) {
      return damaged(ErrorId::EngineBadRecord,
                     strCat("record '", name, "' does not match its hash"));
    }
    Bytes text = impl->section(record.section);
    return std::string_view(reinterpret_cast<const char *>(text.data()), text.size());
  }
  return Status::error(ErrorId::EngineBadRecord, strCat("the engine has no record '", name, "'"),
                       "compile the model with this release to record it");
}

Status EngineFile::verifyWeights() const {
  std::vector<uint64_t> blocks(impl->weightBlocks());
  std::iota(blocks.begin(), blocks.end(), 0);
  return impl->compareBlocks(blocks);
}

Status EngineFile::verifyWeights(std::span<const size_t> variants) const {
  std::set<uint64_t> blocks;
  for (size_t variant : variants) {
    for (const Buffer &buffer : impl->variants[variant].plan.buffers) {
      if (buffer.weight == kNone) {
        continue;
      }
      const Weight &weight = impl->manifest.weights[buffer.weight];
      for (uint64_t at = weight.offset / kWeightBlock * kWeightBlock;
           at < weight.offset + weight.bytesOfAll(); at += kWeightBlock) {
        blocks.insert(at / kWeightBlock);
      }
    }
  }
  return impl->compareBlocks(std::vector<uint64_t>(blocks.begin(), blocks.end()));
}

} // namespace tenon::engine
