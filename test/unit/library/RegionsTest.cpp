// Regions as library calls: each descriptor, run on the host, gives what the reference interpreter
// gives for the region; what a library cannot do word for word gives none.

#include "HostCall.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/library/LibraryRegions.h"
#include "compiler/graph/Tn.h"
#include "compiler/reference/Compare.h"
#include "compiler/reference/Interpreter.h"
#include "compiler/reference/LowBits.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <cstring>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using library::HostBuffer;

class RegionsTest : public testing::Test {
protected:
  RegionsTest() { context.loadDialect<tn::TnDialect, func::FuncDialect>(); }

  /// `signature` and `body` of one region over the symbols s0 and s1.
  func::FuncOp parse(const std::string &signature, const std::string &body) {
    std::string text = "module attributes {tn.symbols = [#tn.symbol<\"s0\", 1, 64>, "
                       "#tn.symbol<\"s1\", 1, 64>]} {\nfunc.func @kernel" +
                       signature + " attributes {tn.strategy = \"contraction\"} {\n" + body +
                       "\n}\n}\n";
    module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    EXPECT_TRUE(module) << text;
    return module ? module->lookupSymbol<func::FuncOp>("kernel") : func::FuncOp();
  }

  std::optional<RegionStep> stepOf(const std::string &signature, const std::string &body) {
    func::FuncOp kernel = parse(signature, body);
    return kernel ? libraryStep(kernel) : std::nullopt;
  }

  testing::AssertionResult isCall(const std::string &signature, const std::string &body) {
    func::FuncOp kernel = parse(signature, body);
    std::optional<RegionStep> step = kernel ? libraryStep(kernel) : std::nullopt;
    if (!step) {
      return testing::AssertionFailure() << "no call";
    }
    return agrees(kernel, *step);
  }

  testing::AssertionResult agrees(func::FuncOp kernel, const RegionStep &step);

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::vector<int64_t> symbols = {3, 5};
};

reference::Tensor seeded(RankedTensorType type, ArrayRef<int64_t> symbols, uint64_t seed) {
  SmallVector<int64_t> dims;
  for (AffineExpr dim : tn::getDims(type)) {
    dims.push_back(*tn::evaluate(dim, symbols));
  }
  reference::Tensor wide = *reference::Tensor::create(DType::F64, dims);
  for (double &value : MutableArrayRef(wide.as<double>(), static_cast<size_t>(wide.count()))) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<double>(seed >> 60) / 8 - 1;
  }
  DType element = *reference::dtypeOf(type.getElementType());
  return element == DType::F8E4M3FN ? *reference::encode(wide, element)
                                    : *reference::convert(wide, element);
}

template <typename Call>
void runCall(const RegionStep &step, std::span<const int64_t> sizes,
             std::span<HostBuffer> buffers) {
  Call call;
  std::memcpy(&call, step.call.data(), sizeof(call));
  std::vector<size_t> elements = library::bufferElements(call, sizes);
  ASSERT_EQ(elements.size(), buffers.size());
  for (auto [wanted, buffer] : llvm::zip_equal(elements, buffers)) {
    // Attention may read a part of a buffer.
    ASSERT_LE(wanted, buffer.size());
    ASSERT_TRUE((std::is_same_v<Call, engine::AttentionCall>) || wanted == buffer.size());
  }
  library::runOnHost(call, sizes, buffers);
}

