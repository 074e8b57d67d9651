// Every rule of a plan, each broken once in a plan that is otherwise accepted.

#include "engine/validate/Validate.h"

#include "engine/LibraryAbi.h"
#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <ctime>
#include <functional>
#include <limits>
#include <span>

namespace tenon::engine {
namespace {

struct Case {
  const char *name;
  ErrorId expected;
  std::function<void(Plan &)> breakIt;
};

/// Buffers: 0 x, 1 y, 2 w, 3 and 4 arena, 5 view of 3, 6 state. Instructions: 0 scale x to 3,
/// 1 scale 3 to 4, 2 product 4 to y, 3 copy x to state, 4 return.
Plan goodPlan() {
  test::PlanBuilder builder;
  ExprId four = builder.size(4);
  uint32_t x = builder.input("x", DType::F32, {four, builder.size(8)});
  uint32_t y = builder.output("y", DType::F32, {four, builder.size(3)});
  uint32_t w = builder.weight(0, 96);
  uint32_t first = builder.arena(builder.size(128), 0, 1, 0);
  uint32_t second = builder.arena(builder.size(128), 1, 2, 128);
  builder.view(first, builder.size(64), builder.size(64));
  uint32_t state = builder.state(64);
  builder.plan.arenaBytes = 256;
  builder.launch(test::Scale, {x}, {first}, builder.size(32));
  builder.launch(test::Scale, {first}, {second}, builder.size(32));
  builder.launch(test::Product, {second, w}, {y}, four, {builder.size(8), builder.size(3)});
  builder.copy(x, state, builder.size(64));
  builder.finish();
  return builder.plan;
}

Status validate(const Plan &plan, uint16_t device = kHost) {
  std::vector<Weight> weights = {{"w", 96, 0}};
  return validatePlan(plan, weights, test::kernelNames().size(), device);
}

void expectRefused(const Plan &good, const std::vector<Case> &cases, uint16_t device = kHost) {
  Status status = validate(good, device);
  ASSERT_TRUE(status.isOk()) << status.toString();
  for (const Case &broken : cases) {
    Plan plan = good;
    broken.breakIt(plan);
    status = validate(plan, device);
    EXPECT_EQ(nameOf(broken.expected), nameOf(status.id()))
        << broken.name << ": " << status.toString();
  }
}

TEST(Validate, Dynamic) {
  Status status = validate(test::dynamicPlan());
  EXPECT_TRUE(status.isOk()) << status.toString();
}

TEST(Validate, SymbolsAndPorts) {
  const ErrorId bad = ErrorId::EngineBadPort;
  expectRefused(
      test::dynamicPlan(),
      {{"symbol without name", bad, [](Plan &p) { p.symbols[0].name = ""; }},
       {"negative minimum", bad, [](Plan &p) { p.symbols[0].min = -1; }},
       {"empty range", bad, [](Plan &p) { p.symbols[0].max = 0; }},
       {"symbol of no input", bad, [](Plan &p) { p.symbols[0].input = 1; }},
       {"symbol of no dim", bad, [](Plan &p) { p.symbols[0].dim = 2; }},
       {"port without name", bad, [](Plan &p) { p.inputs[0].name = ""; }},
       {"port named twice", bad, [](Plan &p) { p.outputs.push_back(p.outputs[0]); }},
       {"unknown type", bad, [](Plan &p) { p.inputs[0].dtype = static_cast<DType>(99); }},
       {"type 0", bad, [](Plan &p) { p.outputs[0].dtype = static_cast<DType>(0); }},
       {"too many dims", bad, [](Plan &p) { p.outputs[0].dims.resize(33); }},
       {"dim without expression", bad, [](Plan &p) { p.outputs[0].dims[1] = 1000; }},
       {"no buffer", bad, [](Plan &p) { p.outputs[0].buffer = kNone; }},
       {"buffer of an input", bad, [](Plan &p) { p.outputs[0].buffer = p.inputs[0].buffer; }},
       {"shared buffer", bad,
        [](Plan &p) {
          p.outputs.push_back(p.outputs[0]);
          p.outputs[1].name = "z";
        }},
       {"buffer of no port", bad, [](Plan &p) { p.outputs.clear(); }},
       {"expression", ErrorId::EngineBadExpression,
        [](Plan &p) { p.exprs.append({{ExprOp::Add, 0}}); }},
       {"symbol in expression", ErrorId::EngineBadExpression,
        [](Plan &p) { p.exprs.append({{ExprOp::Symbol, 1}}); }},
       {"constraint without expression", ErrorId::EngineBadExpression,
        [](Plan &p) { p.constraints.push_back({ConstraintKind::Equal, 0, kNone, "n"}); }},
       {"constraint of an unknown kind", ErrorId::EngineBadExpression,
        [](Plan &p) { p.constraints.push_back({static_cast<ConstraintKind>(4), 0, 0, "n"}); }}});
}

/// y[k] = 2 * x[n] for the k <= n of input "count". Buffers: 0 x, 1 count, 2 y. Instructions:
/// 0 size, 1 scale, 2 return. Symbols: 0 n, 1 k.
Plan sizePlan() {
  test::PlanBuilder builder;
  ExprId n = builder.symbol("n", 1, 100, 0, 0);
  ExprId k = builder.dataSymbol("k", n, 100);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t count = builder.input("count", DType::I64, {});
  uint32_t y = builder.output("y", DType::F32, {k});
  builder.bindSize(count, 1);
  builder.launch(test::Scale, {x}, {y}, k);
  builder.finish();
  return builder.plan;
}

TEST(Validate, SizesThatDataDecides) {
  const ErrorId port = ErrorId::EngineBadPort, bad = ErrorId::EngineBadInstruction;
  auto dataOf = [](Plan &p) { return p.exprs.symbol(1); };
  expectRefused(
      sizePlan(),
      {{"bound by itself", port, [&](Plan &p) { p.symbols[1].bound = dataOf(p); }},
       {"bound by nothing", port, [](Plan &p) { p.symbols[1].bound = 1000; }},
       {"before a symbol of an input", port,
        [](Plan &p) { std::swap(p.symbols[0], p.symbols[1]); }},
       {"with a dim", port, [](Plan &p) { p.symbols[1].dim = 0; }},
       {"dim of an input", port, [&](Plan &p) { p.inputs[0].dims[0] = dataOf(p); }},
       {"never decided", port,
        [](Plan &p) {
          p.instructions.erase(p.instructions.begin() + 1);
          p.instructions.erase(p.instructions.begin());
        }},
       {"used before", bad, [](Plan &p) { std::swap(p.instructions[0], p.instructions[1]); }},
       {"decided twice", bad,
        [](Plan &p) { p.instructions.insert(p.instructions.begin(), p.instructions[0]); }},
       {"symbol of an input", bad, [](Plan &p) { p.instructions[0].symbol = 0; }},
       {"symbol of nothing", bad, [](Plan &p) { p.instructions[0].symbol = 1000; }},
       {"no symbol", bad, [](Plan &p) { p.instructions[0].symbol = kNone; }},
       {"no buffer", bad,
        [](Plan &p) {
          p.instructions[0].buffers.clear();
          p.instructions[0].reads = 0;
        }},
       {"buffer of nothing", bad, [](Plan &p) { p.instructions[0].buffers[0] = 1000; }},
       {"writes", bad,
        [](Plan &p) {
          p.instructions[0].buffers[0] = 2;
          p.instructions[0].reads = 0;
        }},
       {"short buffer", bad, [](Plan &p) { p.buffers[1].size = p.exprs.constant(4); }},
       {"buffer whose size varies", bad, [](Plan &p) { p.instructions[0].buffers[0] = 0; }},
       {"sizes", bad, [](Plan &p) { p.instructions[0].sizes = {p.exprs.constant(8)}; }},
       {"view at a place that data decides", ErrorId::EngineBadBuffer, [&](Plan &p) {
          Buffer view = p.buffers[2];
          view.aliasOf = 2;
          view.aliasOffset = dataOf(p);
          p.buffers.push_back(view);
        }}});
  Plan onGpu = sizePlan();
  for (Buffer &buffer : onGpu.buffers) {
    buffer.device = kGpu;
  }
  for (Instruction &instruction : onGpu.instructions) {
    instruction.device = kGpu;
  }
  onGpu.instructions[1].threads = 128;
  Status status = validatePlan(onGpu, {}, test::kernelNames().size(), kGpu);
  EXPECT_TRUE(status.isOk()) << status.toString();
}

/// y = 2 * x over n elements, and a state of 4 * cap bytes that is as large as input "all".
/// Buffers: 0 x, 1 all, 2 y, 3 state. Symbols: 0 cap, of the session, 1 n.
Plan sessionPlan() {
  test::PlanBuilder builder;
  ExprId cap = builder.sessionSymbol("cap", 2, 1000, 8);
  ExprId n = builder.symbol("n", 1, 100, 0, 0);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t all = builder.input("all", DType::F32, {cap});
  uint32_t y = builder.output("y", DType::F32, {n});
  uint32_t state = builder.stateOf(builder.plan.exprs.mul(cap, builder.size(4)));
  builder.launch(test::Scale, {x}, {y}, n);
  builder.copy(all, state, builder.plan.buffers[state].size);
  builder.finish();
  return builder.plan;
}

TEST(Validate, SymbolsOfTheSession) {
  const ErrorId port = ErrorId::EngineBadPort, buffer = ErrorId::EngineBadBuffer;
  expectRefused(
      sessionPlan(),
      {{"with an input", port, [](Plan &p) { p.symbols[0].input = 0; }},
       {"with a dim", port, [](Plan &p) { p.symbols[0].dim = 0; }},
       {"with a bound", port, [](Plan &p) { p.symbols[0].bound = 0; }},
       {"preset too small", port, [](Plan &p) { p.symbols[0].preset = 1; }},
       {"preset too large", port, [](Plan &p) { p.symbols[0].preset = 1001; }},
       {"empty range", port, [](Plan &p) { p.symbols[0].max = 1; }},
       {"behind one of an input", port, [](Plan &p) { std::swap(p.symbols[0], p.symbols[1]); }},
       {"named twice", port,
        [](Plan &p) { p.symbols.insert(p.symbols.begin(), p.symbols.front()); }},
       {"behind one that data decides", port,
        [](Plan &p) {
          p.symbols.push_back({"k", 0, 100, kNone, kNone, p.exprs.constant(1)});
          p.symbols.push_back({"late", 2, 1000, kNone, kNone, kNone, true, 8});
        }},
       {"of data too", port,
        [](Plan &p) {
          p.symbols.push_back({"k", 0, 100, kNone, kNone, p.exprs.constant(1), true, 8});
        }},
       {"state of an input's symbol", buffer,
        [](Plan &p) { p.buffers[3].size = p.exprs.symbol(1); }},
       {"state of both", buffer,
        [](Plan &p) { p.buffers[3].size = p.exprs.min(p.exprs.symbol(0), p.exprs.symbol(1)); }}});
}

TEST(Validate, PlansOfOtherSizesHaveNoSymbolsOfTheSession) {
  Plan general = test::dynamicPlan(), special = general;
  EXPECT_TRUE(validateSameModel(general, special).isOk());
  special.symbols.insert(special.symbols.begin(), sessionPlan().symbols.front());
  EXPECT_EQ(ErrorId::EngineBadPort, validateSameModel(general, special).id());
  EXPECT_EQ(ErrorId::EngineBadPort, validateSameModel(special, general).id());
}

TEST(Validate, Buffers) {
  const ErrorId bad = ErrorId::EngineBadBuffer;
  expectRefused(
      goodPlan(),
      {{"space", bad, [](Plan &p) { p.buffers[3].space = static_cast<Space>(5); }},
       {"device", bad, [](Plan &p) { p.buffers[3].device = 1; }},
       {"no size", bad, [](Plan &p) { p.buffers[3].size = kNone; }},
       {"negative size", bad, [](Plan &p) { p.buffers[3].size = p.exprs.constant(-1); }},
       {"view of itself", bad, [](Plan &p) { p.buffers[5].aliasOf = 5; }},
       {"view of a later one", bad, [](Plan &p) { p.buffers[5].aliasOf = 6; }},
       {"view of nothing", bad, [](Plan &p) { p.buffers[5].aliasOf = 1000; }},
       {"view in another space", bad, [](Plan &p) { p.buffers[5].space = Space::State; }},
       {"view without offset", bad, [](Plan &p) { p.buffers[5].aliasOffset = kNone; }},
       {"view with storage", bad, [](Plan &p) { p.buffers[5].offset = 0; }},
       {"view with weights", bad, [](Plan &p) { p.buffers[5].weight = 0; }},
       {"view past the end", bad, [](Plan &p) { p.buffers[5].size = p.exprs.constant(65); }},
       {"view before the start", bad,
        [](Plan &p) { p.buffers[5].aliasOffset = p.exprs.constant(-1); }},
       {"view far past the end", bad,
        [](Plan &p) { p.buffers[5].aliasOffset = p.exprs.constant(INT64_MAX); }},
       {"missing weights", bad, [](Plan &p) { p.buffers[2].weight = 1; }},
       {"no weights", bad, [](Plan &p) { p.buffers[2].weight = kNone; }},
       {"too short weights", bad, [](Plan &p) { p.buffers[2].size = p.exprs.constant(97); }},
       {"weights in the arena", bad, [](Plan &p) { p.buffers[3].weight = 0; }},
       {"offset of weights", bad, [](Plan &p) { p.buffers[2].offset = 0; }},
       {"life past the plan", bad, [](Plan &p) { p.buffers[4].lastUse = 5; }},
       {"empty life", bad, [](Plan &p) { p.buffers[4].firstUse = 3; }},
       {"misaligned offset", bad, [](Plan &p) { p.buffers[4].offset = 127; }},
       {"negative offset", bad, [](Plan &p) { p.buffers[4].offset = -64; }},
       {"past the arena", bad, [](Plan &p) { p.buffers[4].offset = 192; }},
       {"far past the arena", bad, [](Plan &p) { p.buffers[4].offset = INT64_MAX - 63; }},
       {"only some planned", bad, [](Plan &p) { p.buffers[4].offset = kPlannedAtRunTime; }},
       {"negative arena", bad, [](Plan &p) { p.arenaBytes = -1; }},
       {"overlap", ErrorId::EngineBufferOverlap, [](Plan &p) { p.buffers[4].offset = 64; }},
       {"same place", ErrorId::EngineBufferOverlap, [](Plan &p) { p.buffers[4].offset = 0; }}});
}

TEST(Validate, BuffersMayShareMemoryInTurn) {
  Plan plan = goodPlan();
  // Buffer 3 lives to instruction 1; one that starts at 2 may lie in its place.
  plan.buffers[4].firstUse = 2;
  plan.buffers[4].offset = 0;
  plan.instructions[1].buffers = {3, 3};
  Status status = validate(plan);
  EXPECT_TRUE(status.isOk()) << status.toString();
}

TEST(Validate, OverlapAmongMany) {
  test::PlanBuilder builder;
  const uint32_t count = 200;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t buffer =
        builder.arena(builder.size(64), i, i + 10 < count ? i + 10 : count - 1, (i % 11) * 64);
    builder.launch(test::Nothing, {}, {buffer}, builder.size(1));
  }
  builder.plan.arenaBytes = 11 * 64;
  builder.finish();
  EXPECT_TRUE(validate(builder.plan).isOk());
  builder.plan.buffers[100].lastUse += 1; // now meets buffer 111, in the same place
  EXPECT_EQ(ErrorId::EngineBufferOverlap, validate(builder.plan).id());
}

TEST(Validate, Instructions) {
  const ErrorId bad = ErrorId::EngineBadInstruction;
  const ErrorId unsupported = ErrorId::EngineUnsupportedInstruction;
  std::vector<Case> cases = {
      {"no return", bad, [](Plan &p) { p.instructions.pop_back(); }},
      {"empty", ErrorId::EngineBadBuffer, [](Plan &p) { p.instructions.clear(); }},
      {"return in the middle", bad, [](Plan &p) { p.instructions[3] = p.instructions[4]; }},
      {"return with operands", bad, [](Plan &p) { p.instructions[4].buffers = {6}; }},
      {"device", unsupported, [](Plan &p) { p.instructions[0].device = 1; }},
      {"queue", unsupported, [](Plan &p) { p.instructions[0].queue = 2; }},
      {"queue without a section", bad, [](Plan &p) { p.instructions[0].queue = 1; }},
      {"section on a CPU", bad, [](Plan &p) { p.sections = {{0, 2}}; }},
      {"operations of no expression", bad, [](Plan &p) { p.instructions[3].flops = 1000; }},
      {"bytes of no expression", bad, [](Plan &p) { p.instructions[4].bytesMoved = 1000; }},
      {"pieces of no expression", bad, [](Plan &p) { p.instructions[3].grid = 1000; }},
      {"too many reads", bad, [](Plan &p) { p.instructions[0].reads = 3; }},
      {"no such buffer", bad, [](Plan &p) { p.instructions[0].buffers[0] = 7; }},
      {"writes to an input", bad, [](Plan &p) { p.instructions[0].reads = 0; }},
      {"writes to weights", bad, [](Plan &p) { p.instructions[2].reads = 1; }},
      {"before its life", bad, [](Plan &p) { p.instructions[0].buffers[1] = 4; }},
      {"after its life", bad, [](Plan &p) { p.instructions[2].buffers[0] = 3; }},
      {"view after its life", bad, [](Plan &p) { p.instructions[2].buffers[0] = 5; }},
      {"no such size", bad, [](Plan &p) { p.instructions[2].sizes[0] = 1000; }},
      {"no such kernel", bad, [](Plan &p) { p.instructions[0].kernel = 8; }},
      {"threads on a CPU", bad, [](Plan &p) { p.instructions[0].threads = 1; }},
      {"no grid", bad, [](Plan &p) { p.instructions[0].grid = kNone; }},
      {"no such scratch", bad, [](Plan &p) { p.instructions[0].scratch = 1000; }},
      {"copy without size", bad, [](Plan &p) { p.instructions[3].sizes.clear(); }},
      {"copy of one", bad, [](Plan &p) { p.instructions[3].buffers = {6}; }},
      {"copy to two", bad, [](Plan &p) { p.instructions[3].buffers = {0, 6, 6}; }},
      {"copy that only reads", bad, [](Plan &p) { p.instructions[3].reads = 2; }},
      {"call on a CPU", unsupported,
       [](Plan &p) { p.instructions[3].kind = InstructionKind::Call; }}};
  for (int number : {3, 4, 7, 8, 9, 10, 11, 13, 200}) {
    cases.push_back({"kind of no release", unsupported, [number](Plan &p) {
                       p.instructions[3].kind = static_cast<InstructionKind>(number);
                     }});
  }
  expectRefused(goodPlan(), cases);
}

/// A call descriptor as it is stored.
template <typename Call> std::vector<std::byte> stored(const Call &call) {
  std::span<const std::byte> bytes = std::as_bytes(std::span(&call, 1));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

/// Like goodPlan, on a GPU, with a matrix product, a convolution and an attention behind it.
Plan goodGpuPlan() {
  Plan plan = goodPlan();
  plan.instructions.pop_back();
  ExprId one = plan.exprs.constant(1);
  auto addCall = [&](std::vector<std::byte> call, size_t buffers, size_t sizes) {
    Instruction instruction;
    instruction.kind = InstructionKind::Call;
    instruction.call = std::move(call);
    instruction.buffers.assign(buffers, 6);
    instruction.reads = static_cast<uint32_t>(buffers - 1);
    instruction.sizes.assign(sizes, one);
    plan.instructions.push_back(std::move(instruction));
  };
  MatmulCall matmul;
  matmul.hasBias = true;
  addCall(stored(matmul), 4, kMatmulSizes);
  ConvCall conv;
  conv.hasResidual = true;
  addCall(stored(conv), 4, kConvSizes);
  AttentionCall attention;
  attention.hasMask = true;
  addCall(stored(attention), 5, kAttentionSizes);
  plan.instructions.push_back({});
  for (Buffer &buffer : plan.buffers) {
    buffer.device = kGpu;
  }
  for (Instruction &instruction : plan.instructions) {
    instruction.device = kGpu;
    instruction.threads = instruction.kind == InstructionKind::Launch ? 128 : 0;
  }
  plan.instructions[0].tensorMaps = {{0, 2, 0, 0, 0, 256, 64}};
  return plan;
}

TEST(Validate, Sections) {
  const ErrorId bad = ErrorId::EngineBadInstruction;
  Plan plan = goodGpuPlan();
  plan.sections = {{0, 2}, {4, 6}};
  plan.instructions[1].queue = 1;
  plan.instructions[4].queue = 1;
  auto withSections = [](std::vector<Section> sections) {
    return [sections = std::move(sections)](Plan &p) { p.sections = sections; };
  };
  expectRefused(plan,
                {{"empty", bad, withSections({{0, 2}, {4, 6}, {6, 6}})},
                 {"backwards", bad, withSections({{2, 0}, {4, 6}})},
                 {"overlapping", bad, withSections({{0, 5}, {4, 6}})},
                 {"not in order", bad, withSections({{4, 6}, {0, 2}})},
                 {"past the end", bad, withSections({{0, 2}, {4, 8}})},
                 {"queue behind it", bad, withSections({{0, 2}, {5, 6}})},
                 {"queue in front of it", bad, withSections({{4, 6}})},
                 {"queue 2", ErrorId::EngineUnsupportedInstruction,
                  [](Plan &p) { p.instructions[1].queue = 2; }}},
                kGpu);
}

TEST(Validate, Collectives) {
  test::PlanBuilder builder;
  builder.plan.ranks = 2;
  ExprId four = builder.size(4);
  uint32_t x = builder.input("x", DType::F32, {four});
  uint32_t y = builder.output("y", DType::F32, {four});
  builder.weight(0, 96);
  builder.collective(CollectiveKind::AllReduce, x, y, four);
  builder.finish();
  const ErrorId bad = ErrorId::EngineBadInstruction;
  expectRefused(
      builder.plan,
      {{"one rank", bad, [](Plan &p) { p.ranks = 1; }},
       {"no rank", ErrorId::EngineUnsupportedInstruction, [](Plan &p) { p.ranks = 0; }},
       {"too many", ErrorId::EngineUnsupportedInstruction, [](Plan &p) { p.ranks = 65; }},
       {"no size", bad, [](Plan &p) { p.instructions[0].sizes.clear(); }},
       {"one buffer", bad, [](Plan &p) { p.instructions[0].buffers.pop_back(); }},
       {"both read", bad, [](Plan &p) { p.instructions[0].reads = 2; }},
       {"a kind", bad, [](Plan &p) { p.instructions[0].collective = CollectiveKind(3); }},
       {"a type", bad, [](Plan &p) { p.instructions[0].dtype = DType(0); }},
       {"a sum of integers", bad, [](Plan &p) { p.instructions[0].dtype = DType::I32; }}});
  std::vector<Weight> weights = {{"w", 96, 0, 2}};
  EXPECT_TRUE(validatePlan(builder.plan, weights, 0).isOk());
  expectRefused(builder.plan, {{"a kernel of a CPU", bad, [](Plan &p) {
                                  Instruction &sum = p.instructions[0];
                                  sum.kernel = 0;
                                  sum.threads = 32;
                                  sum.buffers = {0, 0, 2, 1, 1};
                                  sum.reads = 3;
                                  sum.sizes.push_back(sum.sizes[0]);
                                }}});
  weights[0].ranks = 3;
  EXPECT_EQ(ErrorId::EngineBadBuffer, validatePlan(builder.plan, weights, 0).id());
}

TEST(Validate, Stages) {
  test::PlanBuilder builder;
  builder.plan.ranks = 4;
  builder.plan.stages = 2;
  ExprId four = builder.size(4);
  uint32_t x = builder.input("x", DType::F32, {four});
  uint32_t y = builder.output("y", DType::F32, {four});
  builder.weight(0, 96);
  builder.collective(CollectiveKind::SendReceive, x, y, four);
  builder.plan.instructions[0].stages = 3;
  builder.finish();
  const ErrorId bad = ErrorId::EngineBadInstruction;
  expectRefused(
      builder.plan,
      {{"no stage", ErrorId::EngineUnsupportedInstruction, [](Plan &p) { p.stages = 0; }},
       {"rows of no symbol", bad, [](Plan &p) { p.instructions[0].symbol = 0; }},
       {"other sizes", ErrorId::EngineUnsupportedInstruction, [](Plan &p) { p.stages = 3; }},
       {"one stage", bad, [](Plan &p) { p.stages = 1; }},
       {"to all", bad, [](Plan &p) { p.instructions[0].stages = 0; }},
       {"to itself", bad, [](Plan &p) { p.instructions[0].stages = 2; }},
       {"to no stage", bad, [](Plan &p) { p.instructions[0].stages = 6; }},
       {"over a stage", bad,
        [](Plan &p) {
          p.stages = 4;
          p.instructions[0].stages = 5;
        }},
       {"a sum of one rank", bad, [](Plan &p) {
          p.stages = 4;
          p.instructions[0].collective = CollectiveKind::AllReduce;
        }}});
  // One array for each rank of a stage.
  std::vector<Weight> weights = {{"w", 96, 0, 2}};
  EXPECT_TRUE(validatePlan(builder.plan, weights, 0).isOk());
  weights[0].ranks = 4;
  EXPECT_EQ(ErrorId::EngineBadBuffer, validatePlan(builder.plan, weights, 0).id());
}

TEST(Validate, ProductsOf8BitFloats) {
  const ErrorId bad = ErrorId::EngineBadInstruction;
  Plan plan = goodGpuPlan();
  ScaledMatmulCall product;
  product.hasBias = true;
  Instruction &call = plan.instructions[4];
  call.call = stored(product);
  call.sizes.resize(kScaledMatmulSizes, call.sizes[0]);
  std::vector<Case> cases = {
      {"short", bad, [](Plan &p) { p.instructions[4].call.pop_back(); }},
      {"buffers", bad, [](Plan &p) { p.instructions[4].buffers.push_back(6); }},
      {"sizes", bad, [](Plan &p) { p.instructions[4].sizes.pop_back(); }}};
  auto spoil = [&](size_t offset, uint8_t value) {
    cases.push_back(
        {"field", bad, [=](Plan &p) { p.instructions[4].call[offset] = std::byte(value); }});
  };
  spoil(offsetof(ScaledMatmulCall, type), 0);
  spoil(offsetof(ScaledMatmulCall, hasBias), 2);
  spoil(offsetof(ScaledMatmulCall, hasResidual), 2);
  spoil(offsetof(ScaledMatmulCall, activation), 3);
  spoil(offsetof(ScaledMatmulCall, proposal), kMaxProposals);
  spoil(offsetof(ScaledMatmulCall, reserved) + 1, 1);
  cases.push_back({"factor", bad, [](Plan &p) {
                     ScaledMatmulCall endless;
                     endless.hasBias = true;
                     endless.factor = std::numeric_limits<float>::infinity();
                     p.instructions[4].call = stored(endless);
                   }});
  expectRefused(plan, cases, kGpu);
}

TEST(Validate, InstructionsOfAGpu) {
  const ErrorId bad = ErrorId::EngineBadInstruction;
  std::vector<Case> cases = {
      {"another device", ErrorId::EngineUnsupportedInstruction,
       [](Plan &p) { p.instructions[0].device = kHost; }},
      {"buffer on another device", ErrorId::EngineBadBuffer,
       [](Plan &p) { p.buffers[3].device = kHost; }},
      {"no threads", bad, [](Plan &p) { p.instructions[0].threads = 0; }},
      {"too many threads", bad, [](Plan &p) { p.instructions[0].threads = 1025; }},
      {"no descriptor", bad, [](Plan &p) { p.instructions[4].call.clear(); }},
      {"unknown library", bad, [](Plan &p) { p.instructions[4].call[0] = std::byte(4); }}};
  for (size_t call : {4, 5, 6}) {
    cases.push_back({"short", bad, [=](Plan &p) { p.instructions[call].call.pop_back(); }});
    cases.push_back({"long", bad, [=](Plan &p) { p.instructions[call].call.push_back({}); }});
    cases.push_back({"type", bad, [=](Plan &p) { p.instructions[call].call[1] = std::byte(0); }});
    cases.push_back({"flag", bad, [=](Plan &p) { p.instructions[call].call[2] = std::byte(2); }});
    cases.push_back(
        {"operands", bad, [=](Plan &p) { p.instructions[call].call[3] = std::byte(2); }});
    cases.push_back({"buffers", bad, [=](Plan &p) { p.instructions[call].buffers.push_back(6); }});
    cases.push_back({"reads", bad, [=](Plan &p) { p.instructions[call].reads -= 1; }});
    cases.push_back({"sizes", bad, [=](Plan &p) { p.instructions[call].sizes.pop_back(); }});
  }
  auto spoil = [&](size_t call, size_t offset, uint8_t value) {
    cases.push_back(
        {"field", bad, [=](Plan &p) { p.instructions[call].call[offset] = std::byte(value); }});
  };
  spoil(4, offsetof(MatmulCall, activation), 3);
  spoil(4, offsetof(MatmulCall, allowTf32), 2);
  spoil(4, offsetof(MatmulCall, hint) + 3, 0x80);
  spoil(4, offsetof(MatmulCall, hint) + offsetof(MatmulHint, leastRows) + 3, 0x80);
  spoil(5, offsetof(ConvCall, activation), 3);
  spoil(5, offsetof(ConvCall, proposal), kMaxProposals);
  spoil(5, offsetof(ConvCall, reserved), 1);
  spoil(5, offsetof(ConvCall, groups), 0);
  spoil(5, offsetof(ConvCall, strides) + 4, 0);
  spoil(5, offsetof(ConvCall, dilations), 0);
  spoil(5, offsetof(ConvCall, padBefore) + 3, 0x80);
  spoil(5, offsetof(ConvCall, padAfter) + 7, 0x80);
  auto spoilMap = [&](const char *name, std::function<void(TensorMap &)> change) {
    cases.push_back({name, bad, [change](Plan &p) { change(p.instructions[0].tensorMaps[0]); }});
  };
  spoilMap("map of no buffer", [](TensorMap &map) { map.buffer = 99; });
  spoilMap("map of no rows", [](TensorMap &map) { map.rows = kNone; });
  spoilMap("map of no columns", [](TensorMap &map) { map.columns = 9999; });
  spoilMap("map of no row bytes", [](TensorMap &map) { map.rowBytes = kNone; });
  spoilMap("empty box", [](TensorMap &map) { map.boxRows = 0; });
  spoilMap("high box", [](TensorMap &map) { map.boxRows = 257; });
  spoilMap("wide box", [](TensorMap &map) { map.boxColumns = 128; });
  spoilMap("wide elements", [](TensorMap &map) { map.elementBytes = 4; });
  cases.push_back({"many maps", bad, [](Plan &p) {
                     p.instructions[0].tensorMaps.resize(9, p.instructions[0].tensorMaps[0]);
                   }});
  cases.push_back({"map of a call", bad,
                   [](Plan &p) { p.instructions[4].tensorMaps = p.instructions[0].tensorMaps; }});
  cases.push_back({"a call in clusters", bad, [](Plan &p) { p.instructions[5].cluster = 2; }});
  cases.push_back(
      {"a call that waits", bad, [](Plan &p) { p.instructions[5].isDependentLaunch = true; }});
  cases.push_back({"clusters of none", bad, [](Plan &p) { p.instructions[5].cluster = 0; }});
  cases.push_back({"status of a call", bad, [](Plan &p) { p.instructions[5].canFail = true; }});
  cases.push_back(
      {"fallback of no call", bad, [](Plan &p) { p.instructions[0].isFallback = true; }});
  cases.push_back(
      {"call as a fallback", bad, [](Plan &p) { p.instructions[5].isFallback = true; }});
  cases.push_back({"scale", bad, [](Plan &p) {
                     AttentionCall attention;
                     attention.hasMask = true;
                     attention.scale = std::numeric_limits<float>::quiet_NaN();
                     p.instructions[6].call = stored(attention);
                   }});
  Plan good = goodGpuPlan();
  expectRefused(good, cases, kGpu);
  // Neither plan is taken for the other's device.
  EXPECT_FALSE(validate(goodPlan(), kGpu).isOk());
  EXPECT_FALSE(validate(good).isOk());
}

/// Milliseconds of the processor for a plan whose views are placed by one expression of so many
/// terms.
double millisecondsOfViews(int terms) {
  constexpr uint32_t kViews = 200000;
  test::PlanBuilder builder;
  ExprId batch = builder.symbol("N", 1, 64, 0, 0);
  uint32_t x = builder.input("x", DType::F32, {batch, builder.size(8)});
  uint32_t y = builder.output("y", DType::F32, {batch, builder.size(8)});
  builder.launch(test::Scale, {x}, {y}, batch);
  ExprId place = batch;
  for (int i = 1; i < terms; i += 2) {
    place = builder.plan.exprs.sub(place, batch);
  }
  for (uint32_t i = 0; i < kViews; ++i) {
    builder.view(y, place, builder.size(4));
  }
  builder.finish();
  std::clock_t start = std::clock(); // of this process alone: others on the machine do not count
  Status status = validate(builder.plan);
  std::clock_t taken = std::clock() - start;
  EXPECT_TRUE(status.isOk()) << status.toString();
  return 1e3 * static_cast<double>(taken) / CLOCKS_PER_SEC;
}

TEST(Validate, LooksIntoEachExpressionOnce) {
  EXPECT_LT(millisecondsOfViews(2001), 100 + 5 * millisecondsOfViews(1));
}

} // namespace
} // namespace tenon::engine
