// Scatters of many updates, several of which meet: the last counts, or all are combined in order.
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "llvm/Support/FormatVariadic.h"

namespace tenon::codegen::cuda {
namespace {

using llvm::formatv;
using reference::Tensor;

struct Case {
  const char *op, *kind, *element, *data, *indices, *updates, *rest;
};

std::string scatterText(const Case &each) {
  std::string x = formatv("tensor<{0}{1}>", each.data, each.element),
              indices = formatv("tensor<{0}i64>", each.indices),
              updates = formatv("tensor<{0}{1}>", each.updates, each.element);
  return regionText(
      "single", formatv("(%x: {0}, %i: {1}, %u: {2}) -> {0}", x, indices, updates),
      formatv("%0 = tn.{0} <{1}> %x, %i, %u {2} : ({3}, {4}, {5}) -> {3}\nreturn %0 : {3}", each.op,
              each.kind, each.rest, x, indices, updates));
}

/// Indices of both signs below `size`, of which many are equal.
RunOptions optionsFor(int64_t size, bool reversed) {
  RunOptions options;
  options.reversed = reversed;
  options.edit = [size](llvm::MutableArrayRef<Tensor> inputs) {
    for (int64_t i = 0; i < inputs[1].count(); ++i) {
      int64_t index = i * 7919 % (size + size / 2) % size;
      inputs[1].as<int64_t>()[i] = i % 3 == 0 ? index - size : index;
    }
  };
  return options;
}

void expectRight(const Case &each, int64_t size) {
  for (bool reversed : {false, true}) {
    EXPECT_TRUE(
        matchesReference(scatterText(each), byFamily({"scatter"}), optionsFor(size, reversed)))
        << scatterText(each);
  }
}

TEST(Scatter, TheLastUpdateCounts) {
  expectRight({"scatter_elements", "none", "xf32", "7x50", "3x90x", "3x90", "{axis = 1 : i64}"},
              50);
  expectRight({"scatter_elements", "none", "xf16", "50x9", "600x7x", "600x7", "{axis = 0 : i64}"},
              50);
  expectRight({"scatter_elements", "none", "xi8", "5", "0x", "0", "{axis = 0 : i64}"}, 5);
  expectRight({"scatter_nd", "none", "xf16", "9x16", "300x1x", "300x16", ""}, 9);
  expectRight({"scatter_nd", "none", "xf32", "9x9x3", "10x30x2x", "10x30x3", ""}, 9);
}

TEST(Scatter, AnOnlyUpdateIsStored) {
  expectRight({"scatter_nd", "none", "xf16", "9x16", "1x1x", "1x16", ""}, 9);
  expectRight({"scatter_elements", "none", "xf32", "7x50", "1x1x", "1x1", "{axis = 1 : i64}"}, 50);
}

/// Slices of the data, and single elements, whose rows or columns vary: none, one and many.
TEST(Scatter, UpdatesWhoseCountVaries) {
  auto varying = [](const std::string &dims, const std::string &shape) {
    return formatv("tensor<{0}, #tn.shape<()[s0] -> ({1})>>", dims, shape).str();
  };
  std::string data = "tensor<9x16xf16>", slices = varying("?x1xi64", "s0, 1");
  struct Varying {
    std::string op, indices, updates, rest;
  };
  for (const Varying &each :
       {Varying{"scatter_nd", slices, varying("?x16xf16", "s0, 16"), ""},
        {"scatter_elements", slices, varying("?x1xf16", "s0, 1"), "{axis = 0 : i64}"},
        {"scatter_elements", varying("1x?xi64", "1, s0"), varying("1x?xf16", "1, s0"),
         "{axis = 1 : i64}"}}) {
    std::string text = regionText(
        "single", formatv("(%x: {0}, %i: {1}, %u: {2}) -> {0}", data, each.indices, each.updates),
        formatv("%0 = tn.{0} <none> %x, %i, %u {1} : ({2}, {3}, {4}) -> {2}\nreturn %0 : {2}",
                each.op, each.rest, data, each.indices, each.updates),
        "#tn.symbol<\"s0\", 0, 40>");
    for (int64_t count : {0, 1, 2, 40}) {
      RunOptions options = optionsFor(9, /*reversed=*/true);
      options.symbols = {count};
      EXPECT_TRUE(matchesReference(text, byFamily({"scatter"}), options)) << text << count;
    }
  }
}

TEST(Scatter, UpdatesCombineInOrder) {
  for (const char *kind : {"add", "mul", "max", "min"}) {
    expectRight({"scatter_elements", kind, "xf32", "7x50", "3x90x", "3x90", "{axis = 1 : i64}"},
                50);
    expectRight({"scatter_nd", kind, "xf16", "9x16", "30x1x", "30x16", ""}, 9);
    expectRight({"scatter_nd", kind, "xi32", "9x9x3", "10x30x2x", "10x30x3", ""}, 9);
  }
  expectRight({"scatter_elements", "add", "xi8", "300x5", "700x5x", "700x5", "{axis = 0 : i64}"},
              300);
}

TEST(Scatter, OverItsData) {
  for (const char *kind : {"none", "add"}) {
    Case each{"scatter_nd", kind, "xf32", "40x5", "100x1x", "100x5", ""};
    RunOptions options = optionsFor(40, false);
    options.overwritten = {{0, 0}};
    EXPECT_TRUE(matchesReference(scatterText(each), byFamily({"scatter"}), options));
  }
}

TEST(Scatter, AssemblesForEveryGeneration) {
  for (const char *name : {"sm_80", "sm_90", "sm_120"}) {
    const target::Target &gpu = target::targetOf(name);
    for (const char *kind : {"none", "add"}) {
      for (const Case &each :
           {Case{"scatter_elements", kind, "xf16", "4096x2048", "4096x512x", "4096x512",
                 "{axis = 1 : i64}"},
            Case{"scatter_nd", kind, "xf32", "65536x64", "32768x1x", "32768x64", ""}}) {
        llvm::Expected<std::string> ptx =
            emitTestPtx(scatterText(each), byFamily({"scatter"}), gpu);
        ASSERT_TRUE(static_cast<bool>(ptx)) << llvm::toString(ptx.takeError());
        EXPECT_TRUE(assembles(*ptx, gpu)) << each.op;
      }
    }
  }
}

} // namespace
} // namespace tenon::codegen::cuda
