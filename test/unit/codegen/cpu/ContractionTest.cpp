// The contraction strategy: products of all layouts, convolutions with every attribute, epilogues.
#include "test/unit/codegen/PackedText.h"
#include "test/unit/codegen/RegionCheck.h"

#include "llvm/Support/FormatVariadic.h"

namespace tenon::codegen::cpu {
namespace {

std::string tensor(std::initializer_list<int64_t> dims, const std::string &element = "f32") {
  std::string text = "tensor<";
  for (int64_t dim : dims) {
    text += std::to_string(dim) + "x";
  }
  return text + element + ">";
}

/// A 2-D product with packed B, bias, GELU and a residual.
std::string packedMatmul(int64_t m, int64_t k, int64_t n, bool epilogue) {
  std::string a = tensor({m, k}), y = tensor({m, n}), bias = tensor({n});
  PackedText b = panelsText({k, n}, 1, 32);
  std::string packed = b.type;
  std::string body =
      b.unpack("%p", "%b") +
      llvm::formatv("%y = tn.matmul %a, %b : ({0}, {1}) -> {2}\n", a, b.weight, y).str();
  if (!epilogue) {
    return kernelText("contraction", "(%a: " + a + ", %p: " + packed + ") -> " + y,
                      body + "return %y : " + y);
  }
  body += llvm::formatv("%1 = tn.add %y, %bias : ({0}, {1}) -> {0}\n%2 = tn.gelu %1 : {0}\n"
                        "%3 = tn.add %2, %r : ({0}, {0}) -> {0}\nreturn %3 : {0}",
                        y, bias);
  return kernelText(
      "contraction",
      "(%a: " + a + ", %p: " + packed + ", %bias: " + bias + ", %r: " + y + ") -> " + y, body);
}

TEST(ContractionTest, PackedWeights) {
  EXPECT_TRUE(matchesReference(packedMatmul(1, 1, 1, false)));
  EXPECT_TRUE(matchesReference(packedMatmul(7, 5, 32, false)));
  EXPECT_TRUE(matchesReference(packedMatmul(130, 33, 70, false), {}, 3));
  EXPECT_TRUE(matchesReference(packedMatmul(1, 300, 100, false), {}, 3));
}

TEST(ContractionTest, Epilogues) {
  EXPECT_TRUE(matchesReference(packedMatmul(13, 20, 64, true)));
  EXPECT_TRUE(matchesReference(packedMatmul(129, 40, 33, true), {}, 4));
}

/// Of words of several elements, where B is no weight: in both orders, of depths that fill words
/// and that do not.
void expectProductsOfWords(llvm::StringRef ofA, llvm::StringRef ofB, llvm::StringRef sums) {
  for (auto [depth, columns] : {std::pair(8, 32), {64, 45}, {13, 32}, {130, 7}, {3, 70}}) {
    for (bool transposeA : {false, true}) {
      for (bool transposeB : {false, true}) {
        std::string a =
            llvm::formatv(transposeA ? "tensor<2x{0}x37x{1}>" : "tensor<2x37x{0}x{1}>", depth, ofA);
        std::string b = llvm::formatv(
            transposeB ? "tensor<2x{1}x{0}x{2}>" : "tensor<2x{0}x{1}x{2}>", depth, columns, ofB);
        std::string y = llvm::formatv("tensor<2x37x{0}x{1}>", columns, sums);
        std::string flags = transposeA && transposeB ? " {transposeA, transposeB}"
                            : transposeA             ? " {transposeA}"
                            : transposeB             ? " {transposeB}"
                                                     : "";
        std::string product = "%y = tn.matmul %a, %b" + flags + " : (" + a + ", " + b + ") -> " + y;
        std::string text = kernelText("contraction", "(%a: " + a + ", %b: " + b + ") -> " + y,
                                      product + "\nreturn %y : " + y);
        EXPECT_TRUE(matchesReference(text, {}, 3)) << text;
      }
    }
  }
  std::string a = llvm::formatv("tensor<9x?x{0}, #tn.shape<()[s0] -> (9, s0)>>", ofA);
  std::string b = llvm::formatv("tensor<?x45x{0}, #tn.shape<()[s0] -> (s0, 45)>>", ofB);
  std::string y = llvm::formatv("tensor<9x45x{0}>", sums);
  std::string text =
      kernelText("contraction", "(%a: " + a + ", %b: " + b + ") -> " + y,
                 "%y = tn.matmul %a, %b : (" + a + ", " + b + ") -> " + y + "\nreturn %y : " + y,
                 "#tn.symbol<\"s0\", 0, 512>");
  for (int64_t depth : {0, 1, 4, 6, 129}) {
    EXPECT_TRUE(matchesReference(text, {depth})) << text << depth;
  }
}

TEST(ContractionTest, BytesOfComputedOperands) { expectProductsOfWords("ui8", "i8", "i32"); }

TEST(ContractionTest, Bf16OfComputedOperands) { expectProductsOfWords("bf16", "bf16", "bf16"); }

TEST(ContractionTest, RowsOfABadStrideAreCopied) {
  EXPECT_TRUE(matchesReference(packedMatmul(15, 1024, 3, true), {}, 3));
}

TEST(ContractionTest, DynamicBatchAndSequence) {
  std::string a = "tensor<?x?x24xf32, #tn.shape<()[s0, s1] -> (s0, s1, 24)>>";
  std::string y = "tensor<?x?x40xf32, #tn.shape<()[s0, s1] -> (s0, s1, 40)>>";
  std::string text = kernelText(
      "contraction", "(%a: " + a + ", %p: tensor<2x24x32xf32>, %c: tensor<40xf32>) -> " + y,
      panelsText({24, 40}, 1, 32).unpack("%p", "%b") + "%0 = tn.matmul %a, %b : (" + a +
          ", tensor<24x40xf32>) -> " + y + "\n%1 = tn.add %0, %c : (" + y +
          ", tensor<40xf32>) -> " + y + "\nreturn %1 : " + y,
      "#tn.symbol<\"s0\", 1, 8>, #tn.symbol<\"s1\", 1, 512>");
  EXPECT_TRUE(matchesReference(text, {1, 1}));
  EXPECT_TRUE(matchesReference(text, {3, 7}));
  EXPECT_TRUE(matchesReference(text, {2, 131}, 5));
}

std::string plainMatmul(const std::string &a, const std::string &b, const std::string &y,
                        const std::string &attributes, const std::string &symbols = "") {
  return kernelText("contraction", "(%a: " + a + ", %b: " + b + ") -> " + y,
                    "%0 = tn.matmul %a, %b " + attributes + " : (" + a + ", " + b + ") -> " + y +
                        "\nreturn %0 : " + y,
                    symbols);
}

TEST(ContractionTest, BatchesAndTransposes) {
  EXPECT_TRUE(matchesReference(
      plainMatmul(tensor({2, 3, 17, 20}), tensor({2, 3, 20, 37}), tensor({2, 3, 17, 37}), ""), {},
      3));
  EXPECT_TRUE(matchesReference(plainMatmul(tensor({2, 3, 17, 20}), tensor({2, 3, 37, 20}),
                                           tensor({2, 3, 17, 37}), "{transposeB}")));
  EXPECT_TRUE(matchesReference(
      plainMatmul(tensor({3, 20, 17}), tensor({3, 20, 64}), tensor({3, 17, 64}), "{transposeA}")));
  EXPECT_TRUE(matchesReference(plainMatmul(tensor({20, 17}), tensor({64, 20}), tensor({17, 64}),
                                           "{transposeA, transposeB}")));
}

TEST(ContractionTest, FewColumns) {
  for (int64_t n : {1, 8, 9, 16, 17, 33, 48, 57}) {
    EXPECT_TRUE(
        matchesReference(plainMatmul(tensor({31, 20}), tensor({20, n}), tensor({31, n}), "")));
    EXPECT_TRUE(matchesReference(
        plainMatmul(tensor({31, 20}), tensor({n, 20}), tensor({31, n}), "{transposeB}")));
  }
  std::string text = plainMatmul(
      "tensor<31x20xf32>", "tensor<20x?xf32, #tn.shape<()[s0] -> (20, s0)>>",
      "tensor<31x?xf32, #tn.shape<()[s0] -> (31, s0)>>", "", "#tn.symbol<\"s0\", 1, 512>");
  for (int64_t n : {1, 8, 16, 17, 32, 40, 48, 64}) {
    EXPECT_TRUE(matchesReference(text, {n}));
  }
}

/// A size of 0 beside one that varies, of either operand and of the result.
TEST(ContractionTest, BuffersWithoutElements) {
  auto varying = [](const char *dims, const char *shape) {
    return std::string("tensor<") + dims + "xf32, #tn.shape<()[s0] -> " + shape + ">>";
  };
  const char *symbols = "#tn.symbol<\"s0\", 1, 512>";
  for (int64_t size : {1, 40}) {
    EXPECT_TRUE(
        matchesReference(plainMatmul(varying("0x2x?", "(0, 2, s0)"), varying("0x?x3", "(0, s0, 3)"),
                                     tensor({0, 2, 3}), "", symbols),
                         {size}));
    EXPECT_TRUE(matchesReference(plainMatmul(varying("2x?x0", "(2, s0, 0)"), tensor({0, 3}),
                                             varying("2x?x3", "(2, s0, 3)"), "", symbols),
                                 {size}));
    EXPECT_TRUE(matchesReference(plainMatmul(varying("?x5", "(s0, 5)"), tensor({5, 0}),
                                             varying("?x0", "(s0, 0)"), "", symbols),
                                 {size}));
  }
  std::string x = varying("0x?x4", "(0, s0, 4)"), y = varying("0x?x6", "(0, s0, 6)");
  EXPECT_TRUE(matchesReference(
      kernelText("contraction", "(%x: " + x + ", %w: tensor<6x4x1xf32>) -> " + y,
                 "%0 = tn.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations "
                 "= array<i64: 1>, groups = 1 : i64, channelsLast = true} : (" +
                     x + ", tensor<6x4x1xf32>) -> " + y + "\nreturn %0 : " + y,
                 symbols),
      {7}));
}

TEST(ContractionTest, FewRowsReadAWideBInPlace) {
  for (auto [m, k, n] : {std::tuple(1, 130, 1024), std::tuple(7, 131, 1001),
                         std::tuple(64, 1, 2080), std::tuple(40, 129, 1056)}) {
    EXPECT_TRUE(
        matchesReference(plainMatmul(tensor({m, k}), tensor({k, n}), tensor({m, n}), ""), {}, 3));
  }
  EXPECT_TRUE(matchesReference(
      plainMatmul(tensor({16, 3, 40}), tensor({16, 40, 300}), tensor({16, 3, 300}), ""), {}, 3));
  EXPECT_TRUE(matchesReference(
      plainMatmul(tensor({40, 3}), tensor({40, 1030}), tensor({3, 1030}), "{transposeA}"), {}, 3));
  std::string dynamic = plainMatmul("tensor<5x?xf32, #tn.shape<()[s0] -> (5, s0)>>",
                                    "tensor<?x1040xf32, #tn.shape<()[s0] -> (s0, 1040)>>",
                                    tensor({5, 1040}), "", "#tn.symbol<\"s0\", 0, 512>");
  for (int64_t k : {0, 1, 128, 140}) {
    EXPECT_TRUE(matchesReference(dynamic, {k}, 3));
  }
  for (std::string type : {"i32", "f16"}) {
    std::string a = "tensor<5x130x" + type + ">", b = "tensor<130x1030x" + type + ">";
    EXPECT_TRUE(matchesReference(plainMatmul(a, b, "tensor<5x1030x" + type + ">", ""), {}, 3));
  }
  std::string y = tensor({5, 1030});
  EXPECT_TRUE(matchesReference(
      kernelText("contraction",
                 "(%a: " + tensor({5, 130}) + ", %b: " + tensor({130, 1030}) +
                     ", %c: " + tensor({1030}) + ") -> " + y,
                 "%0 = tn.matmul %a, %b : (" + tensor({5, 130}) + ", " + tensor({130, 1030}) +
                     ") -> " + y + "\n%1 = tn.add %0, %c : (" + y + ", " + tensor({1030}) +
                     ") -> " + y + "\nreturn %1 : " + y),
      {}, 3));
}

TEST(ContractionTest, BatchesBroadcast) {
  EXPECT_TRUE(matchesReference(
      plainMatmul(tensor({3, 5, 6}), tensor({2, 1, 6, 9}), tensor({2, 3, 5, 9}), "")));
  EXPECT_TRUE(
      matchesReference(plainMatmul(tensor({5, 6}), tensor({2, 6, 9}), tensor({2, 5, 9}), "")));
  EXPECT_TRUE(matchesReference(
      plainMatmul(tensor({2, 3, 5, 6}), tensor({6, 9}), tensor({2, 3, 5, 9}), "")));
}

TEST(ContractionTest, EveryDimDynamic) {
  std::string text = plainMatmul("tensor<?x?x?xf32, #tn.shape<()[s0, s1, s2] -> (s0, s1, s2)>>",
                                 "tensor<?x?x?xf32, #tn.shape<()[s0, s1, s2] -> (s0, s2, s1)>>",
                                 "tensor<?x?x?xf32, #tn.shape<()[s0, s1] -> (s0, s1, s1)>>", "",
                                 "#tn.symbol<\"s0\", 1, 8>, #tn.symbol<\"s1\", 1, 512>, "
                                 "#tn.symbol<\"s2\", 1, 64>");
  EXPECT_TRUE(matchesReference(text, {1, 1, 1}));
  EXPECT_TRUE(matchesReference(text, {2, 45, 19}, 3));
}

TEST(ContractionTest, EpilogueOperandsOfEveryBroadcast) {
  std::string y = tensor({2, 3, 5, 40});
  std::string signature = "(%a: " + tensor({2, 3, 5, 6}) + ", %p: " + tensor({2, 6, 32});
  std::string body = panelsText({6, 40}, 1, 32).unpack("%p", "%b") + "%v0 = tn.matmul %a, %b : (" +
                     tensor({2, 3, 5, 6}) + ", tensor<6x40xf32>) -> " + y + "\n";
  int number = 0;
  for (const std::string &operand :
       {tensor({}), tensor({1}), tensor({40}), tensor({5, 1}), tensor({5, 40}), tensor({3, 1, 40}),
        tensor({2, 1, 1, 40}), tensor({2, 3, 5, 1}), tensor({1, 3, 5, 40}), y}) {
    std::string n = std::to_string(number++), next = std::to_string(number);
    signature += ", %c" + n + ": " + operand;
    body += "%v" + next + " = tn.add %v" + n + ", %c" + n + " : (" + y + ", " + operand + ") -> " +
            y + "\n";
  }
  EXPECT_TRUE(matchesReference(
      kernelText("contraction", signature + ") -> " + y, body + "return %v10 : " + y)));
}

struct ConvCase {
  int64_t batch, height, width, channels, outChannels, kernel, stride, pad, dilation, groups;
};

/// Of f32, or of u8 by s8.
std::string convText(const ConvCase &c, bool epilogue, bool isOfBytes = false) {
  auto outSize = [&](int64_t size) {
    return (size + 2 * c.pad - (c.kernel - 1) * c.dilation - 1) / c.stride + 1;
  };
  std::string sums = isOfBytes ? "i32" : "f32";
  std::string x = tensor({c.batch, c.height, c.width, c.channels}, isOfBytes ? "ui8" : "f32");
  std::string y = tensor({c.batch, outSize(c.height), outSize(c.width), c.outChannels}, sums);
  PackedText packed =
      outputPanelsText({c.outChannels, c.channels / c.groups, c.kernel, c.kernel}, 32, c.groups,
                       isOfBytes ? "i8" : "f32", /*squareFirst=*/false, isOfBytes ? 4 : 1);
  std::string bias = tensor({c.outChannels}, sums);
  std::string body = llvm::formatv(
      "{1}%y = tn.conv %x, %w bias %b {{strides = array<i64: {3}, {3}>, pads = array<i64: {4}, "
      "{4}, "
      "{4}, "
      "{4}>, dilations = array<i64: {5}, {5}>, groups = {0} : i64, channelsLast = true} : ({6}, "
      "{2}, "
      "{7}) -> {8}\n",
      c.groups, packed.unpack(), packed.weight, c.stride, c.pad, c.dilation, x, bias, y);
  std::string signature = "(%x: " + x + ", %p: " + packed.type + ", %b: " + bias;
  if (!epilogue) {
    return kernelText("contraction", signature + ") -> " + y, body + "return %y : " + y);
  }
  body += llvm::formatv("%1 = tn.add %y, %r : ({0}, {0}) -> {0}\n%2 = tn.relu %1 : {0}\n"
                        "return %2 : {0}",
                        y);
  return kernelText("contraction", signature + ", %r: " + y + ") -> " + y, body);
}

/// With and without an epilogue, and of bytes where channels fill words.
void expectConvRight(const ConvCase &c) {
  for (bool isOfBytes : {false, true}) {
    if (!isOfBytes || c.channels / c.groups % 4 == 0) {
      EXPECT_TRUE(matchesReference(convText(c, false, isOfBytes), {}, 3))
          << convText(c, false, isOfBytes);
      EXPECT_TRUE(matchesReference(convText(c, true, isOfBytes), {}, 2))
          << convText(c, true, isOfBytes);
    }
  }
}

TEST(ContractionTest, Convolutions) {
  // batch, height, width, channels, outChannels, kernel, stride, pad, dilation, groups
  for (const ConvCase &c :
       {ConvCase{1, 7, 7, 24, 40, 3, 1, 1, 1, 1}, ConvCase{2, 9, 11, 3, 16, 7, 2, 3, 1, 1},
        ConvCase{1, 30, 30, 8, 64, 3, 2, 1, 1, 1}, ConvCase{2, 5, 5, 16, 33, 1, 1, 0, 1, 1},
        ConvCase{1, 9, 9, 16, 32, 1, 2, 0, 1, 1}, ConvCase{1, 12, 12, 8, 8, 3, 1, 2, 2, 1},
        ConvCase{2, 8, 8, 12, 18, 3, 1, 1, 1, 3}, ConvCase{1, 6, 6, 8, 8, 1, 1, 0, 1, 2},
        ConvCase{1, 6, 6, 4, 8, 2, 1, 0, 1, 1}, ConvCase{1, 6, 6, 4, 8, 1, 1, 1, 1, 1},
        ConvCase{1, 4, 150, 4, 8, 3, 1, 1, 1, 1}, ConvCase{1, 4, 4, 1024, 2, 1, 1, 0, 1, 1},
        ConvCase{2, 5, 5, 1024, 2, 1, 2, 0, 1, 1}, ConvCase{2, 8, 9, 12, 32, 1, 3, 0, 1, 2}}) {
    expectConvRight(c);
  }
}

/// Kernel lines of several steps of AMX's tiles, which meet lines of output pixels together.
TEST(ContractionTest, ConvolutionsOfManyBytes) {
  for (const ConvCase &c :
       {ConvCase{1, 7, 7, 72, 40, 3, 1, 1, 1, 1}, ConvCase{2, 6, 5, 64, 33, 3, 1, 0, 1, 1},
        ConvCase{1, 3, 3, 64, 8, 3, 1, 4, 1, 1}}) {
    for (bool epilogue : {false, true}) {
      std::string text = convText(c, epilogue, /*isOfBytes=*/true);
      EXPECT_TRUE(matchesReference(text, {}, epilogue ? 2 : 3)) << text;
    }
  }
}

TEST(ContractionTest, ConvolutionsWhoseTapsLieOutside) {
  for (const ConvCase &c :
       {ConvCase{1, 9, 9, 16, 8, 3, 1, 6, 6, 1}, ConvCase{1, 4, 150, 4, 8, 3, 1, 2, 2, 1},
        ConvCase{1, 11, 13, 8, 8, 3, 2, 2, 2, 1}, ConvCase{1, 6, 5, 1024, 8, 3, 1, 4, 4, 1},
        // Output pixels without a tap inside.
        ConvCase{1, 2, 2, 4, 8, 2, 1, 3, 5, 1}, ConvCase{2, 4, 4, 4, 8, 3, 1, 4, 1, 1},
        ConvCase{1, 3, 3, 4, 32, 3, 2, 5, 1, 2}}) {
    expectConvRight(c);
  }
}

TEST(ContractionTest, ThreeSpatialDims) {
  struct Case {
    std::vector<int64_t> taps;
    const char *pads, *y;
  };
  for (const Case &c : {Case{{3, 3, 3}, "1, 1, 1, 1, 1, 1", "2x2x5x6"},
                        Case{{3, 1, 1}, "1, 0, 0, 1, 0, 0", "2x2x5x6"},
                        Case{{5, 3, 2}, "4, 1, 1, 0, 1, 0", "2x2x5x6"},
                        Case{{1, 3, 3}, "2, 1, 1, 2, 1, 1", "2x6x5x6"}}) {
    std::string y = std::string("tensor<") + c.y + "x20xf32>";
    PackedText packed = outputPanelsText({20, 8, c.taps[0], c.taps[1], c.taps[2]}, 32);
    EXPECT_TRUE(matchesReference(
        kernelText(
            "contraction", "(%x: tensor<2x2x5x6x8xf32>, %p: " + packed.type + ") -> " + y,
            packed.unpack() +
                "%0 = tn.conv %x, %w {strides = array<i64: 1, 1, 1>, pads = array<i64: " + c.pads +
                ">, dilations = array<i64: 1, 1, 1>, groups = 1 : i64, channelsLast = true} "
                ": (tensor<2x2x5x6x8xf32>, " +
                packed.weight + ") -> " + y + "\nreturn %0 : " + y),
        {}, 3));
  }
}

TEST(ContractionTest, OneSpatialDim) {
  for (const char *pads : {"1, 1", "0, 0"}) {
    bool isPadded = *pads == '1';
    std::string y = isPadded ? "tensor<2x9x20xf32>" : "tensor<2x7x20xf32>";
    PackedText packed = outputPanelsText({20, 6, 3}, 32);
    EXPECT_TRUE(matchesReference(kernelText(
        "contraction", "(%x: tensor<2x9x6xf32>, %p: " + packed.type + ") -> " + y,
        packed.unpack() +
            "%0 = tn.conv %x, %w {strides = array<i64: 1>, pads = array<i64: " + std::string(pads) +
            ">, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = true} : "
            "(tensor<2x9x6xf32>, tensor<20x6x3xf32>) -> " +
            y + "\nreturn %0 : " + y)));
  }
}

TEST(ContractionTest, DynamicBatchOfImages) {
  for (const char *kernel : {"1", "3"}) {
    bool isPoint = *kernel == '1';
    std::string x = "tensor<?x6x5x8xf32, #tn.shape<()[s0] -> (s0, 6, 5, 8)>>";
    std::string y = "tensor<?x6x5x20xf32, #tn.shape<()[s0] -> (s0, 6, 5, 20)>>";
    int64_t taps = isPoint ? 1 : 3;
    PackedText packed = outputPanelsText({20, 8, taps, taps}, 32);
    const char *pad = isPoint ? "0, 0, 0, 0" : "1, 1, 1, 1";
    std::string text = kernelText(
        "contraction", "(%x: " + x + ", %p: " + packed.type + ") -> " + y,
        packed.unpack() +
            "%0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: " + pad +
            ">, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (" + x +
            ", " + packed.weight + ") -> " + y + "\n%1 = tn.relu %0 : " + y + "\nreturn %1 : " + y,
        "#tn.symbol<\"s0\", 1, 8>");
    EXPECT_TRUE(matchesReference(text, {1}));
    EXPECT_TRUE(matchesReference(text, {5}, 3));
  }
}

} // namespace
} // namespace tenon::codegen::cpu
