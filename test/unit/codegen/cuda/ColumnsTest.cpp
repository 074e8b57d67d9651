// Kernels of columns: columnSoftmax and norms over dims of which others lie behind, on the emulated
// GPU against the reference, and their PTX. Relies on HandKernelCheck for both.
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "compiler/codegen/cuda/rows/Columns.h"
#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

#include <tuple>

namespace tenon::codegen::cuda {
namespace {

const Emitter emitColumnsOnly = byFamily({"columns_tiled"});

testing::AssertionResult columnsMatch(const std::string &text, const char *gpu = "sm_90",
                                      const std::vector<int64_t> &symbols = {}) {
  RunOptions options;
  options.symbols = symbols;
  options.gpu = target::targetOf(gpu);
  testing::AssertionResult forward = matchesReference(text, emitColumnsOnly, options);
  options.reversed = true;
  return forward ? matchesReference(text, emitColumnsOnly, options) : forward;
}

std::string columnSoftmax(const std::string &dims, int axis, const std::string &element,
                          bool isLog = false) {
  std::string tensor = "tensor<" + dims + "x" + element + ">";
  return regionText(
      "rows", "(%a: " + tensor + ") -> " + tensor,
      llvm::formatv("%0 = tn.softmax %a {{axis = {0} : i64{1}} : {2}\nreturn %0 : {2}", axis,
                    isLog ? ", log" : "", tensor));
}

/// (x - mean) / sqrt(variance + 1) over `axes`, with the mean as a second result; `kept` are the
/// dims of statistics, with or without dims of 1.
std::string columnNorm(const std::string &wide, const std::string &axes, const std::string &kept,
                       const std::string &symbols = "") {
  return regionText("rows", llvm::formatv("(%a: {0}) -> ({0}, {1})", wide, kept),
                    llvm::formatv(R"(
      %m = tn.reduce <mean> %a {{axes = array<i64: {2}>, keepdims = {3}} : ({0}) -> {1}
      %d = tn.sub %a, %m : ({0}, {1}) -> {0}
      %s = tn.mul %d, %d : ({0}, {0}) -> {0}
      %v = tn.reduce <mean> %s {{axes = array<i64: {2}>, keepdims = {3}} : ({0}) -> {1}
      %r = tn.sqrt %v : {1}
      %e = tn.add %r, %r : ({1}, {1}) -> {1}
      %y = tn.div %d, %e : ({0}, {1}) -> {0}
      return %y, %m : {0}, {1})",
                                  wide, kept, axes,
                                  llvm::StringRef(kept).contains("1x") ? "true" : "false"),
                    symbols);
}

/// Mean and mean of squares, in f32, of the same 16-bit numbers: both are results.
TEST(Columns, Moments) {
  for (auto [dims, kept] : {std::pair("2x200x24", "2x1x24"), {"1x37x320", "1x1x320"}}) {
    for (const char *type : {"f16", "bf16"}) {
      std::string stored = llvm::formatv("tensor<{0}x{1}>", dims, type),
                  wide = llvm::formatv("tensor<{0}xf32>", dims),
                  mean = llvm::formatv("tensor<{0}xf32>", kept);
      EXPECT_TRUE(
          columnsMatch(regionText("rows", llvm::formatv("(%a: {0}) -> ({1}, {1})", stored, mean),
                                  llvm::formatv(R"(
      %w = tn.cast %a : ({0}) -> {1}
      %m = tn.reduce <mean> %w {{axes = array<i64: 1>, keepdims = true} : ({1}) -> {2}
      %s = tn.mul %w, %w : ({1}, {1}) -> {1}
      %q = tn.reduce <mean> %s {{axes = array<i64: 1>, keepdims = true} : ({1}) -> {2}
      return %m, %q : {2}, {2})",
                                                stored, wide, mean)),
                       "sm_90a"))
          << stored;
    }
  }
}

/// (x - mean) * rsqrt(mean of squares + mean²) of f16 over positions and the channels of a group,
/// then by channel; before it a number for each channel of an image is added, behind it is silu.
std::string groupNorm(int64_t images, int64_t positions, int64_t groups, int64_t channels) {
  std::string dims = llvm::formatv("{0}x{1}x{2}x{3}x", images, positions, groups, channels),
              kept = llvm::formatv("tensor<{0}x1x{1}x1xf32>", images, groups),
              scale = llvm::formatv("tensor<{0}x{1}xf32>", groups, channels),
              added = llvm::formatv("tensor<{0}x1x{1}x{2}xf16>", images, groups, channels);
  std::string stored = "tensor<" + dims + "f16>", wide = "tensor<" + dims + "f32>";
  return regionText(
      "rows", llvm::formatv("(%i: {0}, %t: {2}, %s: {1}, %b: {1}) -> {0}", stored, scale, added),
      llvm::formatv(R"(
      %a = tn.add %i, %t : ({0}, {4}) -> {0}
      %w = tn.cast %a : ({0}) -> {1}
      %m = tn.reduce <mean> %w {{axes = array<i64: 1, 3>, keepdims = true} : ({1}) -> {2}
      %k = tn.mul %w, %w : ({1}, {1}) -> {1}
      %q = tn.reduce <mean> %k {{axes = array<i64: 1, 3>, keepdims = true} : ({1}) -> {2}
      %z = tn.mul %m, %m : ({2}, {2}) -> {2}
      %v = tn.add %q, %z : ({2}, {2}) -> {2}
      %r = tn.rsqrt %v : {2}
      %d = tn.sub %w, %m : ({1}, {2}) -> {1}
      %e = tn.mul %d, %r : ({1}, {2}) -> {1}
      %f = tn.mul %e, %s : ({1}, {3}) -> {1}
      %g = tn.add %f, %b : ({1}, {3}) -> {1}
      %h = tn.cast %g : ({1}) -> {0}
      %y = tn.silu %h : {0}
      return %y : {0})",
                    stored, wide, kept, scale, added));
}

/// Groups of part of a strip, of a strip, of several threads, a power of two or not; of few
/// positions, many, and of more than a cluster holds; images whose columns are no multiple of a
/// block's.
TEST(Columns, GroupsOfColumns) {
  const std::tuple<int, int, int, int> shapes[] = {
      {2, 64, 32, 2}, {1, 49, 4, 8}, {2, 33, 8, 16}, {3, 100, 8, 10}, {1, 30, 4, 20}, {2, 17, 3, 6},
      {1, 9, 2, 60},  {1, 20, 5, 3}, {2, 1, 4, 4},   {1, 2000, 8, 4}, {1, 900, 2, 12}};
  for (auto [images, positions, groups, channels] : shapes) {
    std::string text = groupNorm(images, positions, groups, channels);
    EXPECT_TRUE(columnsMatch(text, "sm_90a"))
        << images << " x " << positions << " x " << groups << " x " << channels;
    EXPECT_TRUE(columnsMatch(text, "sm_80"))
        << images << " x " << positions << " x " << groups << " x " << channels;
  }
}

/// A batch of one, and other dims of 1, in front of rows, behind columns, and on either side.
TEST(Columns, DimsOfOneBelongToRowsAndColumns) {
  const std::tuple<const char *, const char *, int> shapes[] = {
      {"1x160", "1x1", 1},         {"1x8x160", "1x8x1", 2},   {"8x1x1x160", "8x1x1x1", 3},
      {"1x160x1x1", "1x1x1x1", 1}, {"8x160x1", "8x1x1", 1},   {"8x16x10x1", "8x16x1x1", 2},
      {"1x196x24", "1x1x24", 1},   {"4x1x40x1", "4x1x1x1", 2}};
  for (auto [wide, kept, axis] : shapes) {
    std::string text = llvm::formatv(R"(
      %g = tn.mul %a, %a : (tensor<{0}xf16>, tensor<{0}xf16>) -> tensor<{0}xf16>
      %m = tn.reduce <mean> %g {{axes = array<i64: {2}>, keepdims = true} : (tensor<{0}xf16>) -> tensor<{1}xf16>
      %e = tn.add %m, %m : (tensor<{1}xf16>, tensor<{1}xf16>) -> tensor<{1}xf16>
      %y = tn.div %g, %e : (tensor<{0}xf16>, tensor<{1}xf16>) -> tensor<{0}xf16>
      return %y : tensor<{0}xf16>)",
                                     wide, kept, axis);
    text =
        regionText("rows", llvm::formatv("(%a: tensor<{0}xf16>) -> tensor<{0}xf16>", wide), text);
    EXPECT_TRUE(matchesReference(text, byFamily({"rows_registers", "columns_tiled"}))) << wide;
  }
}

TEST(Columns, Softmax) {
  // One thread a column, parts of a warp, warps, a cluster; odd widths and lengths, several outer
  // dims.
  for (const char *dims : {"2x3x40", "5x17x64", "2x96x7x8", "3x100x129", "200x24", "1x4096x16"}) {
    int axis = llvm::StringRef(dims) == "200x24" ? 0 : 1;
    EXPECT_TRUE(columnsMatch(columnSoftmax(dims, axis, "f16"))) << dims;
    EXPECT_TRUE(columnsMatch(columnSoftmax(dims, axis, "f32"))) << dims;
    EXPECT_TRUE(columnsMatch(columnSoftmax(dims, axis, "f16"), "sm_80")) << dims;
  }
  EXPECT_TRUE(columnsMatch(columnSoftmax("2x77x10", 1, "bf16", /*isLog=*/true)));
  EXPECT_TRUE(columnsMatch(columnSoftmax("2x30x6", 1, "f64")));
  // As many columns as a grid is long.
  EXPECT_TRUE(columnsMatch(columnSoftmax("3x2x3000", 1, "f16")));
  EXPECT_TRUE(columnsMatch(columnSoftmax("1x1x8", 1, "f16")));
}

TEST(Columns, Norms) {
  EXPECT_TRUE(columnsMatch(columnNorm("tensor<300x64xf32>", "0", "tensor<64xf32>")));
  EXPECT_TRUE(columnsMatch(columnNorm("tensor<300x40xf16>", "0", "tensor<1x40xf16>")));
  EXPECT_TRUE(columnsMatch(columnNorm("tensor<3x20x5x33xf32>", "1, 2", "tensor<3x1x1x33xf32>")));
  EXPECT_TRUE(columnsMatch(columnNorm("tensor<2048x16xf32>", "0", "tensor<1x16xf32>")));
}

TEST(Columns, LengthsThatVary) {
  std::string wide = "tensor<2x?x24xf32, #tn.shape<()[s0] -> (2, s0, 24)>>";
  std::string text = columnNorm(wide, "1", "tensor<2x1x24xf32>", "#tn.symbol<\"s0\", 1, 2048>");
  for (int64_t length : {1, 7, 700}) {
    EXPECT_TRUE(columnsMatch(text, "sm_90", {length})) << length;
    EXPECT_TRUE(columnsMatch(text, "sm_80", {length})) << length;
  }
  // Nothing of the columns is known.
  std::string any = "tensor<?x?x?xf16, #tn.shape<()[s0, s1, s2] -> (s0, s1, s2)>>";
  std::string soft =
      regionText("rows", "(%a: " + any + ") -> " + any,
                 "%0 = tn.softmax %a {axis = 1 : i64} : " + any + "\nreturn %0 : " + any,
                 "#tn.symbol<\"s0\", 1, 8>, #tn.symbol<\"s1\", 1, 512>, #tn.symbol<\"s2\", 1, 64>");
  EXPECT_TRUE(columnsMatch(soft, "sm_90", {2, 30, 17}));
}

TEST(Columns, Ptx) {
  for (const char *arch : {"sm_80", "sm_86", "sm_90", "sm_90a"}) {
    const target::Target &gpu = target::targetOf(arch);
    for (const std::string &text :
         {columnSoftmax("4096x2048", 0, "f16"), columnSoftmax("8x512x1024", 1, "bf16"),
          columnSoftmax("16x3x512x512", 1, "f16"), columnSoftmax("2x64x56x56", 1, "f32"),
          columnSoftmax("16384x512", 0, "f16"),
          columnNorm("tensor<4096x1024xf16>", "0", "tensor<1x1024xf16>"),
          columnNorm("tensor<8x768x49xf16>", "1", "tensor<8x1x49xf16>"), groupNorm(2, 4096, 32, 2),
          groupNorm(2, 1024, 32, 60)}) {
      llvm::Expected<std::string> ptx = emitTestPtx(text, emitColumnsOnly, gpu);
      ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
      EXPECT_TRUE(assembles(*ptx, gpu)) << text;
    }
  }
}

ColumnsInfo infoOf(int64_t length, int64_t columns, int64_t multiple) {
  ColumnsInfo info;
  info.length = info.longest = length;
  info.columns = columns;
  info.multiple = multiple;
  info.elementBytes = 2;
  return info;
}

TEST(Columns, LayoutsFillTheGpu) {
  const target::Target &gpu = target::targetOf("sm_90a");
  std::optional<ColumnsLayout> layout = columnsLayout(gpu, infoOf(4096, 1024, 1024));
  ASSERT_TRUE(layout);
  EXPECT_GT(layout->steps, 0);
  EXPECT_GT(layout->blocks, 1);
  EXPECT_GE(1024 / layout->columns() * layout->blocks, gpu.cores);
  // Long columns are read again; few of them are work for blocks of another family.
  layout = columnsLayout(gpu, infoOf(1 << 20, 8192, 8192));
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->steps, 0);
  EXPECT_FALSE(columnsLayout(gpu, infoOf(1 << 20, 8, 8)));
  EXPECT_FALSE(columnsLayout(gpu, infoOf(0, 8, 8)));
}

} // namespace
} // namespace tenon::codegen::cuda
