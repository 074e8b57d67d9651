// What PTX must not be, and that the checks see through comments and blanks.

#include "engine/code/PtxCheck.h"

#include "engine/Reader.h"
#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

#include <ctime>

namespace tenon::engine {
namespace {

const std::string kGood = "//\n// Generated\n/* twice\n */\n.version 8.0\n.target sm_90\n"
                          ".address_size 64\n.extern .shared .b8 memory[];\n"
                          ".visible .entry k(.param .u64 k_0)\n{\n\tret;\n}\n";

Status check(const std::string &text, std::string_view target = "sm_90") {
  std::string ended = text + '\0';
  return checkPtx(std::as_bytes(std::span(ended)), target);
}

TEST(PtxCheck, AcceptsWhatTheCompilerWrites) {
  EXPECT_TRUE(check(kGood).isOk()) << check(kGood).toString();
  EXPECT_TRUE(check(".version 8.0 .target sm_90a, debug", "sm_90a,").isOk());
  EXPECT_TRUE(check(kGood + "// .extern .func in a comment is none\n").isOk());
  EXPECT_TRUE(check(kGood + ".extern /* .func */ .shared .b8 more[];").isOk());
}

TEST(PtxCheck, RefusesTheRest) {
  EXPECT_FALSE(checkPtx({}, "sm_90").isOk());
  EXPECT_FALSE(checkPtx(std::as_bytes(std::span(kGood)), "sm_90").isOk()) << "no zero at the end";
  for (const std::string &bad :
       {std::string(""), std::string("// .version 8.0\n"), "x" + kGood, kGood + '\0',
        kGood + '\x80', kGood + '\x1b', kGood + ".extern .func f;", kGood + ".extern\n\t.func f;",
        kGood + ".extern/**/.func(.param .b32 r) f;", std::string(".version 8.0\n")}) {
    Status status = check(bad);
    EXPECT_EQ(ErrorId::EngineBadCode, status.id()) << bad;
  }
  EXPECT_FALSE(check(kGood, "sm_80").isOk()) << "PTX of another architecture";
  EXPECT_FALSE(check(kGood, "sm_90a").isOk());
}

TEST(PtxCheck, GuardsWriterAndReader) {
  // A variant for a GPU is written with PTX and read back; with the code of a CPU it is refused.
  test::TestEngine engine(test::staticPlan(), test::productWeights());
  Variant &variant = engine.content.variants[0].variant;
  for (Buffer &buffer : variant.plan.buffers) {
    buffer.device = kGpu;
  }
  for (Instruction &instruction : variant.plan.instructions) {
    instruction.device = kGpu;
    instruction.threads = instruction.kind == InstructionKind::Launch ? 32 : 0;
  }
  std::string path = test::temporaryPath("ptx.tenon");
  EXPECT_EQ(ErrorId::EngineBadBuffer, engine.write(path).status().id()) << "still of a CPU level";
  variant.level = "sm_90";
  EXPECT_EQ(ErrorId::EngineBadCode, engine.write(path).status().id());
  std::string ptx = kGood + '\0';
  engine.content.variants[0].code = std::as_bytes(std::span(ptx));
  Result<EngineFileSize> written = engine.write(path);
  ASSERT_TRUE(written.isOk()) << written.status().toString();
  Result<std::unique_ptr<EngineFile>> file = EngineFile::open(path);
  ASSERT_TRUE(file.isOk()) << file.status().toString();
  EXPECT_EQ(32u, (*file)->variants()[0].plan.instructions[0].threads);
  EXPECT_EQ(kGpu, (*file)->variants()[0].plan.buffers[0].device);
  EXPECT_TRUE((*file)->cubin(0).empty());
  // Machine code beside it comes back with the name of who made it; what is no cubin is refused.
  std::vector<std::byte> cubin = test::cubinHeader();
  cubin.resize(100, std::byte(7));
  engine.content.variants[0].cubin = cubin;
  engine.content.variants[0].cubinBy = "ptxas 1.2.3";
  ASSERT_TRUE(engine.write(path).isOk());
  file = EngineFile::open(path);
  ASSERT_TRUE(file.isOk()) << file.status().toString();
  EXPECT_TRUE(std::ranges::equal(cubin, (*file)->cubin(0)));
  EXPECT_EQ("ptxas 1.2.3", (*file)->cubinBy(0));
  for (size_t changed : {0, 4, 18}) {
    std::vector<std::byte> bad = cubin;
    bad[changed] ^= std::byte(1);
    engine.content.variants[0].cubin = bad;
    EXPECT_EQ(ErrorId::EngineBadCode, engine.write(path).status().id()) << changed;
  }
  engine.content.variants[0].cubin = Bytes(cubin).first(10);
  EXPECT_EQ(ErrorId::EngineBadCode, engine.write(path).status().id());
}

/// Words of one letter each, in twice the text, take about twice the time; not four times.
TEST(PtxCheck, TakesTimeInProportionToTheText) {
  auto secondsOf = [](size_t words) {
    std::string text = kGood;
    for (size_t i = 0; i < words; ++i) {
      text += "a/b ";
    }
    text += '\0';
    std::clock_t start = std::clock(); // of this process alone: others on the machine do not count
    EXPECT_TRUE(checkPtx(std::as_bytes(std::span(text)), "sm_90").isOk());
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  // Searching all of the rest for each of these words would take minutes.
  EXPECT_LT(secondsOf(4 << 20), 5);
}

} // namespace
} // namespace tenon::engine
