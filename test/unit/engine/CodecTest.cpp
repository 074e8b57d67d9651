// Plans and manifests survive being stored, and stored forms that would blow up are refused.

#include "engine/codec/PlanCodec.h"

#include "engine/plan_generated.h"
#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

namespace tenon::engine {
namespace {

void expectSame(const Port &a, const Port &b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.dims, b.dims);
  EXPECT_EQ(a.buffer, b.buffer);
}

void expectSame(const Instruction &a, const Instruction &b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.queue, b.queue);
  EXPECT_EQ(a.kernel, b.kernel);
  EXPECT_EQ(a.buffers, b.buffers);
  EXPECT_EQ(a.reads, b.reads);
  EXPECT_EQ(a.sizes, b.sizes);
  EXPECT_EQ(a.grid, b.grid);
  EXPECT_EQ(a.scratch, b.scratch);
  EXPECT_EQ(a.label, b.label);
  EXPECT_EQ(a.threads, b.threads);
  EXPECT_EQ(a.call, b.call);
  EXPECT_EQ(a.isFallback, b.isFallback);
  EXPECT_EQ(a.canFail, b.canFail);
  EXPECT_EQ(a.cluster, b.cluster);
  EXPECT_EQ(a.isDependentLaunch, b.isDependentLaunch);
  EXPECT_EQ(a.flops, b.flops);
  EXPECT_EQ(a.bytesMoved, b.bytesMoved);
  EXPECT_EQ(a.constraint, b.constraint);
  ASSERT_EQ(a.tensorMaps.size(), b.tensorMaps.size());
  for (size_t i = 0; i < a.tensorMaps.size(); ++i) {
    const TensorMap &map = a.tensorMaps[i], &other = b.tensorMaps[i];
    EXPECT_EQ(map.buffer, other.buffer);
    EXPECT_EQ(map.elementBytes, other.elementBytes);
    EXPECT_EQ(map.rows, other.rows);
    EXPECT_EQ(map.columns, other.columns);
    EXPECT_EQ(map.rowBytes, other.rowBytes);
    EXPECT_EQ(map.boxRows, other.boxRows);
    EXPECT_EQ(map.boxColumns, other.boxColumns);
  }
}

void expectSame(const Buffer &a, const Buffer &b) {
  EXPECT_EQ(a.space, b.space);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.size, b.size);
  EXPECT_EQ(a.weight, b.weight);
  EXPECT_EQ(a.aliasOf, b.aliasOf);
  EXPECT_EQ(a.aliasOffset, b.aliasOffset);
  EXPECT_EQ(a.firstUse, b.firstUse);
  EXPECT_EQ(a.lastUse, b.lastUse);
  EXPECT_EQ(a.offset, b.offset);
}

