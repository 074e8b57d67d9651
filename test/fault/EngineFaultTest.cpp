// Damaged and hostile engine files: every truncation and every bit flip before the weights must be
// refused, and plans changed at random behind correct hashes must never break the runtime.

#include "engine/Format.h"
#include "engine/Reader.h"
#include "runtime/core/Engine.h"
#include "runtime/core/Session.h"
#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

namespace tenon {
namespace {

using namespace tenon::engine;

std::vector<std::byte> smallEngine() {
  test::TestEngine engine(test::dynamicPlan(), test::productWeights());
  return test::readFile(engine.writeTemporary("small.tenon"));
}

std::vector<SectionEntry> sectionsOf(const std::vector<std::byte> &image) {
  FileHeader header;
  std::memcpy(&header, image.data(), sizeof(header));
  std::vector<SectionEntry> sections(header.sectionCount);
  std::memcpy(sections.data(), image.data() + sizeof(header),
              sections.size() * sizeof(SectionEntry));
  return sections;
}

/// Whether a load fails as a bad file should: with an error of the engine's range.
bool isRefused(Bytes image) {
  ErrorId id = EngineFile::fromMemory(image).status().id();
  return id >= ErrorId::EngineTooShort && id <= ErrorId::EngineBadRecord;
}

TEST(EngineFault, DetectorAcceptsTheWhole) {
  std::vector<std::byte> image = smallEngine();
  EXPECT_FALSE(isRefused(image));
  // A flip in the weights is not seen by loading, so the detector of flips can come out negative.
  image.back() ^= std::byte(1);
  EXPECT_FALSE(isRefused(image));
  Result<std::unique_ptr<EngineFile>> file = EngineFile::fromMemory(image);
  EXPECT_EQ(ErrorId::EngineWeightsHashMismatch, (*file)->verifyWeights().id());
}

TEST(EngineFault, EveryTruncationIsRefused) {
  std::vector<std::byte> image = smallEngine();
  for (size_t size = 0; size < image.size(); ++size) {
    ASSERT_TRUE(isRefused(Bytes(image).first(size))) << size << " of " << image.size();
  }
}

TEST(EngineFault, EveryBitFlipIsRefused) {
  std::vector<std::byte> image = smallEngine();
  uint64_t recordAt = 0;
  uint64_t recordEnd = 0;
  for (const SectionEntry &section : sectionsOf(image)) {
    if (section.kind == SectionKind::Record) {
      recordAt = section.offset;
      recordEnd = section.offset + section.bytes;
    }
  }
  uint64_t weightsAt = sectionsOf(image).back().offset;
  for (uint64_t byte = 0; byte < weightsAt; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      image[byte] ^= std::byte(1 << bit);
      if (byte >= recordAt && byte < recordEnd) {
        // Records are text for people: checked when they are read.
        ASSERT_EQ(ErrorId::EngineBadRecord,
                  (*EngineFile::fromMemory(image))->record("memory").status().id());
      } else {
        ASSERT_TRUE(isRefused(image)) << "byte " << byte << " bit " << bit;
      }
      image[byte] ^= std::byte(1 << bit);
    }
  }
  for (uint64_t byte = weightsAt; byte < image.size(); ++byte) {
    image[byte] ^= std::byte(0x10);
    ASSERT_EQ(ErrorId::EngineWeightsHashMismatch,
              (*EngineFile::fromMemory(image))->verifyWeights().id());
    image[byte] ^= std::byte(0x10);
  }
}

/// Makes all hashes right again after a change, as someone hostile would.
void rehash(std::vector<std::byte> &image) {
  FileHeader header;
  std::memcpy(&header, image.data(), sizeof(header));
  std::vector<SectionEntry> sections = sectionsOf(image);
  for (SectionEntry &section : sections) {
    if (section.kind != SectionKind::Weights) {
      Hash128 hash = hashBytes(Bytes(image).subspan(section.offset, section.bytes));
      section.hashLow = hash.low;
      section.hashHigh = hash.high;
    }
  }
  Hash128 hash = headerHash(header, sections);
  header.hashLow = hash.low;
  header.hashHigh = hash.high;
  std::memcpy(image.data(), &header, sizeof(header));
  std::memcpy(image.data() + sizeof(header), sections.data(),
              sections.size() * sizeof(SectionEntry));
}

/// Opens, and prepares a few shapes where that works; the kernels are native code and not run.
ErrorId openAndPrepare(Bytes image) {
  Result<std::shared_ptr<const runtime::Engine>> engine = runtime::Engine::fromMemory(image);
  if (!engine.isOk()) {
    return engine.status().id();
  }
  Result<std::unique_ptr<runtime::Session>> session =
      runtime::Session::create(*engine, {.threads = 1, .memoryLimit = uint64_t(16) << 20});
  if (!session.isOk()) {
    return session.status().id();
  }
  for (int64_t batch : {int64_t(1), int64_t(64), int64_t(1) << 40}) {
    int64_t dims[] = {batch, 8};
    std::span<const int64_t> all[] = {dims};
    Status status = (*session)->prepare(all);
    if (!status.isOk() && batch == 1) {
      return status.id();
    }
  }
  return ErrorId::None;
}

TEST(EngineFault, HostilePlansAreRefusedOrHarmless) {
  const std::vector<std::byte> good = smallEngine();
  const std::vector<SectionEntry> sections = sectionsOf(good);
  std::mt19937 random(20261121);
  std::map<ErrorId, int> seen;
  for (int round = 0; round < 30000; ++round) {
    std::vector<std::byte> image = good;
    const SectionEntry &target = sections[random() % 2]; // manifest or plan
    int changes = 1 + static_cast<int>(random() % 3);
    for (int change = 0; change < changes; ++change) {
      size_t at = target.offset + random() % target.bytes;
      image[at] = random() % 2 ? image[at] ^ std::byte(1 << random() % 8)
                               : std::byte(static_cast<uint8_t>(random()));
    }
    rehash(image);
    ++seen[openAndPrepare(image)];
  }
  // The changes reach deep: malformed buffers, broken rules of every class, and harmless ones.
  EXPECT_GT(seen[ErrorId::None], 100);
  for (ErrorId id :
       {ErrorId::EngineBadManifest, ErrorId::EngineBadPlan, ErrorId::EngineBadExpression,
        ErrorId::EngineBadPort, ErrorId::EngineBadBuffer, ErrorId::EngineBadInstruction,
        ErrorId::EngineUnsupportedInstruction, ErrorId::RunInputDim}) {
    EXPECT_GT(seen[id], 0) << nameOf(id);
  }
}

} // namespace
} // namespace tenon
