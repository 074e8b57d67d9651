// Engine files: written and read back, equal bytes for equal content, and what the outer layout
// refuses. Every truncation and bit flip is tried in test/fault.

#include "engine/Format.h"
#include "engine/Reader.h"
#include "engine/Writer.h"
#include "support/memory/AlignedBuffer.h"
#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

namespace tenon::engine {
namespace {

using test::TestEngine;

TEST(EngineFile, RoundTrip) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  std::string path = engine.writeTemporary("round.tenon");
  Result<std::unique_ptr<EngineFile>> file = EngineFile::open(path);
  ASSERT_TRUE(file.isOk()) << file.status().toString();
  ASSERT_EQ(1u, (*file)->variants().size());
  const Variant &variant = (*file)->variants()[0];
  EXPECT_EQ("x86-64-v3", variant.level);
  EXPECT_EQ(test::kernelNames(), variant.kernels);
  EXPECT_EQ(3u, variant.plan.instructions.size());
  Bytes code = (*file)->code(0);
  EXPECT_TRUE(std::equal(code.begin(), code.end(), engine.code.begin(), engine.code.end()));
  ASSERT_EQ(1u, (*file)->weights().size());
  EXPECT_EQ("w", (*file)->weights()[0].name);
  Bytes weights = (*file)->weightsSection();
  ASSERT_EQ(96u, weights.size());
  EXPECT_EQ(0, std::memcmp(weights.data(), engine.weights[0].bytes.data(), 96));
  EXPECT_EQ("model-hash", (*file)->provenance().model);
  EXPECT_EQ(std::vector<std::string>{"memory"}, (*file)->recordNames());
  EXPECT_EQ("{\"arena\": 1}", *(*file)->record("memory"));
  EXPECT_EQ(ErrorId::EngineBadRecord, (*file)->record("none").status().id());
  EXPECT_TRUE((*file)->verifyWeights().isOk());
  EXPECT_EQ(std::filesystem::file_size(path), (*file)->fileBytes());
}

TEST(EngineFile, EqualContentGivesEqualBytes) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  std::string first = engine.writeTemporary("first.tenon");
  std::string second = test::temporaryPath("second.tenon");
  // The same weights in pieces of other sizes.
  Result<EngineFileSize> written =
      writeEngine(second, engine.content, [&](uint32_t index, uint32_t, const ByteSink &sink) {
        for (const std::byte &byte : engine.weights[index].bytes) {
          TENON_TRY(sink(Bytes(&byte, 1)));
        }
        return Status::ok();
      });
  ASSERT_TRUE(written.isOk());
  EXPECT_EQ(test::readFile(first), test::readFile(second));
  EXPECT_EQ(std::filesystem::file_size(first), written->fileBytes);
}

TEST(EngineFile, AlignsWeights) {
  std::vector<float> large(9 << 18); // 9 MiB: three hashed blocks
  for (size_t i = 0; i < large.size(); ++i) {
    large[i] = static_cast<float>(i % 1000);
  }
  std::vector<test::WeightData> weights = {test::floats("w", std::vector<float>(24, 1.0f)),
                                           test::floats("odd", std::vector<float>(3, 2.0f)),
                                           test::floats("large", large)};
  TestEngine engine(test::dynamicPlan(), weights);
  std::string path = engine.writeTemporary("large.tenon");
  Result<std::unique_ptr<EngineFile>> file = EngineFile::open(path);
  ASSERT_TRUE(file.isOk()) << file.status().toString();
  EXPECT_TRUE((*file)->verifyWeights().isOk());
  uint64_t sectionAt = (*file)->fileBytes() - (*file)->weightsSection().size();
  EXPECT_EQ(0u, sectionAt % kLargeWeights);
  for (size_t i = 0; i < weights.size(); ++i) {
    const Weight &weight = (*file)->weights()[i];
    EXPECT_EQ(0u, weight.offset % kBufferAlignment);
    EXPECT_EQ(0, std::memcmp((*file)->weightsSection().data() + weight.offset,
                             weights[i].bytes.data(), weight.bytes));
  }

  // One byte in the second block.
  std::vector<std::byte> image = test::readFile(path);
  image[sectionAt + kWeightBlock + 5] ^= std::byte(1);
  std::string damaged = test::temporaryPath("damaged.tenon");
  test::writeFile(damaged, image);
  file = EngineFile::open(damaged);
  ASSERT_TRUE(file.isOk());
  Status status = (*file)->verifyWeights();
  EXPECT_EQ(ErrorId::EngineWeightsHashMismatch, status.id());
  EXPECT_NE(std::string_view::npos, status.message().find("4194304 to 8388608"))
      << status.message();
  // The plan reads the first block only.
  const size_t variant = 0;
  EXPECT_TRUE((*file)->verifyWeights(std::span(&variant, 1)).isOk());
  image[sectionAt] ^= std::byte(1);
  test::writeFile(damaged, image);
  file = EngineFile::open(damaged);
  ASSERT_TRUE(file.isOk());
  EXPECT_EQ(ErrorId::EngineWeightsHashMismatch,
            (*file)->verifyWeights(std::span(&variant, 1)).id());
}

