// Shapes, value ranges and targets of the command line.

#include "runtime/tensors/ShapeText.h"
#include "tools/tenon/target/Target.h"

#include <gtest/gtest.h>

namespace tenon::tool {
namespace {

TEST(ShapeText, ReadsConstantsRangesAndKeptDims) {
  Result<ShapeArgument> shape = parseShapeArgument("input:0:[1..32]x?x3x0");
  ASSERT_TRUE(shape.isOk()) << shape.status().toString();
  EXPECT_EQ(shape->input, "input:0");
  ASSERT_EQ(shape->dims.size(), 4u);
  EXPECT_EQ(shape->dims[0].min, 1);
  EXPECT_EQ(shape->dims[0].max, 32);
  EXPECT_TRUE(shape->dims[1].keep);
  EXPECT_EQ(shape->dims[2].min, 3);
  EXPECT_EQ(shape->dims[2].max, 3);
  EXPECT_EQ(shape->dims[3].max, 0);
}

TEST(ShapeText, ReadsScalars) {
  Result<ShapeArgument> shape = parseShapeArgument("x:");
  ASSERT_TRUE(shape.isOk());
  EXPECT_TRUE(shape->dims.empty());
}

TEST(ShapeText, RefusesNonsense) {
  for (const char *text :
       {"", "x", ":1x2", "x:1x", "x:x1", "x:1xxx2", "x:-1", "x:[3..2]", "x:[1..]", "x:[..2]",
        "x:[1.2]", "x:1.5", "x:99999999999999999999", "x: 1", "x:[1..2"}) {
    Result<ShapeArgument> shape = parseShapeArgument(text);
    ASSERT_FALSE(shape.isOk()) << text;
    EXPECT_EQ(shape.status().code(), Code::Usage);
  }
}

TEST(FillText, ReadsRanges) {
  Result<FillArgument> fill = parseFillArgument("ids:0..30521");
  ASSERT_TRUE(fill.isOk());
  EXPECT_EQ(fill->input, "ids");
  EXPECT_EQ(fill->high, 30521);
  EXPECT_EQ(parseFillArgument("x:-1.5..2")->low, -1.5);
  for (const char *text : {"", "x", "x:1", "x:2..1", "x:a..b", "x:0..inf", "x:..1", ":0..1"}) {
    EXPECT_FALSE(parseFillArgument(text).isOk()) << text;
  }
}

std::vector<std::string_view> names(const std::vector<target::Target> &gpus) {
  std::vector<std::string_view> list;
  for (const target::Target &gpu : gpus) {
    list.push_back(gpu.variant());
  }
  return list;
}

TEST(Target, NamesLevels) {
  EXPECT_EQ(parseTargets({"cpu"})->levels.size(), 3u);
  Result<Targets> some = parseTargets({"cpu:avx512,avx2,avx512"});
  ASSERT_TRUE(some.isOk());
  EXPECT_EQ(some->levels, (std::vector{engine::CpuLevel::X86_64_V3, engine::CpuLevel::Avx512}));
  EXPECT_TRUE(some->gpus.empty());
}

TEST(Target, NamesArchitecturesOnceOldestFirst) {
  Result<Targets> both = parseTargets({"cuda:sm_100a,sm_80", "cpu,cuda:sm_80"});
  ASSERT_TRUE(both.isOk());
  EXPECT_EQ(both->levels.size(), 3u);
  EXPECT_EQ(names(both->gpus), (std::vector<std::string_view>{"sm_80", "sm_100a"}));
  Result<Targets> mixed = parseTargets({"cpu:avx2,cuda:sm_90a,sm_89"});
  ASSERT_TRUE(mixed.isOk());
  EXPECT_EQ(mixed->levels, std::vector{engine::CpuLevel::X86_64_V3});
  EXPECT_EQ(names(mixed->gpus), (std::vector<std::string_view>{"sm_89", "sm_90a"}));
}

TEST(Target, NamesSayTheirDevice) {
  Result<Targets> targets = parseTargets({"avx2,sm_90", "cpu:avx512,a100", "armv8-a"});
  ASSERT_TRUE(targets.isOk()) << targets.status().toString();
  EXPECT_EQ(targets->levels, (std::vector{engine::CpuLevel::X86_64_V3, engine::CpuLevel::Avx512,
                                          engine::CpuLevel::Armv8A}));
  EXPECT_EQ(names(targets->gpus), (std::vector<std::string_view>{"sm_80", "sm_90"}));
}

TEST(Target, NamesParts) {
  Result<Targets> gpus = parseTargets({"cuda:h100,a100,sm_90a,sm_90"});
  ASSERT_TRUE(gpus.isOk());
  EXPECT_EQ(names(gpus->gpus), (std::vector<std::string_view>{"sm_80", "sm_90", "sm_90a"}));
  EXPECT_EQ(gpus->gpus[0].part, "a100");
  EXPECT_EQ(gpus->gpus[1].part, "");
  EXPECT_EQ(gpus->gpus[2].part, "h100") << "a part goes before its plain architecture";
  EXPECT_EQ(parseTargets({"cuda:h100,h200"}).status().id(), ErrorId::BadArgument);
  Result<Targets> cpu = parseTargets({"cpu:zen4,cuda:b200"});
  ASSERT_TRUE(cpu.isOk());
  EXPECT_EQ(cpu->levels, std::vector{engine::CpuLevel::Avx512VnniBf16});
  EXPECT_EQ(cpu->cpu.cores, 96);
  EXPECT_EQ(names(cpu->gpus), std::vector<std::string_view>{"sm_100a"});
}

TEST(Target, SaysWhatGpuItAssumes) {
  Result<Targets> targets = parseTargets({"cuda"});
  ASSERT_TRUE(targets.isOk());
  ASSERT_EQ(targets->gpus.size(), 1u);
  // Where a GPU is, it is that one.
  if (!targets->notes.empty()) {
    EXPECT_EQ(names(targets->gpus), std::vector<std::string_view>{"sm_90a"});
    EXPECT_NE(targets->notes.front().find("cuda:h200"), std::string::npos);
  }
}

TEST(Target, RefusesWhatIsNotCompiledFor) {
  for (const char *text :
       {"", "cuda:", "cuda:zen4", "cpu:h200", "cuda:sm_70", "cuda:avx2", "sm_70", "avx3",
        "cpu:", "cpu:sse", "cpu:sm_90", "cpu:avx512,", "CPU", "rocm:gfx942", "cuda:sm_90,cpu:"}) {
    Result<Targets> targets = parseTargets({text});
    ASSERT_FALSE(targets.isOk()) << text;
    EXPECT_EQ(targets.status().code(), Code::Unsupported);
  }
}

} // namespace
} // namespace tenon::tool
