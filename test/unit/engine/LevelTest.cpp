// Levels: what the table says, variants of several architectures in one file, and code that is not
// of the architecture that its level states.

#include "engine/Level.h"
#include "engine/Reader.h"
#include "engine/Writer.h"
#include "engine/codec/PlanCodec.h"
#include "engine/validate/ValidateVariant.h"
#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

#include <cstring>
#include <elf.h>
#include <set>

namespace tenon::engine {
namespace {

using test::TestEngine;

TEST(Level, TheTableNamesEachOnceAndBetterOnesLater) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kLevels.size(); ++i) {
    const Level &level = kLevels[i];
    EXPECT_TRUE(names.insert(level.name).second) << level.name;
    EXPECT_EQ(&level, findLevel(level.name));
    EXPECT_NE(0u, level.features) << level.name;
    for (size_t k = 0; k < i; ++k) {
      bool isWithin = kLevels[k].architecture == level.architecture &&
                      (level.features & ~kLevels[k].features) == 0;
      EXPECT_FALSE(isWithin) << level.name << " asks for no more than " << kLevels[k].name;
    }
  }
  EXPECT_EQ(nullptr, findLevel("armv8"));
  for (const CudaArch &arch : kCudaArchs) {
    EXPECT_EQ(Architecture::Nvptx, findLevel(arch.name)->architecture);
  }
}

TEST(Level, FeaturesHaveNames) {
  auto textOf = [](std::string_view name) {
    const Level *level = findLevel(name);
    return featureText(level->architecture, level->features);
  };
  EXPECT_EQ("avx2, avx512", textOf("avx512"));
  EXPECT_EQ("neon, armv8.2-a, dotprod", textOf("armv8.2-a+dotprod"));
  EXPECT_EQ("sm_90a", textOf("sm_90a"));
  EXPECT_EQ("neon, bit 31", featureText(Architecture::AArch64, 0x80000001));
}

/// An engine for x86-64 and Arm.
struct TwoArchitectures : TestEngine {
  TwoArchitectures() : TestEngine(test::dynamicPlan(), test::productWeights()) {
    add("armv8-a");
    add("armv8.2-a+dotprod");
  }
  void add(const std::string &level) {
    content.variants.push_back(
        {{level, content.variants[0].variant.plan, test::kernelNames()}, arm});
  }
  std::vector<std::byte> arm = test::codeObject("arm");
};

TEST(Level, ArchitecturesLieSideBySide) {
  TwoArchitectures engine;
  Result<std::unique_ptr<EngineFile>> file =
      EngineFile::open(engine.writeTemporary("side-by-side.tenon"));
  ASSERT_TRUE(file.isOk()) << file.status().toString();
  ASSERT_EQ(3u, (*file)->variants().size());
  for (const Variant &variant : (*file)->variants()) {
    const Level *level = findLevel(variant.level);
    EXPECT_EQ(level->architecture, variant.architecture) << variant.level;
    EXPECT_EQ(level->features, variant.features) << variant.level;
  }
  Elf64_Ehdr header;
  std::memcpy(&header, (*file)->code(1).data(), sizeof(header));
  EXPECT_EQ(EM_AARCH64, header.e_machine);
}

TEST(Level, CodeIsOfTheArchitectureThatItsLevelStates) {
  for (auto [level, code, names] :
       {std::tuple("armv8-a", "two", "machine 62, but its level is one of aarch64"),
        std::tuple("avx512", "arm", "machine 183, but its level is one of x86-64"),
        std::tuple("sm_90", "two", "PTX")}) {
    TestEngine engine(test::dynamicPlan(), test::productWeights(), code);
    Variant &variant = engine.content.variants[0].variant;
    variant.level = level;
    bool isGpu = findLevel(level)->architecture == Architecture::Nvptx;
    for (Buffer &buffer : variant.plan.buffers) {
      buffer.device = isGpu ? kGpu : kHost;
    }
    for (Instruction &instruction : variant.plan.instructions) {
      instruction.device = isGpu ? kGpu : kHost;
      instruction.threads = isGpu && instruction.kind == InstructionKind::Launch ? 32 : 0;
    }
    Status status = engine.write(test::temporaryPath("mixed.tenon")).takeStatus();
    EXPECT_EQ(ErrorId::EngineBadCode, status.id()) << status.toString();
    EXPECT_NE(std::string_view::npos, status.message().find(names)) << status.message();
  }
}

TEST(Level, TheFileSaysWhatTheNameDoes) {
  TestEngine engine(test::dynamicPlan(), test::productWeights());
  const Plan &plan = engine.content.variants[0].variant.plan;
  auto statusOf = [&](const std::string &level, uint8_t architecture, uint32_t features) {
    VariantEntry entry;
    entry.level = level;
    entry.kernels = test::kernelNames();
    entry.architecture = static_cast<Architecture>(architecture);
    entry.features = features;
    return validateVariant(entry, plan, engine.content.weights, engine.code, {}).id();
  };
  EXPECT_EQ(ErrorId::None, statusOf("x86-64-v3", 0, x86::kAvx2));
  EXPECT_EQ(ErrorId::None, statusOf("of a later release", 0, 0x8000));
  EXPECT_EQ(ErrorId::EngineBadManifest, statusOf("avx512", 0, x86::kAvx2)) << "too few features";
  EXPECT_EQ(ErrorId::EngineBadManifest, statusOf("armv8-a", 0, arm::kNeon));
  EXPECT_EQ(ErrorId::EngineBadManifest, statusOf("of a later release", 9, 0));
  EXPECT_EQ(ErrorId::EngineBadCode, statusOf("of a later release", 1, 0x8000));
}

} // namespace
} // namespace tenon::engine