TEST(EngineFile, RefusesWrongWeightSources) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  std::string path = test::temporaryPath("wrong.tenon");
  std::vector<std::byte> tooLong(97);
  for (size_t size : {0, 95, 97}) {
    Result<EngineFileSize> written =
        writeEngine(path, engine.content, [&](uint32_t, uint32_t, const ByteSink &sink) {
          return sink(Bytes(tooLong).first(size));
        });
    EXPECT_EQ(ErrorId::EngineWeightsSource, written.status().id()) << size;
  }
  // A source may fail for its own reason.
  Result<EngineFileSize> written =
      writeEngine(path, engine.content, [&](uint32_t, uint32_t, const ByteSink &) {
        return Status::error(ErrorId::FileReadFailed, "gone");
      });
  EXPECT_EQ(ErrorId::FileReadFailed, written.status().id());
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (const std::filesystem::directory_entry &entry :
       std::filesystem::directory_iterator(folder)) {
    EXPECT_EQ(std::string::npos, entry.path().string().find("wrong.tenon")) << entry.path();
  }
}

TEST(EngineFile, RefusesToWriteBadContent) {
  Plan plan = test::dynamicPlan();
  plan.instructions.pop_back();
  TestEngine noReturn(plan, test::productWeights());
  EXPECT_EQ(ErrorId::EngineBadInstruction,
            noReturn.write(test::temporaryPath("bad.tenon")).status().id());
  TestEngine badCode(test::dynamicPlan(), test::productWeights(), "needed");
  EXPECT_EQ(ErrorId::EngineBadCode, badCode.write(test::temporaryPath("bad.tenon")).status().id());
}

TEST(EngineFile, ReadsFromMemoryAtAnyAddress) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  std::vector<std::byte> image = test::readFile(engine.writeTemporary("memory.tenon"));
  AlignedBuffer room = std::move(*AlignedBuffer::create(image.size() + 1));
  for (size_t shift : {0, 1}) {
    std::memcpy(room.data() + shift, image.data(), image.size());
    Result<std::unique_ptr<EngineFile>> file =
        EngineFile::fromMemory(Bytes(room.data() + shift, image.size()));
    ASSERT_TRUE(file.isOk()) << file.status().toString();
    Bytes weights = (*file)->weightsSection();
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(weights.data()) % kBufferAlignment);
    EXPECT_EQ(0, std::memcmp(weights.data(), engine.weights[0].bytes.data(), weights.size()));
    EXPECT_TRUE((*file)->verifyWeights().isOk());
  }
}

ErrorId openChanged(const std::vector<std::byte> &image, size_t offset, std::byte value) {
  std::vector<std::byte> changed = image;
  changed[offset] = value;
  return EngineFile::fromMemory(changed).status().id();
}

TEST(EngineFile, NamesTheFault) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  std::vector<std::byte> image = test::readFile(engine.writeTemporary("fault.tenon"));
  EXPECT_EQ(ErrorId::EngineBadMagic, openChanged(image, 0, std::byte('P')));
  EXPECT_EQ(ErrorId::EngineBadVersion, openChanged(image, 8, std::byte(9)));
  EXPECT_EQ(ErrorId::EngineHashMismatch, openChanged(image, 24, ~image[24]));
  EXPECT_EQ(ErrorId::EngineHashMismatch, openChanged(image, 64 + 8, std::byte(1)));
  EXPECT_EQ(ErrorId::EngineBadMagic, EngineFile::fromMemory({}).status().id());
  EXPECT_EQ(ErrorId::EngineTooShort, EngineFile::fromMemory(Bytes(image).first(20)).status().id());
  EXPECT_EQ(ErrorId::EngineTooShort,
            EngineFile::fromMemory(Bytes(image).first(image.size() - 1)).status().id());
  image.push_back(std::byte(0));
  EXPECT_EQ(ErrorId::EngineTrailingBytes, EngineFile::fromMemory(image).status().id());
  EXPECT_EQ(ErrorId::FileNotFound, EngineFile::open("/nowhere.tenon").status().id());
  EXPECT_EQ(ErrorId::FileNotRegular, EngineFile::open("/dev/zero").status().id());
}