TEST(Codec, PlanRoundTrip) {
  test::PlanBuilder builder;
  builder.plan = test::dynamicPlan();
  uint32_t state = builder.state(128);
  uint32_t view = builder.view(state, builder.size(64), builder.size(32));
  builder.plan.instructions.pop_back();
  builder.copy(view, builder.view(state, builder.size(0), builder.size(32)), builder.size(32));
  builder.launch(test::Scratch, {state}, {state}, builder.size(1)).scratch = builder.size(4096);
  builder.plan.instructions.back().device = 3;
  builder.plan.instructions.back().queue = 4;
  builder.plan.instructions.back().threads = 96;
  builder.plan.instructions.back().isFallback = true;
  builder.plan.instructions.back().canFail = true;
  builder.plan.instructions.back().cluster = 8;
  builder.plan.instructions.back().isDependentLaunch = true;
  builder.plan.instructions.back().flops = builder.size(1000);
  builder.plan.instructions.back().bytesMoved = builder.size(2000);
  builder.plan.instructions.back().constraint = "k is at most 5";
  builder.plan.instructions.back().call = {std::byte(1), std::byte(2)};
  builder.plan.instructions.back().tensorMaps = {
      {1, 2, builder.size(32), builder.size(64), builder.size(128), 256, 64},
      {0, 4, builder.size(3), builder.size(5), builder.size(16), 7, 32}};
  builder.plan.buffers[0].device = 2;
  builder.finish();
  builder.plan.arenaBytes = 77;
  builder.plan.restingInstructions = 5;
  builder.plan.sections = {{1, 3}, {4, 9}};
  builder.plan.constraints = {
      {ConstraintKind::Divisible, builder.size(6), builder.size(3), "split"}};
  const Plan &plan = builder.plan;

  Result<Plan> decoded = decodePlan(encodePlan(plan));
  ASSERT_TRUE(decoded.isOk()) << decoded.status().toString();
  EXPECT_EQ(77, decoded->arenaBytes);
  EXPECT_EQ(5u, decoded->restingInstructions);
  ASSERT_EQ(2u, decoded->sections.size());
  EXPECT_EQ(4u, decoded->sections[1].first);
  EXPECT_EQ(9u, decoded->sections[1].end);
  ASSERT_EQ(plan.symbols.size(), decoded->symbols.size());
  EXPECT_EQ("batch", decoded->symbols[0].name);
  EXPECT_EQ(64, decoded->symbols[0].max);
  EXPECT_FALSE(decoded->symbols[0].isOfSession);
  ASSERT_EQ(1u, decoded->constraints.size());
  EXPECT_EQ(ConstraintKind::Divisible, decoded->constraints[0].kind);
  EXPECT_EQ(plan.constraints[0].left, decoded->constraints[0].left);
  EXPECT_EQ(plan.constraints[0].right, decoded->constraints[0].right);
  EXPECT_EQ("split", decoded->constraints[0].node);
  ASSERT_EQ(plan.exprs.size(), decoded->exprs.size());
  for (ExprId id = 0; id < plan.exprs.size(); ++id) {
    EXPECT_EQ(plan.exprs.format(id), decoded->exprs.format(id));
  }
  ASSERT_EQ(1u, decoded->inputs.size());
  ASSERT_EQ(1u, decoded->outputs.size());
  expectSame(plan.inputs[0], decoded->inputs[0]);
  expectSame(plan.outputs[0], decoded->outputs[0]);
  ASSERT_EQ(plan.buffers.size(), decoded->buffers.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    expectSame(plan.buffers[i], decoded->buffers[i]);
  }
  ASSERT_EQ(plan.instructions.size(), decoded->instructions.size());
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    expectSame(plan.instructions[i], decoded->instructions[i]);
  }
}

TEST(Codec, Ranks) {
  test::PlanBuilder builder;
  builder.plan.ranks = 4;
  uint32_t x = builder.input("x", DType::BF16, {builder.size(4)});
  uint32_t y = builder.output("y", DType::BF16, {builder.size(16)});
  builder.collective(CollectiveKind::AllGather, x, y, builder.size(4));
  builder.plan.instructions[0].dtype = DType::BF16;
  builder.plan.stages = 2;
  builder.plan.instructions[0].stages = uint64_t(1) << 63 | 2;
  builder.finish();
  Result<Plan> decoded = decodePlan(encodePlan(builder.plan));
  ASSERT_TRUE(decoded.isOk()) << decoded.status().toString();
  EXPECT_EQ(4u, decoded->ranks);
  EXPECT_EQ(2u, decoded->stages);
  EXPECT_EQ(uint64_t(1) << 63 | 2, decoded->instructions[0].stages);
  EXPECT_EQ(InstructionKind::Collective, decoded->instructions[0].kind);
  EXPECT_EQ(CollectiveKind::AllGather, decoded->instructions[0].collective);
  EXPECT_EQ(DType::BF16, decoded->instructions[0].dtype);
}

