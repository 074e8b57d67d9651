// Compiled regions as cache entries: back as they were, and no truncation taken for a region.
#include "compiler/pipeline/RegionEntry.h"

#include <gtest/gtest.h>

using tenon::codegen::CompiledRegion;
using tenon::codegen::RegionStep;
using tenon::codegen::TensorMapArgument;
using tenon::engine::ExprOp;
using namespace tenon::pipeline;

namespace {

CompiledRegion example() {
  RegionStep launch;
  launch.symbol = "k_1";
  launch.buffers = {0, 2};
  launch.reads = 1;
  launch.sizes = {{{ExprOp::Symbol, 0}}};
  launch.tensorMaps = {
      {1, 2, {{ExprOp::Symbol, 0}}, {{ExprOp::Constant, 96}}, {{ExprOp::Constant, 192}}, 128, 64}};
  launch.grid = {{ExprOp::Symbol, 0}, {ExprOp::Constant, 4}, {ExprOp::CeilDiv}};
  launch.scratch = {{ExprOp::Constant, 64}};
  launch.threads = 256;
  launch.isCopy = true;
  RegionStep call;
  call.call = {std::byte(0), std::byte(7)};
  call.buffers = {2, 1};
  call.reads = 1;
  RegionStep fallback = launch;
  fallback.isCopy = false;
  fallback.isFallback = true;
  fallback.canFail = true;
  fallback.tensorMaps.clear();
  CompiledRegion region;
  region.code.steps = {launch, call, fallback};
  region.code.temporaries = {{{ExprOp::Constant, 128}}};
  region.object = std::string("\x7f"
                              "ELF\0bytes",
                              10);
  return region;
}

TEST(RegionEntryTest, ComesBackAndRefusesEveryTruncation) {
  CompiledRegion region = example();
  std::string bytes = encodeRegion(region);
  std::optional<CompiledRegion> back = decodeRegion(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->object, region.object);
  ASSERT_EQ(back->code.steps.size(), 3u);
  EXPECT_EQ(back->code.steps[0].symbol, "k_1");
  EXPECT_EQ(back->code.steps[0].buffers, region.code.steps[0].buffers);
  EXPECT_EQ(back->code.steps[0].sizes, region.code.steps[0].sizes);
  EXPECT_EQ(back->code.steps[0].grid, region.code.steps[0].grid);
  EXPECT_EQ(back->code.steps[0].scratch, region.code.steps[0].scratch);
  EXPECT_EQ(back->code.steps[0].threads, 256u);
  EXPECT_TRUE(back->code.steps[0].isCopy);
  EXPECT_FALSE(back->code.steps[0].isFallback);
  EXPECT_TRUE(back->code.steps[2].isFallback);
  EXPECT_FALSE(back->code.steps[0].canFail);
  EXPECT_TRUE(back->code.steps[2].canFail);
  ASSERT_EQ(back->code.steps[0].tensorMaps.size(), 1u);
  const TensorMapArgument &map = back->code.steps[0].tensorMaps[0];
  EXPECT_EQ(map.buffer, 1u);
  EXPECT_EQ(map.elementBytes, 2u);
  EXPECT_EQ(map.rows, region.code.steps[0].tensorMaps[0].rows);
  EXPECT_EQ(map.columns, region.code.steps[0].tensorMaps[0].columns);
  EXPECT_EQ(map.rowBytes, region.code.steps[0].tensorMaps[0].rowBytes);
  EXPECT_EQ(map.boxRows, 128u);
  EXPECT_EQ(map.boxColumns, 64u);
  EXPECT_EQ(back->code.steps[1].call, region.code.steps[1].call);
  EXPECT_EQ(back->code.temporaries, region.code.temporaries);
  EXPECT_EQ(encodeRegion(*back), bytes);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decodeRegion(bytes.substr(0, length))) << length;
  }
  EXPECT_FALSE(decodeRegion(bytes + "x"));
}

TEST(RegionEntryTest, RefusesAnUnknownOperation) {
  CompiledRegion region = example();
  region.code.steps[0].grid[0].op = static_cast<ExprOp>(200);
  EXPECT_FALSE(decodeRegion(encodeRegion(region)));
}

TEST(RegionEntryTest, RefusesATensorMapOfNoBuffer) {
  CompiledRegion region = example();
  region.code.steps[0].tensorMaps[0].buffer = 2;
  EXPECT_FALSE(decodeRegion(encodeRegion(region)));
}

} // namespace