/// Changes section entries and makes the header's hash right again, as a hostile writer would.
template <typename Fn> ErrorId openWithTable(std::vector<std::byte> image, const Fn &change) {
  FileHeader header;
  std::memcpy(&header, image.data(), sizeof(header));
  std::vector<SectionEntry> sections(header.sectionCount);
  size_t tableBytes = sections.size() * sizeof(SectionEntry);
  std::memcpy(sections.data(), image.data() + sizeof(header), tableBytes);
  change(header, sections);
  Hash128 hash = headerHash(header, sections);
  header.hashLow = hash.low;
  header.hashHigh = hash.high;
  std::memcpy(image.data(), &header, sizeof(header));
  std::memcpy(image.data() + sizeof(header), sections.data(), tableBytes);
  return EngineFile::fromMemory(image).status().id();
}

uint32_t versionOf(std::span<const std::byte> image) {
  FileHeader header;
  std::memcpy(&header, image.data(), sizeof(header));
  return header.version;
}

/// What is new in a version shows in it, and an engine without it is one of the version before,
/// which runtimes of before load.
TEST(EngineFile, HasTheLowestVersionThatSaysItAll) {
  test::PlanBuilder builder;
  builder.plan = test::dynamicPlan();
  TestEngine plain(builder.plan, test::productWeights());
  std::vector<std::byte> image = test::readFile(plain.writeTemporary("version5.tenon"));
  EXPECT_EQ(5u, versionOf(image));
  auto openAs = [&](uint32_t version) {
    return openWithTable(image,
                         [&](FileHeader &h, std::vector<SectionEntry> &) { h.version = version; });
  };
  EXPECT_EQ(ErrorId::None, openAs(5));
  EXPECT_EQ(ErrorId::None, openAs(6));
  EXPECT_EQ(ErrorId::EngineBadVersion, openAs(4));
  EXPECT_EQ(ErrorId::None, openAs(8));
  EXPECT_EQ(ErrorId::EngineBadVersion, openAs(9));

  test::PlanBuilder ofSession;
  ExprId pages = ofSession.sessionSymbol("pages", 2, 4096, 64);
  uint32_t x = ofSession.input("x", DType::F32, {ofSession.size(4)});
  ofSession.stateOf(pages);
  ofSession.launch(test::Nothing, {x}, {}, ofSession.size(1));
  ofSession.finish();
  TestEngine with(ofSession.plan, {});
  EXPECT_EQ(6u, versionOf(test::readFile(with.writeTemporary("version6.tenon"))));
  ofSession.plan.ranks = 2;
  TestEngine ofRanks(ofSession.plan, {});
  EXPECT_EQ(7u, versionOf(test::readFile(ofRanks.writeTemporary("version7.tenon"))));
  ofSession.plan.stages = 2;
  TestEngine ofStages(ofSession.plan, {});
  EXPECT_EQ(8u, versionOf(test::readFile(ofStages.writeTemporary("version8.tenon"))));
}

TEST(EngineFile, RefusesHostileTables) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  std::vector<std::byte> image = test::readFile(engine.writeTemporary("table.tenon"));
  using Sections = std::vector<SectionEntry>;
  const ErrorId bad = ErrorId::EngineBadSectionTable;
  EXPECT_EQ(ErrorId::None, openWithTable(image, [](FileHeader &, Sections &) {}));
  EXPECT_EQ(bad, openWithTable(image, [](FileHeader &h, Sections &) { h.reserved[1] = 1; }));
  EXPECT_EQ(bad, openWithTable(image, [](FileHeader &, Sections &s) { s[1].reserved[0] = 1; }));
  EXPECT_EQ(bad, openWithTable(image, [](FileHeader &, Sections &s) { s[1].offset += 64; }));
  EXPECT_EQ(bad, openWithTable(image, [](FileHeader &, Sections &s) { s[1].bytes += 640; }));
  EXPECT_EQ(bad, openWithTable(image, [](FileHeader &, Sections &s) { s[1].bytes = UINT64_MAX; }));
  EXPECT_EQ(bad, openWithTable(
                     image, [](FileHeader &, Sections &s) { s[1].kind = SectionKind::Weights; }));
  EXPECT_EQ(bad, openWithTable(image, [](FileHeader &, Sections &s) {
              s[1].kind = static_cast<SectionKind>(99);
            }));
  EXPECT_EQ(bad, openWithTable(image, [](FileHeader &, Sections &s) { s.back().hashLow = 1; }));
  EXPECT_EQ(ErrorId::EngineBadManifest, openWithTable(image, [](FileHeader &, Sections &s) {
              s[1].kind = SectionKind::Record;
            }));
}

} // namespace
} // namespace tenon::engine