TEST(Codec, SymbolsOfTheSession) {
  test::PlanBuilder builder;
  builder.sessionSymbol("pages", 2, 4096, 64);
  builder.finish();
  Result<Plan> decoded = decodePlan(encodePlan(builder.plan));
  ASSERT_TRUE(decoded.isOk()) << decoded.status().toString();
  ASSERT_EQ(1u, decoded->sessionSymbols());
  EXPECT_EQ(1u, decoded->knownSymbols());
  EXPECT_EQ("pages", decoded->symbols[0].name);
  EXPECT_EQ(64, decoded->symbols[0].preset);
  EXPECT_EQ(kNone, decoded->symbols[0].input);
}

TEST(Codec, ManifestRoundTrip) {
  Manifest manifest;
  manifest.weights = {{"a", 100, 0}, {"b", 7, 0}};
  manifest.variants = {{"avx512", {"k0", "k1"}, 1, 2, 3, "ptxas 1.2", Architecture::AArch64, 6}};
  manifest.records = {{"fusion", 3}};
  manifest.provenance = {"1.0", "hash", "{}"};
  Result<Manifest> decoded = decodeManifest(encodeManifest(manifest));
  ASSERT_TRUE(decoded.isOk());
  EXPECT_EQ(135u, layOutWeights(decoded->weights));
  EXPECT_EQ("b", decoded->weights[1].name);
  EXPECT_EQ(128u, decoded->weights[1].offset);
  EXPECT_EQ("avx512", decoded->variants[0].level);
  EXPECT_EQ(Architecture::AArch64, decoded->variants[0].architecture);
  EXPECT_EQ(6u, decoded->variants[0].features);
  EXPECT_EQ((std::vector<std::string>{"k0", "k1"}), decoded->variants[0].kernels);
  EXPECT_EQ(2u, decoded->variants[0].codeSection);
  EXPECT_EQ("fusion", decoded->records[0].name);
  EXPECT_EQ("hash", decoded->provenance.model);
  std::vector<Weight> tooLarge = {{"a", uint64_t(1) << 63, 0}};
  EXPECT_FALSE(layOutWeights(tooLarge).has_value());
}

/// A plan of `count` references to one instruction with `operands` operands.
std::vector<std::byte> sharedPlan(size_t count, size_t operands) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<uint32_t> many(operands, 0);
  auto vector = builder.CreateVector(many);
  fb::InstructionBuilder instruction(builder);
  instruction.add_buffers(vector);
  std::vector<flatbuffers::Offset<fb::Instruction>> all(count, instruction.Finish());
  auto instructions = builder.CreateVector(all);
  std::vector<uint32_t> noStarts = {0};
  auto starts = builder.CreateVector(noStarts);
  auto ops = builder.CreateVector(std::vector<uint8_t>());
  auto values = builder.CreateVector(std::vector<int64_t>());
  builder.Finish(fb::CreatePlan(builder, 0, starts, ops, values, 0, 0, 0, instructions));
  const std::byte *data = reinterpret_cast<const std::byte *>(builder.GetBufferPointer());
  return std::vector<std::byte>(data, data + builder.GetSize());
}

TEST(Codec, RefusesSharedTables) {
  EXPECT_TRUE(decodePlan(sharedPlan(1, 1000)).isOk());
  // 4 MB that would unpack to 4 TB, and 2 MB of empty instructions that would grow 37-fold.
  EXPECT_EQ(ErrorId::EngineBadPlan, decodePlan(sharedPlan(500000, 500000)).status().id());
  EXPECT_EQ(ErrorId::EngineBadPlan, decodePlan(sharedPlan(500000, 0)).status().id());
}

TEST(Codec, RefusesGarbage) {
  EXPECT_EQ(ErrorId::EngineBadPlan, decodePlan({}).status().id());
  EXPECT_EQ(ErrorId::EngineBadManifest, decodeManifest({}).status().id());
  std::vector<std::byte> ones(64, std::byte(0xff));
  EXPECT_EQ(ErrorId::EngineBadPlan, decodePlan(ones).status().id());
  EXPECT_EQ(ErrorId::EngineBadManifest, decodeManifest(ones).status().id());
}

} // namespace
} // namespace tenon::engine
