// Row kernels: their numbers on the emulated GPU against the reference, and what their PTX must
// hold. Relies on HandKernelCheck for both.
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "compiler/codegen/cuda/CudaCodegen.h"
#include "compiler/codegen/cuda/rows/Rows.h"
#include "test/unit/codegen/SelectedText.h"
#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

namespace tenon::codegen::cuda {
namespace {

const Emitter emitRows = byFamily({"rows_staged", "rows_registers", "rows_loops"});
const Emitter emitPoints = byFamily({"pointwise"});

testing::AssertionResult rowsMatch(const std::string &text,
                                   const std::vector<int64_t> &symbols = {}) {
  testing::AssertionResult forward = matchesReference(text, emitRows, symbols);
  return forward ? matchesReference(text, emitRows, symbols, 2, /*reversed=*/true) : forward;
}

std::string softmax(const std::string &dims, int axis, const std::string &element,
                    bool isLog = false) {
  std::string tensor = "tensor<" + dims + "x" + element + ">";
  return regionText(
      "rows", "(%a: " + tensor + ") -> " + tensor,
      llvm::formatv("%0 = tn.softmax %a {{axis = {0} : i64{1}} : {2}\nreturn %0 : {2}", axis,
                    isLog ? ", log" : "", tensor));
}

/// residual + layer norm + gelu + scale + add of `dims` = rows x C.
std::string fused(const std::string &rows, const std::string &length, const std::string &element) {
  return llvm::formatv(
      R"(module {{ func.func @kernel(%a: {0}, %b: {0}, %s: {1}, %t: {1}, %u: {1}) -> {0}
        attributes {{tn.strategy = "rows"} {{
      %0 = tn.add %a, %b : ({0}, {0}) -> {0}
      %1 = tn.layer_norm %0 scale %s bias %t {{axis = 1 : i64, epsilon = 1.0e-05 : f64,
        operandSegmentSizes = array<i32: 1, 1, 1>} : ({0}, {1}, {1}) -> {0}
      %2 = tn.gelu %1 : {0}
      %3 = tn.mul %2, %u : ({0}, {1}) -> {0}
      %4 = tn.add %3, %a : ({0}, {0}) -> {0}
      return %4 : {0} } })",
      "tensor<" + rows + "x" + length + "x" + element + ">",
      "tensor<" + length + "x" + element + ">");
}

std::string norm(const std::string &rows, const std::string &length, const std::string &element) {
  return llvm::formatv(
      R"(module {{ func.func @kernel(%a: {0}, %s: {1}, %t: {1}) -> {0}
        attributes {{tn.strategy = "rows"} {{
      %0 = tn.layer_norm %a scale %s bias %t {{axis = 1 : i64, epsilon = 1.0e-05 : f64,
        operandSegmentSizes = array<i32: 1, 1, 1>} : ({0}, {1}, {1}) -> {0}
      return %0 : {0} } })",
      "tensor<" + rows + "x" + length + "x" + element + ">",
      "tensor<" + length + "x" + element + ">");
}

std::string rmsNorm(const std::string &dims, const std::string &length,
                    const std::string &element) {
  std::string tensor = "tensor<" + dims + "x" + element + ">";
  std::string scale = "tensor<" + length + "x" + element + ">";
  return regionText(
      "rows", "(%a: " + tensor + ", %s: " + scale + ") -> " + tensor,
      llvm::formatv("%0 = tn.rms_norm %a scale %s {{axis = 1 : i64, epsilon = 1.0e-05 : "
                    "f64} : ({0}, {1}) -> {0}\nreturn %0 : {0}",
                    tensor, scale));
}

/// A norm's rows, and their codes of 8-bit floats beside.
std::string normWithCodes(const std::string &dims, const std::string &length) {
  std::string tensor = "tensor<" + dims + "xf16>", codes = "tensor<" + dims + "xf8E4M3FN>";
  return regionText("rows",
                    "(%a: " + tensor + ", %s: tensor<" + length + "xf16>) -> (" + tensor + ", " +
                        codes + ")",
                    llvm::formatv("%0 = tn.rms_norm %a scale %s {{axis = 1 : i64, epsilon = "
                                  "1.0e-05 : f64} : ({0}, tensor<{2}xf16>) -> {0}\n"
                                  "%f = tn.constant dense<4.0> : tensor<f16> : tensor<f16>\n%1 = "
                                  "tn.mul %0, %f : ({0}, tensor<f16>) -> {0}\n"
                                  "%2 = tn.encode %1 : ({0}) -> {1}\nreturn %0, %2 : {0}, {1}",
                                  tensor, codes, length));
}

std::string reduce(const std::string &kind, const std::string &from, const std::string &axes,
                   const std::string &to, bool keepdims = false) {
  return regionText(
      "rows", "(%a: tensor<" + from + ">) -> tensor<" + to + ">",
      llvm::formatv("%0 = tn.reduce <{0}> %a {{axes = array<i64: {1}>, keepdims = {2}} : "
                    "(tensor<{3}>) -> tensor<{4}>\nreturn %0 : tensor<{4}>",
                    kind, axes, keepdims, from, to));
}

std::string argReduce(const std::string &from, const std::string &to, bool largest, bool last) {
  return regionText(
      "single", "(%a: tensor<" + from + ">) -> tensor<" + to + "xi64>",
      llvm::formatv("%0 = tn.arg_reduce %a {{axis = 1 : i64, keepdims = false, largest = {0}, "
                    "lastIndex = {1}} : (tensor<{2}>) -> tensor<{3}xi64>\n"
                    "return %0 : tensor<{3}xi64>",
                    largest, last, from, to));
}

TEST(Rows, Softmax) {
  // A few lanes, part of a warp, a warp, several rows a block with a rest, a block; odd lengths.
  for (const char *dims : {"5x3", "7x64", "3x2x100", "9x131", "2x1000", "2x4096"}) {
    int axis = llvm::StringRef(dims).count('x');
    EXPECT_TRUE(rowsMatch(softmax(dims, axis, "f32"))) << dims;
    EXPECT_TRUE(rowsMatch(softmax(dims, axis, "f16"))) << dims;
  }
  EXPECT_TRUE(rowsMatch(softmax("4x777", 1, "bf16", /*isLog=*/true)));
  // A cluster of two blocks.
  EXPECT_TRUE(rowsMatch(softmax("2x32768", 1, "f16")));
}

TEST(Rows, FusedNorm) {
  EXPECT_TRUE(rowsMatch(fused("3", "768", "f16")));
  EXPECT_TRUE(rowsMatch(fused("2", "3072", "bf16")));
  EXPECT_TRUE(rowsMatch(fused("2", "1536", "f32")));
}

TEST(Rows, CodesOfANorm) {
  EXPECT_TRUE(rowsMatch(normWithCodes("5x768", "768")));
  EXPECT_TRUE(rowsMatch(normWithCodes("3x1024", "1024")));
  EXPECT_TRUE(rowsMatch(normWithCodes("3x77", "77")));
}

/// By rows that wait in shared memory, in a layout that GPUs get for far larger tensors.
testing::AssertionResult stagedMatches(const std::string &text, const RowReductionConfig &given,
                                       RunOptions options = {}) {
  Emitter emitter = [&](RegionBuilder &region) -> mlir::FailureOr<bool> {
    std::optional<RowsWork> work = findRowsWork(region);
    RowReductionConfig layout = given;
    layout.lanes = lanesOf(infoOf(region, *work), 0);
    layout.strips =
        *tn::constantDim(tn::elementCount(region.source.getContext(), work->inner)) / layout.lanes;
    layout.steps = llvm::divideCeil(layout.strips, layout.threadsOfRow());
    bool hasFailed = false;
    emitRowsStaged(region, *work, layout, hasFailed);
    return !hasFailed;
  };
  testing::AssertionResult forward = matchesReference(text, emitter, options);
  options.reversed = true;
  return forward ? matchesReference(text, emitter, options) : forward;
}

RowReductionConfig stagedLayout(RowThreads threads, int64_t stages, int64_t groupsPerBlock,
                                int64_t concurrentGroups = 0) {
  RowReductionConfig layout;
  layout.threads = threads;
  layout.rowsPerBlock = threads.perRow == 32 && threads.blocks == 1 ? 4 : 1;
  layout.stages = stages;
  layout.groupsPerBlock = groupsPerBlock;
  layout.concurrentGroups = concurrentGroups;
  layout.blocksPerSm = 1;
  layout.parameterRegisters = groupsPerBlock == 0 ? 8 : 0;
  return layout;
}

/// As many rows as stages that are reduced side by side.
RowReductionConfig sideBySide(RowThreads threads, int64_t rows, int64_t parameterRegisters) {
  RowReductionConfig layout = stagedLayout(threads, rows, rows);
  layout.areTogether = true;
  layout.parameterRegisters = parameterRegisters;
  return layout;
}

TEST(Rows, RowsThatWaitInSharedMemory) {
  struct Case {
    const char *dims;
    RowReductionConfig layout;
  };
  const Case table[] = {
      // Several rows a block and a rest of them, an odd number of rows, a part of a strip's
      // threads.
      {"11x512", stagedLayout({32, 1}, 2, 2)},
      {"5x1040", stagedLayout({64, 1}, 2, 2)},
      // Blocks that stay: fewer rows than blocks, and several rounds; one stage, and three.
      {"1x1024", stagedLayout({64, 1}, 2, 0, 2)},
      {"9x1024", stagedLayout({64, 1}, 3, 0, 2)},
      {"7x2048", stagedLayout({64, 2}, 3, 0, 2)},
      {"4x1024", stagedLayout({64, 1}, 1, 1)},
      {"5x1024", stagedLayout({64, 1}, 1, 0, 2)},
      {"9x8192", stagedLayout({256, 4}, 1, 0, 2)},
      {"7x2048", stagedLayout({64, 2}, 2, 0, 2)},
      // Two reductions in one round of a cluster.
      {"5x8192", stagedLayout({256, 4}, 2, 0, 2)},
      {"1x8192", stagedLayout({256, 4}, 3, 0, 2)},
      {"7x8192", stagedLayout({256, 4}, 3, 0, 2)},
      // Rows side by side: a rest of them, parameters held and not, a reduction at a time.
      {"4x1024", sideBySide({64, 1}, 2, 8)},
      {"5x1040", sideBySide({64, 1}, 2, 0)},
      {"5x2048", sideBySide({64, 2}, 3, 8)},
      {"2x2048", sideBySide({64, 4}, 1, 0)},
  };
  for (const auto &[dims, layout] : table) {
    auto [rows, length] = llvm::StringRef(dims).split('x');
    EXPECT_TRUE(stagedMatches(softmax(dims, 1, "f16"), layout)) << dims;
    EXPECT_TRUE(stagedMatches(fused(rows.str(), length.str(), "f16"), layout)) << dims;
    EXPECT_TRUE(stagedMatches(norm(rows.str(), length.str(), "f16"), layout)) << dims;
    EXPECT_TRUE(stagedMatches(rmsNorm(dims, length.str(), "bf16"), layout)) << dims;
  }
  EXPECT_TRUE(stagedMatches(fused("6", "512", "f32"), stagedLayout({64, 1}, 2, 2)));
}

RowReductionConfig kept(RowReductionConfig layout) {
  layout.keepsReads = true;
  return layout;
}

/// By the policy of tensors that no cache holds.
TEST(Rows, ReadsThatTheCacheKeeps) {
  for (RowReductionConfig layout : {stagedLayout({64, 1}, 2, 2), stagedLayout({64, 2}, 3, 0, 2),
                                    stagedLayout({64, 1}, 1, 0, 2), sideBySide({64, 2}, 2, 8)}) {
    EXPECT_TRUE(stagedMatches(softmax("5x2048", 1, "f16"), kept(layout)));
    EXPECT_TRUE(stagedMatches(fused("5", "2048", "f16"), kept(layout)));
  }
  Emitter inRegisters = [](RegionBuilder &region) -> mlir::FailureOr<bool> {
    std::optional<RowsWork> work = findRowsWork(region);
    bool hasFailed = false;
    emitRowsInRegisters(region, *work, kept(*dispatch::layoutInRegisters(infoOf(region, *work))),
                        hasFailed);
    return !hasFailed;
  };
  EXPECT_TRUE(matchesReference(softmax("7x1024", 1, "f16"), inRegisters, RunOptions()));
  EXPECT_TRUE(matchesReference(softmax("7x1021", 1, "f16"), inRegisters, RunOptions()));
}

/// Without the zero that ptxas cannot see through, its version 13.0 makes what the GPU refuses.
TEST(Rows, CopiesThatTheGpuRefusesAreFound) {
  const target::Target &gpu = target::targetOf("sm_90a");
  if (assembles("no PTX", gpu)) {
    GTEST_SKIP() << "no ptxas on this machine";
  }
  llvm::Expected<std::string> ptx = emitTestPtx(norm("512", "262144", "f16"), emitRows, gpu);
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_TRUE(assembles(*ptx, gpu));
  size_t zero = ptx->find("sub.s32", ptx->find("shfl.sync.idx.b32 same"));
  ASSERT_NE(zero, std::string::npos);
  std::string result = ptx->substr(zero, ptx->find(',', zero) - zero);
  ptx->replace(zero, ptx->find(';', zero) - zero,
               "mov.b32" + result.substr(strlen("sub.s32")) + ", 0");
  EXPECT_FALSE(assembles(*ptx, gpu));
}

TEST(Rows, OnlyTensorsThatNoCacheHoldsAreKept) {
  auto keeps = [](const std::string &text, const char *arch) {
    const target::Target &parsed = target::targetOf(arch);
    llvm::Expected<std::string> ptx = emitTestPtx(text, emitRows, parsed);
    EXPECT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
    EXPECT_TRUE(assembles(*ptx, parsed));
    return ptx->find("L2::cache_hint") != std::string::npos;
  };
  for (const char *dims : {"512x262144", "131072x1024"}) {
    EXPECT_TRUE(keeps(softmax(dims, 1, "f16"), "sm_90a")) << dims;
    EXPECT_FALSE(keeps(softmax(dims, 1, "f16"), "sm_80")) << dims;
  }
  EXPECT_TRUE(keeps(fused("512", "262144", "f16"), "sm_90a"));
  EXPECT_TRUE(keeps(rmsNorm("2048x65536", "65536", "bf16"), "sm_90"));
  EXPECT_FALSE(keeps(softmax("128x262144", 1, "f16"), "sm_90a"));
  EXPECT_FALSE(keeps(softmax("2048x65536", 1, "f16"), "sm_90a"));
}

TEST(Rows, PartsOfARowMayBeMinusInfinity) {
  RunOptions options;
  options.edit = [](llvm::MutableArrayRef<reference::Tensor> inputs) {
    // The first rows' first half: all that whole warps have of them.
    for (int64_t i = 0; i < 3 * 8192; ++i) {
      if (i % 8192 < 4096) {
        inputs[0].as<uint16_t>()[i] = 0xfc00;
      }
    }
  };
  EXPECT_TRUE(stagedMatches(softmax("5x8192", 1, "f16"), stagedLayout({256, 4}, 3, 0, 2), options));
}

TEST(Rows, MomentsOfAnyElements) {
  auto edited = [](auto set) {
    RunOptions options;
    options.edit = [set](llvm::MutableArrayRef<reference::Tensor> inputs) {
      for (int64_t i = 0; i < 3 * 4096; ++i) {
        set(inputs[0], i);
      }
    };
    return options;
  };
  // All the same; far from zero; one far from the others, in a thread's first strip.
  RunOptions floats = edited([](reference::Tensor &tensor, int64_t i) {
    float &x = tensor.as<float>()[i];
    x = i < 4096 ? 1000.1f : i < 8192 ? x + 100 : i == 8193 ? 1e4f : x;
  });
  // The same; 2,032 and 2,033, whose squares hide those around their mean; one far from the others.
  RunOptions halves = edited([](reference::Tensor &tensor, int64_t i) {
    uint16_t &x = tensor.as<uint16_t>()[i];
    x = i < 4096 ? 0x63d0 : i < 8192 ? 0x67f0 + i * 7 % 17 % 2 : i == 8193 ? 0x5400 : x;
  });
  for (const RowReductionConfig &layout :
       {stagedLayout({64, 2}, 3, 0, 2), stagedLayout({64, 2}, 1, 0, 2),
        sideBySide({64, 4}, 1, 0)}) {
    EXPECT_TRUE(stagedMatches(norm("3", "4096", "f32"), layout, floats)) << layout.stages;
    EXPECT_TRUE(stagedMatches(norm("3", "4096", "f16"), layout, halves)) << layout.stages;
  }
}

TEST(Rows, Reductions) {
  EXPECT_TRUE(rowsMatch(reduce("mean", "6x4x200xf16", "1, 2", "6xf16")));
  EXPECT_TRUE(rowsMatch(reduce("sum", "1100x6xf32", "1", "1100xf32")));
  EXPECT_TRUE(rowsMatch(reduce("max", "5x2000xbf16", "1", "5x1xbf16", true)));
  EXPECT_TRUE(rowsMatch(reduce("min", "5x96xi8", "1", "5xi8")));
  EXPECT_TRUE(rowsMatch(reduce("prod", "5x17xi64", "1", "5xi64")));
  EXPECT_TRUE(rowsMatch(reduce("sum", "3x2500xf64", "1", "3xf64")));
}

TEST(Rows, ArgReduce) {
  for (bool last : {false, true}) {
    EXPECT_TRUE(rowsMatch(argReduce("5x1000xf32", "5", true, last)));
    EXPECT_TRUE(rowsMatch(argReduce("3x3000xi32", "3", true, last)));
    EXPECT_TRUE(rowsMatch(argReduce("40x7xi64", "40", false, last)));
  }
}

TEST(Rows, RowsThatVary) {
  std::string tensor = "tensor<?x5x48xf16, #tn.shape<()[s0] -> (s0, 5, 48)>>";
  EXPECT_TRUE(rowsMatch(
      regionText("rows", "(%a: " + tensor + ") -> " + tensor,
                 "%0 = tn.softmax %a {axis = 2 : i64} : " + tensor + "\nreturn %0 : " + tensor,
                 "#tn.symbol<\"s0\", 1, 8>"),
      {7}));
}

TEST(Rows, LengthsThatVary) {
  std::string tensor = "tensor<?x?xf16, #tn.shape<()[s0, s1] -> (s0, s1)>>";
  std::string text =
      regionText("rows", "(%a: " + tensor + ") -> " + tensor,
                 "%0 = tn.softmax %a {axis = 1 : i64} : " + tensor + "\nreturn %0 : " + tensor,
                 "#tn.symbol<\"s0\", 1, 8>, #tn.symbol<\"s1\", 1, 8192>");
  for (int64_t length : {1, 77, 1000, 6000}) {
    EXPECT_TRUE(rowsMatch(text, {3, length})) << length;
  }
  std::string three = "tensor<2x?x6xf32, #tn.shape<()[s0] -> (2, s0, 6)>>";
  EXPECT_TRUE(rowsMatch(
      regionText("rows", "(%a: " + three + ") -> tensor<2xf32>",
                 "%0 = tn.reduce <mean> %a {axes = array<i64: 1, 2>, keepdims = false} : (" +
                     three + ") -> tensor<2xf32>\nreturn %0 : tensor<2xf32>",
                 "#tn.symbol<\"s0\", 1, 1024>"),
      {333}));
}

/// By the kernels of a schedule, of which those of a reduction are looked at here.
testing::AssertionResult scheduleMatches(const std::string &text,
                                         const std::vector<int64_t> &symbols = {}) {
  testing::AssertionResult forward = matchesReference(text, emitPoints, symbols);
  return forward ? matchesReference(text, emitPoints, symbols, 2, /*reversed=*/true) : forward;
}

TEST(Rows, ReductionsOverColumns) {
  EXPECT_TRUE(scheduleMatches(reduce("mean", "2x7x7x64xf16", "1, 2", "2x64xf16")));
  EXPECT_TRUE(scheduleMatches(reduce("sum", "500x9xf32", "0", "9xf32")));
  EXPECT_TRUE(scheduleMatches(reduce("max", "3x300x40xi8", "1", "3x1x40xi8", true)));
  EXPECT_TRUE(scheduleMatches(argReduce("3x700x8xf32", "3x8", true, true)));
  EXPECT_TRUE(scheduleMatches(softmax("2x130x24", 1, "f16")));
}

std::string groupNorm(const std::string &dims, int64_t channels) {
  std::string x = "tensor<" + dims + "xf16>", v = "tensor<" + std::to_string(channels) + "xf16>";
  return regionText(
      "single", "(%a: " + x + ", %s: " + v + ", %t: " + v + ") -> " + x,
      "%0 = tn.group_norm %a, %s, %t {groups = 2 : i64, epsilon = 1.0e-05 : f64} : (" + x + ", " +
          v + ", " + v + ") -> " + x + "\nreturn %0 : " + x);
}

TEST(Rows, GroupNorm) {
  EXPECT_TRUE(scheduleMatches(groupNorm("2x6x5x16", 6)));
  EXPECT_TRUE(scheduleMatches(groupNorm("2x6x30x41", 6)));
}

TEST(Rows, ReductionsOfFewLongRows) {
  EXPECT_TRUE(scheduleMatches(reduce("sum", "2x40000xf32", "1", "2xf32")));
  EXPECT_TRUE(scheduleMatches(reduce("mean", "50001xf32", "0", "f32")));
  EXPECT_TRUE(scheduleMatches(argReduce("1x30000xi32", "1", false, false)));
}

/// The blocks that a launch of constant size has.
int64_t gridOf(const Program &program) {
  std::vector<int64_t> stack;
  for (const engine::ExprTerm &term : program) {
    if (term.op == engine::ExprOp::Constant) {
      stack.push_back(term.value);
      continue;
    }
    int64_t right = stack.back();
    stack.pop_back();
    EXPECT_EQ(term.op, engine::ExprOp::Min);
    stack.back() = std::min(stack.back(), right);
  }
  return stack.back();
}

TEST(Rows, ClustersFillTheirGrid) {
  const target::Target &gpu = target::targetOf("sm_90");
  for (const char *dims : {"2048x65536", "512x262144", "3x65536", "1001x262144"}) {
    auto [rows, length] = llvm::StringRef(dims).split('x');
    for (const std::string &text : {softmax(dims, 1, "f16"), norm(rows.str(), length.str(), "f16"),
                                    fused(rows.str(), length.str(), "f16")}) {
      llvm::Expected<CompiledRegion> compiled = compileRegion(selectedForCuda(text, gpu), "k", gpu);
      ASSERT_TRUE(bool(compiled)) << llvm::toString(compiled.takeError());
      llvm::StringRef ptx = compiled->object;
      int64_t blocks = 1;
      ptx.split(".reqnctapercluster ").second.split(',').first.getAsInteger(10, blocks);
      int64_t grid = gridOf(compiled->code.steps[0].grid);
      EXPECT_GT(grid, 0) << text;
      EXPECT_EQ(grid % blocks, 0) << text;
    }
  }
}

/// How often `pattern` stands in the PTX of a region.
struct Ptx {
  explicit Ptx(const std::string &text, std::string_view name = "sm_90") {
    const target::Target &gpu = target::targetOf(name);
    llvm::Expected<CompiledRegion> compiled = compileRegion(selectedForCuda(text, gpu), "k", gpu);
    EXPECT_TRUE(bool(compiled)) << llvm::toString(compiled.takeError());
    steps = compiled->code.steps.size();
    ptx = compiled->object;
    EXPECT_TRUE(assembles(ptx, gpu));
  }
  size_t count(llvm::StringRef pattern) const { return llvm::StringRef(ptx).count(pattern); }

  std::string ptx;
  size_t steps = 0;
};

TEST(Rows, ReadsAndWritesEachElementOnce) {
  struct Expected {
    std::string text;
    /// 16-byte loads and stores of a thread, barriers, and copies to shared memory: those of its
    /// first row, then those that are ahead of others.
    size_t loads, stores, barriers, copies = 0;
  };
  const Expected table[] = {
      {softmax("65536x4096", 1, "f16"), 2, 2, 2},
      {softmax("65536x64", 1, "f16"), 2, 2, 0},
      {softmax("65536x1024", 1, "f16"), 4, 4, 0},
      {softmax("4096x1024", 1, "f32"), 8, 8, 0},
      {softmax("8192x16384", 1, "f16"), 4, 4, 0},
      // In a cluster of blocks: two rows at once, one, and one after the other.
      {norm("8192", "16384", "f16"), 8, 8, 0, 8},
      {softmax("2048x262144", 1, "f16"), 0, 8, 0, 8},
      {norm("512", "262144", "f16"), 16, 8, 0, 24},
      // Two rows and three parameters.
      {fused("65536", "4096", "f16"), 6, 2, 2, 8},
      {fused("128", "768", "f16"), 5, 1, 2},
      {reduce("mean", "65536x4096xf16", "1", "65536xf16"), 2, 0, 1},
  };
  for (const Expected &expected : table) {
    Ptx ptx(expected.text);
    EXPECT_EQ(ptx.steps, 1u);
    EXPECT_EQ(ptx.count("ld.global"), expected.loads) << expected.text;
    EXPECT_EQ(ptx.count("ld.global.v4.b32") + ptx.count("ld.global.L2::cache_hint.v4.b32"),
              expected.loads)
        << expected.text;
    EXPECT_EQ(ptx.count("st.global.v4.b32"), expected.stores) << expected.text;
    EXPECT_EQ(ptx.count("bar.sync"), expected.barriers) << expected.text;
    EXPECT_EQ(ptx.count("cp.async.cg.shared.global"), expected.copies) << expected.text;
    EXPECT_EQ(ptx.count(".local"), 0u) << expected.text;
  }
}

TEST(Rows, LongRowsOfSeveralTensorsDoNotSpill) {
  // Ptx checks it.
  EXPECT_EQ(Ptx(fused("2048", "65536", "f32")).steps, 1u);
  EXPECT_EQ(Ptx(fused("2048", "262144", "f16")).steps, 1u);
}

TEST(Rows, LongReductionsAreSharedByManyBlocks) {
  Ptx rows(reduce("sum", "67108864xf32", "0", "f32"));
  EXPECT_EQ(rows.steps, 2u);
  EXPECT_EQ(rows.count("ld.global.v4.b32"), 4u);
  Ptx columns(reduce("sum", "65536x768xf32", "0", "768xf32"));
  EXPECT_EQ(columns.steps, 2u);
  EXPECT_EQ(columns.count("ld.global.v4.b32"), 4u);
  // Of 64 blocks, each with much to read.
  EXPECT_EQ(Ptx(reduce("sum", "64x512x256xf16", "1", "64x256xf16")).steps, 2u);
}

/// The mean, of which the squares need the result, then these; each by many threads.
TEST(Rows, MomentsOfGroupsAreSharedByManyThreads) {
  EXPECT_GE(Ptx(groupNorm("64x64x64x64", 64)).steps, 3u);
}

TEST(Rows, ClustersOfOneRowStoreAsynchronously) {
  for (const std::string &text :
       {softmax("8192x16384", 1, "f16"), softmax("2048x65536", 1, "f16"),
        softmax("64x65536", 1, "f16"), rmsNorm("8192x16384", "16384", "f16")}) {
    Ptx ptx(text);
    EXPECT_EQ(ptx.count(".reqnctapercluster"), 1u) << text;
    EXPECT_EQ(ptx.count("barrier.cluster.arrive.relaxed"), 1u) << text;
    EXPECT_EQ(ptx.count("barrier.cluster.arrive"), 1u) << text;
    EXPECT_EQ(ptx.count("cp.async"), 0u) << text;
    // Both reductions of softmax go together, in one word.
    EXPECT_EQ(ptx.count("st.async"), 1u) << text;
  }
}

TEST(Rows, ClustersOfSixteenBlocksAreForKnownGpus) {
  for (const std::string &text :
       {softmax("512x262144", 1, "f16"), rmsNorm("512x262144", "262144", "f16")}) {
    EXPECT_EQ(Ptx(text, "sm_90a").count(".reqnctapercluster 16"), 1u) << text;
    EXPECT_EQ(Ptx(text).count(".reqnctapercluster 8"), 1u) << text;
  }
}

TEST(Rows, LongRowsAreSharedByACluster) {
  Ptx ptx(softmax("2048x262144", 1, "f16"));
  EXPECT_EQ(ptx.count(".reqnctapercluster 8"), 1u);
  EXPECT_GT(ptx.count("mapa"), 0u);
  // Once to know that all blocks run, and once for both reductions (of the first row, and of each
  // that follows). The next kernel waits for the end, and no more blocks run than find room.
  for (const std::string &text : {norm("512", "262144", "f16"), fused("2048", "65536", "f16")}) {
    Ptx joint(text);
    EXPECT_EQ(joint.count("barrier.cluster.arrive"), 3u) << text;
    auto [before, after] = llvm::StringRef(joint.ptx).split("griddepcontrol.launch_dependents");
    EXPECT_TRUE(before.contains("st.global")) << text;
    EXPECT_FALSE(after.contains("global")) << text;
    EXPECT_EQ(joint.count(".minnctapersm"), 1u) << text;
  }
}

} // namespace
} // namespace tenon::codegen::cuda
