// Persistent recurrences beside the reference: clusters and whole grids whose blocks wait for each
// other, of all cells and types, at batches that fill no tile, with lengths and backwards.
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/recurrent/PersistentKernel.h"
#include "engine/KernelAbi.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "llvm/Support/FormatVariadic.h"

namespace tenon::codegen::cuda {
namespace {

using llvm::formatv;

/// A layer of 3 or so steps; `extra` has its attributes.
struct Layer {
  std::string cell = "lstm", type = "f16";
  int64_t hidden = 64, batch = 5, steps = 3;
  bool reverse = false, hasLengths = false;

  std::string text() const {
    int64_t gates = cell == "lstm" ? 4 : cell == "gru" ? 3 : 1;
    std::string state = formatv("tensor<{0}x{1}x{2}>", batch, hidden, type);
    std::string all = formatv("tensor<{0}x{1}x{2}x{3}>", steps, batch, hidden, type);
    std::string input = formatv("tensor<{0}x{1}x{2}x{3}>", steps, batch, gates * hidden, type);
    std::string weights = formatv("tensor<{0}x{1}x{2}>", hidden, gates * hidden, type);
    std::string lengths = formatv("tensor<{0}xi64>", batch);
    std::string arguments = formatv("%x: {0}, %w: {1}, %h: {2}", input, weights, state);
    std::string operands = "%x, %w, %h", types = input + ", " + weights + ", " + state;
    std::string results = all + ", " + state, names = "%0, %1";
    if (cell == "lstm") {
      arguments += ", %c: " + state;
      operands += ", %c";
      types += ", " + state;
      results += ", " + state;
      names += ", %2";
    }
    if (hasLengths) {
      arguments += ", %l: " + lengths;
      operands += ", %l";
      types += ", " + lengths;
    }
    std::string activations = cell == "lstm"  ? R"("sigmoid", "tanh", "tanh")"
                              : cell == "gru" ? R"("sigmoid", "tanh")"
                                              : R"("tanh")";
    std::string op =
        formatv("{0} = tn.recurrence {1} {{cell = \"{2}\", reverse = {3}, linearBeforeReset = {4}, "
                "activations = [{5}], operandSegmentSizes = array<i32: 1, 1, 1, {6}, 0, 0, {7}>} : "
                "({8}) -> ({9})\nreturn {0} : {9}",
                names, operands, cell, reverse ? "true" : "false", cell == "gru" ? "true" : "false",
                activations, cell == "lstm" ? 1 : 0, hasLengths ? 1 : 0, types, results);
    return regionText("single", "(" + arguments + ") -> (" + results + ")", op);
  }
};

Emitter inLayout(PersistentLayout layout) {
  return [layout](RegionBuilder &region) -> mlir::FailureOr<bool> {
    tn::RecurrenceOp op = recurrenceOf(region.source);
    emitPersistentLayer(region, op, PersistentShape(op, layout));
    return true;
  };
}

void expectRight(const Layer &layer, const PersistentLayout &layout) {
  for (bool reversed : {false, true}) {
    RunOptions options;
    options.inputScale = 0.5;
    options.reversed = reversed;
    EXPECT_TRUE(matchesReference(layer.text(), inLayout(layout), options))
        << layout.blocks << " blocks, " << layout.parts << " parts, " << layout.rows << " rows, "
        << (layout.grid ? "a grid" : "a cluster") << (reversed ? ", reversed" : "");
  }
}

TEST(PersistentRecurrence, GridsOfAllTypes) {
  for (const char *type : {"f16", "bf16", "f32"}) {
    expectRight({.type = type}, {4, 2, 8, 1});
    expectRight({.type = type, .hidden = 72, .batch = 19}, {9, 8, 16, 1});
  }
}

TEST(PersistentRecurrence, GridsOfManySteps) {
  for (const char *type : {"f16", "bf16", "f32"}) {
    expectRight({.type = type, .steps = 7}, {4, 2, 8, 1});
    expectRight({.cell = "gru", .type = type, .hidden = 40, .batch = 19, .steps = 6},
                {5, 8, 32, 1});
  }
  Layer lengths = {.cell = "rnn", .batch = 20, .steps = 5, .reverse = true, .hasLengths = true};
  expectRight(lengths, {8, 8, 8, 1});
}

TEST(PersistentRecurrence, ClustersOfAllTypes) {
  for (const char *type : {"f16", "bf16", "f32"}) {
    expectRight({.type = type, .hidden = 40, .batch = 9}, {4, 4, 8, 0});
    expectRight({.type = type, .hidden = 24, .batch = 3}, {1, 1, 8, 0});
  }
}

TEST(PersistentRecurrence, CellsWithLengthsAndBackwards) {
  for (const char *cell : {"rnn", "gru", "lstm"}) {
    for (bool reverse : {false, true}) {
      Layer layer = {.cell = cell, .hidden = 36, .batch = 11, .reverse = reverse};
      layer.hasLengths = true;
      expectRight(layer, {4, 2, 8, 1});
      layer.type = "f32";
      expectRight(layer, {2, 4, 16, 0});
    }
  }
}

/// Blocks whose warps have whole depths, so that sums stay in registers: units that fill the warps
/// and that do not, one and several times 8.
TEST(PersistentRecurrence, GatesInRegisters) {
  for (const char *cell : {"rnn", "gru", "lstm"}) {
    Layer layer = {.cell = cell, .hidden = 64, .batch = 11};
    expectRight(layer, {1, 1, 8, 0});
    layer.hasLengths = layer.reverse = true;
    expectRight(layer, {1, 1, 32, 0});
    layer.hidden = 38;
    expectRight(layer, {2, 1, 16, 0});
    expectRight(layer, {2, 1, 8, 1});
    layer.type = "bf16";
    expectRight(layer, {2, 1, 16, 1});
  }
  expectRight({.hidden = 136, .batch = 3}, {1, 1, 8, 0});
}

TEST(PersistentRecurrence, ManyRowsInChunks) {
  expectRight({.hidden = 32, .batch = 70, .steps = 2}, {2, 4, 32, 0});
  expectRight({.cell = "rnn", .hidden = 64, .batch = 128, .steps = 2}, {4, 8, 128, 1});
  expectRight({.cell = "gru", .type = "f32", .hidden = 16, .batch = 20, .steps = 4}, {4, 1, 32, 1});
  expectRight({.type = "f32", .hidden = 16, .batch = 3, .steps = 2}, {2, 8, 2, 1});
}

/// A grid whose blocks have more weights than registers.
TEST(PersistentRecurrence, WeightsInSharedMemoryAndInTheL2) {
  expectRight({.cell = "gru", .hidden = 320, .batch = 2, .steps = 2}, {4, 8, 8, 1});
  expectRight({.type = "f32", .hidden = 320, .batch = 2, .steps = 2}, {4, 8, 2, 1});
}

/// Blocks of which only one runs at a time, which no cooperative launch does.
TEST(PersistentRecurrence, BlocksThatWaitInVainSaySo) {
  Emitter alone = [](RegionBuilder &region) -> mlir::FailureOr<bool> {
    tn::RecurrenceOp op = recurrenceOf(region.source);
    emitPersistentLayer(region, op, PersistentShape(op, {4, 2, 8, 1}), /*looks=*/100);
    region.code.steps.back().cluster = 1;
    return true;
  };
  testing::AssertionResult result = matchesReference(Layer().text(), alone);
  EXPECT_FALSE(result);
  std::string waited = "failed with " + std::to_string(TENON_KERNEL_WAITED);
  EXPECT_NE(std::string::npos, std::string(result.message()).find(waited)) << result.message();
}

/// Layers that fill the registers: the one chosen for each size, assembled.
TEST(PersistentRecurrence, RegistersSuffice) {
  const target::Target &gpu = *target::findPart("cuda", "h200");
  for (const Layer &layer :
       {Layer{.batch = 32}, Layer{.hidden = 512, .batch = 8}, Layer{.hidden = 512, .batch = 128},
        Layer{.hidden = 1024, .batch = 32}, Layer{.hidden = 2048, .batch = 32},
        Layer{.type = "f32", .hidden = 512, .batch = 64},
        Layer{.type = "f32", .hidden = 1024, .batch = 8}}) {
    llvm::Expected<std::string> ptx =
        emitTestPtx(layer.text(), byFamily({"recurrence_persistent"}), gpu);
    ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
    EXPECT_TRUE(assembles(*ptx, gpu)) << layer.type << ", " << layer.hidden;
  }
}

} // namespace
} // namespace tenon::codegen::cuda