testing::AssertionResult RegionsTest::agrees(func::FuncOp kernel, const RegionStep &step) {
  std::vector<reference::Tensor> inputs;
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    inputs.push_back(seeded(cast<RankedTensorType>(type), symbols, i + 1));
  }
  reference::Interpreter interpreter(nullptr);
  Result<std::vector<reference::Tensor>> expected =
      interpreter.evaluate(kernel.getBody(), inputs, symbols);
  if (!expected) {
    return testing::AssertionFailure() << expected.status().toString();
  }
  reference::Tensor result = expected->front();
  std::vector<HostBuffer> buffers;
  for (uint32_t buffer : step.buffers) {
    buffers.push_back(
        buffer < inputs.size()
            ? library::decode(inputs[buffer].dtype(),
                              Bytes(reinterpret_cast<const std::byte *>(inputs[buffer].bytes()),
                                    inputs[buffer].byteCount()))
            : HostBuffer(static_cast<size_t>(result.count()), NAN));
  }
  std::vector<int64_t> sizes;
  for (const Program &size : step.sizes) {
    sizes.push_back(*engine::evaluate(size, symbols));
  }
  if (step.reads + 1 != step.buffers.size() || step.buffers.back() != inputs.size()) {
    return testing::AssertionFailure() << "the result is not the last buffer";
  }
  switch (static_cast<engine::LibraryOp>(step.call[0])) {
  case engine::LibraryOp::Matmul:
    runCall<engine::MatmulCall>(step, sizes, buffers);
    break;
  case engine::LibraryOp::ScaledMatmul:
    runCall<engine::ScaledMatmulCall>(step, sizes, buffers);
    break;
  case engine::LibraryOp::Conv:
    runCall<engine::ConvCall>(step, sizes, buffers);
    break;
  case engine::LibraryOp::Attention:
    runCall<engine::AttentionCall>(step, sizes, buffers);
  }
  std::vector<std::byte> bytes = library::encode(result.dtype(), buffers.back());
  reference::Tensor actual = *reference::Tensor::copy(
      result.dtype(), result.dims(),
      ArrayRef(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
  reference::Comparison comparison = reference::compareTensors(result, actual);
  return comparison.equal() ? testing::AssertionSuccess()
                            : testing::AssertionFailure() << comparison.text(result.dims());
}

TEST_F(RegionsTest, ProductsOfEveryLayout) {
  EXPECT_TRUE(isCall("(%a: tensor<4x6xf16>, %b: tensor<6x8xf16>) -> tensor<4x8xf16>",
                     "%y = tn.matmul %a, %b : (tensor<4x6xf16>, tensor<6x8xf16>) -> "
                     "tensor<4x8xf16>\nreturn %y : tensor<4x8xf16>"));
  EXPECT_TRUE(isCall("(%a: tensor<6x4xf64>, %b: tensor<8x6xf64>) -> tensor<4x8xf64>",
                     "%y = tn.matmul %a, %b {transposeA, transposeB} : (tensor<6x4xf64>, "
                     "tensor<8x6xf64>) -> tensor<4x8xf64>\nreturn %y : tensor<4x8xf64>"));
  EXPECT_TRUE(isCall("(%a: tensor<4x6xbf16>, %b: tensor<8x6xbf16>) -> tensor<4x8xbf16>",
                     "%t = tn.transpose %b [1, 0] : (tensor<8x6xbf16>) -> tensor<6x8xbf16>\n"
                     "%y = tn.matmul %a, %t : (tensor<4x6xbf16>, tensor<6x8xbf16>) -> "
                     "tensor<4x8xbf16>\nreturn %y : tensor<4x8xbf16>"));
}

TEST_F(RegionsTest, Tf32OnlyIfTheModuleAllowsIt) {
  func::FuncOp kernel = parse("(%a: tensor<4x6xf32>, %b: tensor<6x8xf32>) -> tensor<4x8xf32>",
                              "%y = tn.matmul %a, %b : (tensor<4x6xf32>, tensor<6x8xf32>) -> "
                              "tensor<4x8xf32>\nreturn %y : tensor<4x8xf32>");
  std::byte allowed = libraryStep(kernel)->call[offsetof(engine::MatmulCall, allowTf32)];
  EXPECT_EQ(std::byte(0), allowed);
  (*module)->setAttr(kAllowTf32, UnitAttr::get(&context));
  allowed = libraryStep(kernel)->call[offsetof(engine::MatmulCall, allowTf32)];
  EXPECT_EQ(std::byte(1), allowed);
}

TEST_F(RegionsTest, LeadingDimsFoldIntoRows) {
  std::string a = "tensor<?x?x6xf32, #tn.shape<()[s0, s1] -> (s0, s1, 6)>>";
  std::string y = "tensor<?x?x8xf32, #tn.shape<()[s0, s1] -> (s0, s1, 8)>>";
  std::string signature = "(%a: " + a + ", %b: tensor<6x8xf32>) -> " + y;
  std::string body =
      "%y = tn.matmul %a, %b : (" + a + ", tensor<6x8xf32>) -> " + y + "\nreturn %y : " + y;
  EXPECT_TRUE(isCall(signature, body));
  std::optional<RegionStep> step = stepOf(signature, body);
  ASSERT_TRUE(step);
  EXPECT_EQ(15, engine::evaluate(step->sizes[0], symbols));
  EXPECT_EQ(1, engine::evaluate(step->sizes[3], symbols)) << "one product, no batch";
  symbols = {1, 1};
  EXPECT_TRUE(isCall(signature, body));
}

TEST_F(RegionsTest, BatchesWithStridesAndBroadcast) {
  EXPECT_TRUE(isCall("(%a: tensor<2x3x4x6xf16>, %b: tensor<2x3x6x5xf16>) -> tensor<2x3x4x5xf16>",
                     "%y = tn.matmul %a, %b : (tensor<2x3x4x6xf16>, tensor<2x3x6x5xf16>) -> "
                     "tensor<2x3x4x5xf16>\nreturn %y : tensor<2x3x4x5xf16>"));
  EXPECT_TRUE(isCall("(%a: tensor<4x6xf16>, %b: tensor<3x6x5xf16>) -> tensor<3x4x5xf16>",
                     "%y = tn.matmul %a, %b : (tensor<4x6xf16>, tensor<3x6x5xf16>) -> "
                     "tensor<3x4x5xf16>\nreturn %y : tensor<3x4x5xf16>"));
  // Heads of one sequence: the batch walks inside of the rows.
  EXPECT_TRUE(isCall("(%a: tensor<4x3x6xf16>, %b: tensor<5x3x6xf16>) -> tensor<3x4x5xf16>",
                     "%s = tn.transpose %a [1, 0, 2] : (tensor<4x3x6xf16>) -> tensor<3x4x6xf16>\n"
                     "%t = tn.transpose %b [1, 2, 0] : (tensor<5x3x6xf16>) -> tensor<3x6x5xf16>\n"
                     "%y = tn.matmul %s, %t : (tensor<3x4x6xf16>, tensor<3x6x5xf16>) -> "
                     "tensor<3x4x5xf16>\nreturn %y : tensor<3x4x5xf16>"));
  // Transposed rows do not fold, so they stay a batch with one B.
  EXPECT_TRUE(isCall("(%a: tensor<3x6x4xf16>, %b: tensor<6x5xf16>) -> tensor<3x4x5xf16>",
                     "%y = tn.matmul %a, %b {transposeA} : (tensor<3x6x4xf16>, tensor<6x5xf16>) -> "
                     "tensor<3x4x5xf16>\nreturn %y : tensor<3x4x5xf16>"));
  // Two strides a batch are more than the library has.
  EXPECT_FALSE(stepOf("(%a: tensor<2x3x4x6xf16>, %b: tensor<3x6x5xf16>) -> tensor<2x3x4x5xf16>",
                      "%y = tn.matmul %a, %b : (tensor<2x3x4x6xf16>, tensor<3x6x5xf16>) -> "
                      "tensor<2x3x4x5xf16>\nreturn %y : tensor<2x3x4x5xf16>"));
  EXPECT_FALSE(
      stepOf("(%a: tensor<2x4x3x6xf16>, %b: tensor<2x3x6x5xf16>) -> tensor<2x3x4x5xf16>",
             "%s = tn.transpose %a [0, 2, 1, 3] : (tensor<2x4x3x6xf16>) -> tensor<2x3x4x6xf16>\n"
             "%y = tn.matmul %s, %b : (tensor<2x3x4x6xf16>, tensor<2x3x6x5xf16>) -> "
             "tensor<2x3x4x5xf16>\nreturn %y : tensor<2x3x4x5xf16>"));
}

/// A product with bias and residual, and `tail` from %2 to %3.
std::string epilogue(const std::string &tail, const std::string &first = "%c",
                     const std::string &second = "%r") {
  auto typeOf = [](const std::string &name) {
    return name == "%c" ? "tensor<8xf16>" : "tensor<4x8xf16>";
  };
  return "%0 = tn.matmul %a, %b : (tensor<4x6xf16>, tensor<6x8xf16>) -> tensor<4x8xf16>\n"
         "%1 = tn.add %0, " +
         first + " : (tensor<4x8xf16>, " + typeOf(first) + ") -> tensor<4x8xf16>\n%2 = tn.add " +
         second + ", %1 : (" + typeOf(second) + ", tensor<4x8xf16>) -> tensor<4x8xf16>\n" + tail +
         "\nreturn %3 : tensor<4x8xf16>";
}

constexpr char kEpilogueSignature[] = "(%a: tensor<4x6xf16>, %b: tensor<6x8xf16>, %r: "
                                      "tensor<4x8xf16>, %c: tensor<8xf16>) -> tensor<4x8xf16>";

TEST_F(RegionsTest, Epilogues) {
  std::string relu = epilogue("%3 = tn.relu %2 : tensor<4x8xf16>");
  EXPECT_TRUE(isCall(kEpilogueSignature, relu));
  EXPECT_TRUE(
      isCall(kEpilogueSignature, epilogue("%3 = tn.gelu %2 {approximate} : tensor<4x8xf16>")));
  EXPECT_TRUE(
      isCall(kEpilogueSignature, epilogue("%3 = tn.relu %2 : tensor<4x8xf16>", "%r", "%c")));
  std::optional<RegionStep> step = stepOf(kEpilogueSignature, relu);
  ASSERT_TRUE(step);
  EXPECT_EQ((std::vector<uint32_t>{0, 1, 3, 2, 4}), step->buffers);
  EXPECT_EQ(4u, step->reads);
}

TEST_F(RegionsTest, OtherEpiloguesAreGenerated) {
  EXPECT_FALSE(stepOf(kEpilogueSignature, epilogue("%3 = tn.gelu %2 : tensor<4x8xf16>")))
      << "the libraries' gelu is the tanh form";
  EXPECT_FALSE(stepOf(kEpilogueSignature, epilogue("%3 = tn.tanh %2 : tensor<4x8xf16>")));
  EXPECT_FALSE(stepOf(kEpilogueSignature,
                      epilogue("%3 = tn.add %2, %2 : (tensor<4x8xf16>, tensor<4x8xf16>) -> "
                               "tensor<4x8xf16>")));
  EXPECT_FALSE(stepOf(kEpilogueSignature, epilogue("%t = tn.relu %2 : tensor<4x8xf16>\n"
                                                   "%3 = tn.relu %t : tensor<4x8xf16>")));
  EXPECT_FALSE(stepOf(kEpilogueSignature,
                      epilogue("%t = tn.relu %2 : tensor<4x8xf16>\n%3 = tn.add %t, %r : "
                               "(tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>")));
  EXPECT_FALSE(stepOf(kEpilogueSignature,
                      epilogue("%3 = tn.add %2, %r : (tensor<4x8xf16>, tensor<4x8xf16>) -> "
                               "tensor<4x8xf16>")))
      << "two residuals";
  EXPECT_FALSE(stepOf("(%a: tensor<4x6xf16>, %b: tensor<6x8xf16>, %r: tensor<4x1xf16>) -> "
                      "tensor<4x8xf16>",
                      "%0 = tn.matmul %a, %b : (tensor<4x6xf16>, tensor<6x8xf16>) -> "
                      "tensor<4x8xf16>\n%1 = tn.add %0, %r : (tensor<4x8xf16>, tensor<4x1xf16>) "
                      "-> tensor<4x8xf16>\nreturn %1 : tensor<4x8xf16>"))
      << "a bias over the rows";
  EXPECT_FALSE(stepOf("(%a: tensor<4x6xf64>, %b: tensor<6x8xf64>) -> tensor<4x8xf64>",
                      "%0 = tn.matmul %a, %b : (tensor<4x6xf64>, tensor<6x8xf64>) -> "
                      "tensor<4x8xf64>\n%1 = tn.relu %0 : tensor<4x8xf64>\n"
                      "return %1 : tensor<4x8xf64>"));
  EXPECT_FALSE(stepOf("(%a: tensor<4x6xi32>, %b: tensor<6x8xi32>) -> tensor<4x8xi32>",
                      "%0 = tn.matmul %a, %b : (tensor<4x6xi32>, tensor<6x8xi32>) -> "
                      "tensor<4x8xi32>\nreturn %0 : tensor<4x8xi32>"));
  EXPECT_FALSE(stepOf("(%a: tensor<4x6xf16>, %b: tensor<6x8xf16>) -> tensor<4x8xf32>",
                      "%0 = tn.matmul %a, %b : (tensor<4x6xf16>, tensor<6x8xf16>) -> "
                      "tensor<4x8xf16>\n%1 = tn.cast %0 : (tensor<4x8xf16>) -> tensor<4x8xf32>\n"
                      "return %1 : tensor<4x8xf32>"));
}

/// A product of 8-bit floats of depth 32 to `columns` columns, and what follows %0.
std::string float8Product(const std::string &type, const std::string &rest, int columns = 48) {
  std::string a = "tensor<2x3x32x", b = "tensor<" + std::to_string(columns) + "x32x",
              y = "tensor<2x3x" + std::to_string(columns) + "x" + type + ">", e = type + ">";
  return "%p = tn.constant dense<0.5> : tensor<" + e + " : tensor<" + e +
         "\n%q = tn.constant dense<0.25> : tensor<" + e + " : tensor<" + e +
         "\n%da = tn.decode %a : (" + a + "f8E4M3FN>) -> " + a + e + "\n%ma = tn.mul %da, %p : (" +
         a + e + ", tensor<" + e + ") -> " + a + e + "\n%db = tn.decode %b : (" + b +
         "f8E4M3FN>) -> " + b + e + "\n%mb = tn.mul %db, %q : (" + b + e + ", tensor<" + e +
         ") -> " + b + e + "\n%0 = tn.matmul %ma, %mb {tn.float8, transposeB} : (" + a + e + ", " +
         b + e + ") -> " + y + "\n" + rest;
}

TEST_F(RegionsTest, ProductsOfFloat8) {
  std::string half = "tensor<2x3x48xf16>";
  std::string signature =
      "(%a: tensor<2x3x32xf8E4M3FN>, %b: tensor<48x32xf8E4M3FN>, %c: tensor<48xf16>, %r: " + half +
      ") -> " + half;
  EXPECT_TRUE(isCall(
      signature,
      float8Product("f16", "%1 = tn.add %0, %c : (" + half + ", tensor<48xf16>) -> " + half +
                               "\n%2 = tn.add %1, %r : (" + half + ", " + half + ") -> " + half +
                               "\n%3 = tn.relu %2 : " + half + "\nreturn %3 : " + half)));
  std::string wide = "tensor<2x3x48xf32>",
              plain = "(%a: tensor<2x3x32xf8E4M3FN>, %b: tensor<48x32xf8E4M3FN>) -> ";
  EXPECT_TRUE(isCall(plain + wide, float8Product("f32", "return %0 : " + wide)));
  std::optional<RegionStep> step =
      stepOf(plain + wide, float8Product("f32", "return %0 : " + wide));
  ASSERT_TRUE(step);
  engine::ScaledMatmulCall call;
  std::memcpy(&call, step->call.data(), sizeof(call));
  EXPECT_EQ(0.125f, call.factor);
  // Of f32 the library has no bias.
  EXPECT_FALSE(stepOf(
      "(%a: tensor<2x3x32xf8E4M3FN>, %b: tensor<48x32xf8E4M3FN>, %c: tensor<48xf32>) -> " + wide,
      float8Product("f32", "%1 = tn.add %0, %c : (" + wide + ", tensor<48xf32>) -> " + wide +
                               "\nreturn %1 : " + wide)));
  EXPECT_FALSE(
      stepOf("(%a: tensor<2x3x32xf8E4M3FN>, %b: tensor<40x32xf8E4M3FN>) -> tensor<2x3x40xf16>",
             float8Product("f16", "return %0 : tensor<2x3x40xf16>", 40)))
      << "columns that are no multiple of 16";
}

/// A 3x3 convolution of 4 channels to 8 in two groups; `weight` makes %w, `rest` follows %0.
std::string convolution(const std::string &weight, const std::string &pads = "1, 0, 1, 0",
                        const std::string &rest = "return %0 : tensor<2x3x2x8xf16>") {
  return weight +
         "\n%0 = tn.conv %x, %w bias %c {strides = array<i64: 2, 2>, pads = array<i64: " + pads +
         ">, dilations = array<i64: 1, 2>, groups = 2 : i64, channelsLast = true} : "
         "(tensor<2x6x7x4xf16>, tensor<8x2x3x3xf16>, tensor<8xf16>) -> tensor<2x3x2x8xf16>\n" +
         rest;
}

constexpr char kChannelsLast[] = "tensor<8x3x3x2xf16>";

std::string unpacked(const std::string &order = "0, 2, 3, 1",
                     const std::string &type = kChannelsLast, const std::string &tiles = "") {
  return "%w = tn.unpack %p outer_dims_perm = [" + order + "]" + tiles + " : (" + type +
         ") -> tensor<8x2x3x3xf16>";
}

std::string convSignature(const std::string &packed = kChannelsLast) {
  return "(%x: tensor<2x6x7x4xf16>, %p: " + packed +
         ", %c: tensor<8xf16>, %r: tensor<2x3x2x8xf16>) -> tensor<2x3x2x8xf16>";
}

TEST_F(RegionsTest, Convolutions) {
  EXPECT_TRUE(isCall(convSignature(), convolution(unpacked())));
  EXPECT_TRUE(
      isCall(convSignature(),
             convolution(unpacked(), "1, 0, 1, 0",
                         "%1 = tn.add %r, %0 : (tensor<2x3x2x8xf16>, tensor<2x3x2x8xf16>) -> "
                         "tensor<2x3x2x8xf16>\n%2 = tn.relu %1 : tensor<2x3x2x8xf16>\n"
                         "return %2 : tensor<2x3x2x8xf16>")));
  EXPECT_TRUE(isCall("(%x: tensor<2x6x7x4xf16>, %p: tensor<8x3x3x2xf16>, %c: tensor<8xf16>) -> "
                     "tensor<2x3x2x8xf16>",
                     convolution("%w = tn.transpose %p [0, 3, 1, 2] : (tensor<8x3x3x2xf16>) -> "
                                 "tensor<8x2x3x3xf16>")));
}

TEST_F(RegionsTest, OtherConvolutionsAreGenerated) {
  EXPECT_FALSE(stepOf(convSignature("tensor<8x2x3x3xf16>"),
                      convolution(unpacked("0, 1, 2, 3", "tensor<8x2x3x3xf16>"))));
  std::string panels = "tensor<1x3x3x2x32xf16>";
  EXPECT_FALSE(stepOf(
      convSignature(panels),
      convolution(unpacked("0, 2, 3, 1", panels, " inner_dims_pos = [0] inner_tiles = [32]"))));
  EXPECT_FALSE(stepOf(convSignature(), convolution(unpacked(), "1, 0, 0, 0")))
      << "paddings differ from end to end";
  EXPECT_FALSE(stepOf("(%x: tensor<2x6x7x4xf16>, %w: tensor<8x2x3x3xf16>, %c: tensor<8xf16>) -> "
                      "tensor<2x3x2x8xf16>",
                      convolution("")))
      << "the weight does not lie channels-last";
}

/// Heads of eight over a merged projection [2, 5, 2 + 2 * 1, 8], whose parts begin at 0, 2 and 3.
std::string mergedAttention(const std::string &mask, const std::string &flags = "causal = false") {
  std::string part = "tensor<2x5x4x8xf16>", q = "tensor<2x5x2x8xf16>", k = "tensor<2x5x1x8xf16>";
  auto slice = [&](const std::string &name, int start, const std::string &type) {
    return name + " = tn.slice %x {starts = affine_map<() -> (0, 0, " + std::to_string(start) +
           ", 0)>, steps = array<i64: 1, 1, 1, 1>} : (" + part + ") -> " + type + "\n";
  };
  return slice("%q", 0, q) + slice("%k", 2, k) + slice("%v", 3, k) +
         "%y = tn.attention %q, %k, %v" + (mask.empty() ? "" : " mask %m") + " {" + flags +
         ", headsInner = array<i1: true, true, true, true>, scale = 0.5 : f64} : (" + q + ", " + k +
         ", " + k + (mask.empty() ? "" : ", " + mask) + ") -> " + q + "\nreturn %y : " + q;
}

TEST_F(RegionsTest, Attention) {
  std::string x = "(%x: tensor<2x5x4x8xf16>", y = ") -> tensor<2x5x2x8xf16>";
  EXPECT_TRUE(isCall(x + y, mergedAttention("")));
  for (std::string mask : {"tensor<2x1x1x5xf16>", "tensor<5x5xf16>", "tensor<1x2x5x5xf16>"}) {
    EXPECT_TRUE(isCall(x + ", %m: " + mask + y, mergedAttention(mask)));
  }
  std::string q = "tensor<?x2x?x8xbf16, #tn.shape<()[s0, s1] -> (s0, 2, s1, 8)>>";
  EXPECT_TRUE(isCall("(%q: " + q + ", %k: " + q + ", %v: " + q + ") -> " + q,
                     "%y = tn.attention %q, %k, %v {causal = false, headsInner = array<i1: false, "
                     "false, false, false>, scale = 0.5 : f64} : (" +
                         q + ", " + q + ", " + q + ") -> " + q + "\nreturn %y : " + q));
}

TEST_F(RegionsTest, OtherAttentionIsGenerated) {
  std::string x = "(%x: tensor<2x5x4x8xf16>", y = ") -> tensor<2x5x2x8xf16>";
  EXPECT_FALSE(stepOf(x + y, mergedAttention("", "causal = true")));
  EXPECT_FALSE(stepOf(x + ", %m: tensor<5x1xf16>" + y, mergedAttention("tensor<5x1xf16>")))
      << "a mask over the queries";
}

TEST_F(RegionsTest, TheComparisonSeesAWrongDescriptor) {
  func::FuncOp kernel = parse(convSignature(), convolution(unpacked()));
  std::optional<RegionStep> step = libraryStep(kernel);
  ASSERT_TRUE(step);
  ASSERT_TRUE(agrees(kernel, *step));
  step->call[offsetof(engine::ConvCall, padBefore)] = std::byte(0);
  EXPECT_FALSE(agrees(kernel, *step));
}

} // namespace
} // namespace tenon::codegen::cuda
