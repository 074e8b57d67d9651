// Running sums by many threads: rows that share a block, rows of many tiles and pieces, columns; at
// lengths that end within vectors and tiles, and of all element types.
#include "compiler/codegen/cuda/KernelFamily.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "llvm/Support/FormatVariadic.h"

namespace tenon::codegen::cuda {
namespace {

using llvm::formatv;

std::string scanText(const std::string &type, int64_t axis, bool exclusive = false,
                     bool reverse = false, const std::string &symbols = "") {
  auto word = [](bool value) { return value ? "true" : "false"; };
  return regionText("single", "(%x: " + type + ") -> " + type,
                    formatv("%0 = tn.cumsum %x {axis = {0} : i64, exclusive = {1}, reverse = {2}} "
                            ": {3}\nreturn %0 : {3}",
                            axis, word(exclusive), word(reverse), type),
                    symbols);
}

/// Every configuration that the family lists.
void expectRight(const std::string &text, const std::vector<int64_t> &symbols = {}) {
  const KernelFamily &family = *kernelFamilies().find("prefix_scan");
  std::vector<dispatch::KernelChoice> configs;
  Emitter list = [&](RegionBuilder &region) -> mlir::FailureOr<bool> {
    configs = kernelFamilies().configsOf(family, region, kernelFamilies().match(family, region));
    return false;
  };
  llvm::consumeError(emitTestPtx(text, list, target::targetOf("sm_90")).takeError());
  ASSERT_FALSE(configs.empty()) << text;
  for (const dispatch::KernelChoice &choice : configs) {
    Emitter emitter = [&](RegionBuilder &region) -> mlir::FailureOr<bool> {
      if (failed(kernelFamilies().emit(region, choice))) {
        return mlir::failure();
      }
      return true;
    };
    for (bool reversed : {false, true}) {
      EXPECT_TRUE(matchesReference(text, emitter, symbols, 2, reversed)) << choice.text() << " in\n"
                                                                         << text;
    }
  }
}

TEST(Scan, RowsOfAllLengths) {
  for (int64_t length : {0, 1, 2, 7, 16, 31, 130, 512, 513, 4097, 9000}) {
    bool exclusive = length % 2 == 0, reverse = length % 3 == 0;
    expectRight(scanText(formatv("tensor<5x{0}xf32>", length), 1, exclusive, reverse));
    expectRight(scanText(formatv("tensor<3x{0}xf16>", length), 1, !exclusive, !reverse));
  }
}

TEST(Scan, ColumnsOfAllLengths) {
  for (int64_t length : {0, 1, 5, 8, 9, 70, 600, 1500}) {
    bool exclusive = length % 2 == 0, reverse = length % 3 == 0;
    expectRight(scanText(formatv("tensor<2x{0}x24xf32>", length), 1, exclusive, reverse));
    expectRight(scanText(formatv("tensor<{0}x37xf16>", length), 0, !exclusive, !reverse));
    expectRight(scanText(formatv("tensor<{0}x3xf32>", length), 0, exclusive, !reverse));
  }
}

TEST(Scan, OfAllTypes) {
  for (const char *type : {"f64", "f32", "f16", "bf16", "i8", "ui8", "i16", "ui16", "i32", "i64"}) {
    expectRight(scanText(formatv("tensor<3x700x{0}>", type), 1));
    expectRight(scanText(formatv("tensor<3x20x{0}>", type), 1, true));
    expectRight(scanText(formatv("tensor<100x20x{0}>", type), 0, true, true));
  }
}

TEST(Scan, OfVaryingSizes) {
  std::string type = "tensor<?x?xf32, #tn.shape<()[s0, s1] -> (s0, s1)>>";
  std::string symbols = R"(#tn.symbol<"s0", 0, 4096>, #tn.symbol<"s1", 0, 100000>)";
  using Sizes = std::pair<int64_t, int64_t>;
  for (int64_t axis : {0, 1}) {
    // Several tiles along the axis; the emulated blocks are as many as all that lies across it.
    Sizes large = axis == 0 ? Sizes(300, 17) : Sizes(3, 6001);
    for (auto [rows, columns] : {Sizes(0, 5), Sizes(5, 0), Sizes(1, 1), large}) {
      expectRight(scanText(type, axis, false, axis == 1, symbols), {rows, columns});
    }
  }
}

TEST(Scan, AssemblesForEveryGeneration) {
  for (const char *name : {"sm_80", "sm_90", "sm_120"}) {
    const target::Target &gpu = target::targetOf(name);
    for (const std::string &text :
         {scanText("tensor<256x8192xf16>", 1), scanText("tensor<1x2097152xf32>", 1),
          scanText("tensor<65536x32xf16>", 1), scanText("tensor<8192x256xf16>", 0),
          scanText("tensor<64x1000x33xi8>", 1), scanText("tensor<3x5000xf64>", 1)}) {
      llvm::Expected<std::string> ptx = emitTestPtx(text, byFamily({"prefix_scan"}), gpu);
      ASSERT_TRUE(static_cast<bool>(ptx)) << llvm::toString(ptx.takeError());
      EXPECT_TRUE(assembles(*ptx, gpu)) << text;
    }
  }
}

} // namespace
} // namespace tenon::codegen::cuda
