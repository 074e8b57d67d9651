// The k first of rows: by the registers of warps, of teams in one kernel and in several, and by
// sorting; with equal elements, zeros of both signs and what is no number.
#include "compiler/codegen/cuda/KernelFamily.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>

namespace tenon::codegen::cuda {
namespace {

using llvm::formatv;
using reference::Tensor;

struct TopKCase {
  std::string element = "f32";
  std::string dims, wanted; ///< "4x100" and "4x7"
  int64_t axis = 1;
  bool largest = true;
};

std::string topKText(const TopKCase &each) {
  std::string x = formatv("tensor<{0}x{1}>", each.dims, each.element),
              y = formatv("tensor<{0}x{1}>", each.wanted, each.element),
              indices = formatv("tensor<{0}xi64>", each.wanted);
  return regionText("single", formatv("(%x: {0}) -> ({1}, {2})", x, y, indices),
                    formatv("%0:2 = tn.top_k %x {axis = {0} : i64, largest = {1}, sorted = true} : "
                            "({2}) -> ({3}, {4})\nreturn %0#0, %0#1 : {3}, {4}",
                            each.axis, each.largest ? "true" : "false", x, y, indices));
}

/// Few values, so that many are equal; some are no numbers, infinite or -0.
template <typename T> void fill(Tensor &tensor) {
  for (int64_t i = 0; i < tensor.count(); ++i) {
    double value = double(i * 7919 % 1009) / 16 - 20;
    if (i % 97 == 5) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (i % 11 == 3) {
      value = i % 2 == 0 ? 0.0 : -0.0;
    } else if (i % 89 == 7) {
      value = i % 2 == 0 ? HUGE_VAL : -HUGE_VAL;
    }
    tensor.as<T>()[i] = static_cast<T>(value);
  }
}

RunOptions optionsFor(const std::string &element, bool reversed) {
  RunOptions options;
  options.reversed = reversed;
  options.edit = [element](llvm::MutableArrayRef<Tensor> inputs) {
    if (element == "f32") {
      fill<float>(inputs[0]);
    } else if (element == "f64") {
      fill<double>(inputs[0]);
    } else if (element[0] == 'f' || element[0] == 'b') {
      // Halves by their bits, all of them: numbers of both signs and others.
      for (int64_t i = 0; i < inputs[0].count(); ++i) {
        inputs[0].as<uint16_t>()[i] = static_cast<uint16_t>(i * 40503);
      }
    } else {
      char *bytes = static_cast<char *>(inputs[0].mutableBytes());
      for (size_t i = 0; element != "i1" && i < inputs[0].byteCount(); ++i) {
        bytes[i] = static_cast<char>(i * 167 % 251);
      }
    }
  };
  return options;
}

/// Every configuration of the family.
void expectRight(const TopKCase &each, const char *familyName) {
  std::string text = topKText(each);
  const KernelFamily &family = *kernelFamilies().find(familyName);
  std::vector<dispatch::KernelChoice> configs;
  Emitter list = [&](RegionBuilder &region) -> mlir::FailureOr<bool> {
    FamilyMatch match = kernelFamilies().match(family, region);
    EXPECT_TRUE(match) << match.why;
    configs = match ? kernelFamilies().configsOf(family, region, match) : configs;
    return false;
  };
  llvm::consumeError(emitTestPtx(text, list, target::targetOf("sm_90")).takeError());
  for (const dispatch::KernelChoice &choice : configs) {
    Emitter emitter = [&](RegionBuilder &region) -> mlir::FailureOr<bool> {
      if (failed(kernelFamilies().emit(region, choice))) {
        return mlir::failure();
      }
      return true;
    };
    for (bool reversed : {false, true}) {
      EXPECT_TRUE(matchesReference(text, emitter, optionsFor(each.element, reversed)))
          << choice.text() << " in\n"
          << text;
    }
  }
}

TEST(TopK, ShortRowsInLanes) {
  for (bool largest : {false, true}) {
    for (const char *element : {"f32", "f16", "i8"}) {
      expectRight({element, "37x32", "37x5", 1, largest}, "top_k");
      expectRight({element, "9x11", "9x11", 1, largest}, "top_k");
      expectRight({element, "5x1", "5x1", 1, largest}, "top_k");
      expectRight({element, "3x7x5", "3x2x5", 1, largest}, "top_k");
    }
  }
  expectRight({"f32", "3x0", "3x0"}, "top_k");
  expectRight({"f32", "0x8", "0x3"}, "top_k");
}

TEST(TopK, RowsOfAWarp) {
  for (bool largest : {false, true}) {
    expectRight({"f32", "7x33", "7x4", 1, largest}, "top_k");
    expectRight({"f16", "5x200", "5x200", 1, largest}, "top_k");
    expectRight({"f32", "3x1001", "3x64", 1, largest}, "top_k");
    expectRight({"f32", "3x1001", "3x0", 1, largest}, "top_k");
    expectRight({"i64", "3x300x2", "3x9x2", 1, largest}, "top_k");
  }
}

TEST(TopK, RowsOfABlockAndPieces) {
  for (bool largest : {false, true}) {
    expectRight({"f32", "2x1500", "2x100", 1, largest}, "top_k");
    expectRight({"f32", "2x1500", "2x1500", 1, largest}, "top_k");
    expectRight({"f16", "2x9001", "2x50", 1, largest}, "top_k");
    expectRight({"f32", "1x20011", "1x5", 1, largest}, "top_k");
    expectRight({"f32", "30011x1", "700x1", 0, largest}, "top_k");
  }
  expectRight({"f32", "5000x3", "20x3", 0, true}, "top_k");
}

TEST(TopK, BySorting) {
  for (bool largest : {false, true}) {
    expectRight({"f32", "2x5000", "2x5000", 1, largest}, "radix_sort");
    expectRight({"f16", "3x2100", "3x40", 1, largest}, "radix_sort");
    expectRight({"i8", "1x2049", "1x2049", 1, largest}, "radix_sort");
    expectRight({"f32", "700x3", "650x3", 0, largest}, "radix_sort");
  }
  expectRight({"f64", "1x2100", "1x2100"}, "radix_sort");
  expectRight({"f64", "1x3000", "1x130"}, "top_k");
  expectRight({"ui8", "1x5000", "1x130"}, "top_k");
  expectRight({"f32", "2x1", "2x1"}, "radix_sort");
  expectRight({"f32", "2x0", "2x0"}, "radix_sort");
}

/// Pieces of them would give as much as they take, and a heap is no loop nest.
TEST(TopK, WholeLongRowsAreSorted) {
  std::string text = topKText({"f32", "1x100000", "1x100000"});
  const target::Target &gpu = target::targetOf("sm_90");
  for (const char *name : {"top_k", "pointwise", "radix_sort"}) {
    llvm::Expected<std::string> ptx = emitTestPtx(text, byFamily({name}), gpu);
    EXPECT_EQ(static_cast<bool>(ptx), std::string(name) == "radix_sort") << name;
    llvm::consumeError(ptx.takeError());
  }
}

TEST(TopK, OfAllTypes) {
  bool largest = false; // Each family meets both orders with floats, signed and unsigned integers.
  for (const char *element :
       {"f64", "f32", "f16", "bf16", "i8", "ui8", "ui16", "i16", "i32", "ui32", "ui64", "i64"}) {
    expectRight({element, "2x31", "2x7", 1, largest}, "top_k");
    expectRight({element, "2x500", "2x7", 1, !largest}, "top_k");
    expectRight({element, "1x300", "1x290", 1, largest}, "radix_sort");
    largest = !largest;
  }
}

TEST(TopK, OfVaryingSizes) {
  std::string x = "tensor<2x?xf32, #tn.shape<()[s0] -> (2, s0)>>",
              all = "tensor<2x?xi64, #tn.shape<()[s0] -> (2, s0)>>";
  std::string sorted =
      regionText("single", "(%x: " + x + ") -> (" + x + ", " + all + ")",
                 "%0:2 = tn.top_k %x {axis = 1 : i64, largest = true, sorted = true} : (" + x +
                     ") -> (" + x + ", " + all + ")\nreturn %0#0, %0#1 : " + x + ", " + all,
                 R"(#tn.symbol<"s0", 0, 100000>)");
  std::string five = "tensor<2x5xf32>", fiveOf = "tensor<2x5xi64>";
  std::string few = regionText(
      "single", "(%x: " + x + ") -> (" + five + ", " + fiveOf + ")",
      "%0:2 = tn.top_k %x {axis = 1 : i64, largest = true, sorted = true} : (" + x + ") -> (" +
          five + ", " + fiveOf + ")\nreturn %0#0, %0#1 : " + five + ", " + fiveOf,
      R"(#tn.symbol<"s0", 5, 100000>)");
  for (int64_t count : {0, 1, 2, 255, 3000}) {
    RunOptions options = optionsFor("f32", count % 2 == 0);
    options.symbols = {count};
    EXPECT_TRUE(matchesReference(sorted, byFamily({"radix_sort"}), options)) << count;
    options.symbols = {std::max<int64_t>(count, 5)};
    EXPECT_TRUE(matchesReference(few, byFamily({"top_k"}), options)) << count;
  }
}

TEST(TopK, AssemblesForEveryGeneration) {
  for (const char *name : {"sm_80", "sm_90", "sm_120"}) {
    const target::Target &gpu = target::targetOf(name);
    for (const TopKCase &each :
         {TopKCase{"f16", "64x32000", "64x50"}, TopKCase{"f32", "64x32000", "64x1"},
          TopKCase{"f32", "1x1000000", "1x100"}, TopKCase{"f32", "65536x32", "65536x5"},
          TopKCase{"f16", "4096x1024", "4096x8"}, TopKCase{"i64", "3x9000", "3x1000"}}) {
      for (const char *family : {"top_k", "radix_sort"}) {
        llvm::Expected<std::string> ptx = emitTestPtx(topKText(each), byFamily({family}), gpu);
        ASSERT_TRUE(static_cast<bool>(ptx)) << llvm::toString(ptx.takeError());
        EXPECT_TRUE(assembles(*ptx, gpu)) << family << " of " << each.dims;
      }
    }
  }
}

} // namespace
} // namespace tenon::codegen::cuda
