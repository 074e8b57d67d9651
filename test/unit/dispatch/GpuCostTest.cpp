// The cost model of a GPU: work, bytes, registers and occupancy, and which of them keeps neighbours
// apart. Relies on the built-in profile.
#include "test/unit/dispatch/DispatchFixture.h"

#include "llvm/Support/FormatVariadic.h"

#include <cstdio>

namespace tenon::dispatch {
namespace {

class GpuCostTest : public DispatchTest {};

TEST_F(GpuCostTest, CostsAreThoseOfTheUnitAndOfWhatIsRead) {
  runOnGpu("(%h: tensor<4096x4096xf16>, %f: tensor<4096x4096xf32>, %i: tensor<16xi64>) -> "
           "(tensor<4096x4096xf16>, tensor<4096x4096xf32>, tensor<16x4096xf32>)",
           R"(
    %0 = tn.matmul %h, %h : (tensor<4096x4096xf16>, tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
    %1 = tn.matmul %f, %f : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    %2 = tn.gather %f, %i {axis = 0 : i64} : (tensor<4096x4096xf32>, tensor<16xi64>) -> tensor<16x4096xf32>
    return %0, %1, %2 : tensor<4096x4096xf16>, tensor<4096x4096xf32>, tensor<16x4096xf32>)");
  ASSERT_EQ(records.regions.size(), 3u);
  target::Target profile = target::targetOf("sm_90");
  double work = 2.0 * 4096 * 4096 * 4096;
  EXPECT_NEAR(records.regions[0].cost.workMicroseconds, work / profile.halfPeak * 1e6, 0.1);
  EXPECT_NEAR(records.regions[1].cost.workMicroseconds, work / profile.peak * 1e6, 0.1);
  EXPECT_EQ(records.regions[2].cost.bytes, 2 * 16 * 4096 * 4 + 16 * 8);
}

TEST_F(GpuCostTest, ComputesAgainOnlyWhatCostsLess) {
  // One exponential a row is computed for every element, ten are stored once.
  auto body = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += "%" + std::to_string(i + 1) + " = tn.exp %" + (i == 0 ? "r" : std::to_string(i)) +
              " : tensor<4096x1xf16>\n";
    }
    return text + "%y = tn.mul %x, %" + std::to_string(count) +
           " : (tensor<4096x4096xf16>, tensor<4096x1xf16>) -> tensor<4096x4096xf16>\n"
           "return %y : tensor<4096x4096xf16>";
  };
  llvm::StringRef signature =
      "(%x: tensor<4096x4096xf16>, %r: tensor<4096x1xf16>) -> tensor<4096x4096xf16>";
  EXPECT_EQ(runOnGpu(signature, body(1)), (Regions{"elementwise(exp, mul)"}));
  EXPECT_EQ(runOnGpu(signature, body(10)).size(), 2u);
  ASSERT_EQ(records.edges.size(), 1u);
  EXPECT_EQ(records.edges.front().rule, "computed-too-often");
  EXPECT_GT(records.edges.front().fused.microseconds, records.edges.front().apart.microseconds);
}

TEST_F(GpuCostTest, EpilogueThatNoLibraryHasIsApartFromALargeProduct) {
  runOnGpu("(%h: tensor<4096x4096xf16>) -> tensor<4096x4096xf16>", R"(
    %0 = tn.matmul %h, %h : (tensor<4096x4096xf16>, tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
    %1 = tn.tanh %0 : tensor<4096x4096xf16>
    return %1 : tensor<4096x4096xf16>)");
  ASSERT_EQ(records.edges.size(), 1u);
  EXPECT_EQ(records.edges.front().rule, "takes-longer");
  // By the difference of these two numbers: apart they cost what their kernels do.
  const EdgeRecord &edge = records.edges.front();
  double fused = 0, apart = 0;
  ASSERT_EQ(std::sscanf(edge.decided.c_str(), "%lf us as one, %lf us apart, by the fastest kernels",
                        &fused, &apart),
            2)
      << edge.decided;
  EXPECT_GT(fused, apart);
  EXPECT_NEAR(edge.fused.microseconds - edge.apart.microseconds, fused - apart, 0.011);
  EXPECT_NEAR(edge.apart.microseconds,
              records.regions[0].cost.microseconds + records.regions[1].cost.microseconds, 1e-6);
}

TEST_F(GpuCostTest, NeighbourOfALibraryCallIsWeighedAgainstGeneratedCode) {
  runOnGpu("(%h: tensor<4096x4096xf16>) -> tensor<4096x4096xf16>", R"(
    %0 = tn.tanh %h : tensor<4096x4096xf16>
    %1 = tn.matmul %0, %h : (tensor<4096x4096xf16>, tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
    return %1 : tensor<4096x4096xf16>)");
  ASSERT_EQ(records.edges.size(), 1u);
  EXPECT_EQ(records.edges.front().rule, "contraction-reads-often");
  EXPECT_GT(records.edges.front().fused.microseconds, records.edges.front().apart.microseconds);
}

/// Softmax of the sum of so many inputs, which weighs each of them.
std::pair<std::string, std::string> mixture(int count, const std::string &type) {
  std::string arguments, results, types, body, last = "%x0";
  for (int i = 0; i < count; ++i) {
    std::string number = std::to_string(i), comma = i == 0 ? "" : ", ";
    arguments += comma + "%x" + number + ": " + type;
    results += comma + "%y" + number;
    types += comma + type;
    if (i > 0) {
      body += "%s" + number + " = tn.add " + last + ", %x" + number + " : (" + type + ", " + type +
              ") -> " + type + "\n";
      last = "%s" + number;
    }
  }
  body += "%n = tn.softmax " + last + " {axis = 1 : i64} : " + type + "\n";
  for (int i = 0; i < count; ++i) {
    std::string number = std::to_string(i);
    body += "%y" + number + " = tn.mul %x" + number + ", %n : (" + type + ", " + type + ") -> " +
            type + "\n";
  }
  return {"(" + arguments + ") -> (" + types + ")", body + "return " + results + " : " + types};
}

/// Where four warps multiply together, and where there is enough to multiply.
TEST_F(GpuCostTest, LargeProductsEndWithGelu) {
  auto regions = [&](llvm::StringRef arch, int rows, llvm::StringRef attribute = "",
                     bool hasResidual = false) {
    std::string y = "tensor<" + std::to_string(rows) + "x3072xf16>";
    std::string a = "tensor<" + std::to_string(rows) + "x768xf16>";
    std::string text = llvm::formatv(
        R"(
      %0 = tn.matmul %a, %b : ({0}, tensor<768x3072xf16>) -> {1}
      %1 = tn.add %0, %c : ({1}, tensor<3072xf16>) -> {1}
      {2}
      %3 = tn.gelu {3} {4} : {1}
      return %3 : {1})",
        a, y, hasResidual ? "%2 = tn.add %1, %r : (" + y + ", " + y + ") -> " + y : std::string(),
        hasResidual ? "%2" : "%1", attribute);
    return run(llvm::formatv("(%a: {0}, %b: tensor<768x3072xf16>, %c: tensor<3072xf16>, %r: {1}) "
                             "-> {1}",
                             a, y)
                   .str(),
               text, target::targetOf(arch));
  };
  EXPECT_EQ(regions("sm_90a", 4096), (Regions{"contraction(matmul, add, gelu)"}));
  EXPECT_TRUE(llvm::StringRef(records.regions.front().kernel).starts_with("gemm_persistent"));
  Regions apart{"contraction(matmul, add)", "elementwise(gelu)"};
  EXPECT_EQ(regions("sm_90", 4096), apart);
  EXPECT_EQ(regions("sm_90a", 1024), apart);
  EXPECT_EQ(regions("sm_90a", 4096, "", /*hasResidual=*/true),
            (Regions{"contraction(matmul, add, add, gelu)"}));
  EXPECT_EQ(regions("sm_90", 4096, "{approximate}"), (Regions{"contraction(matmul, add, gelu)"}));
}

/// By constant weights, where four warps multiply together, of more rows than are streamed.
TEST_F(GpuCostTest, SmallProductsEndWithGelu) {
  auto regions = [&](llvm::StringRef arch, int rows, llvm::StringRef more = "",
                     llvm::StringRef bias = "%c") {
    std::string a = llvm::formatv("tensor<{0}x768xf16>", rows);
    std::string y = llvm::formatv("tensor<{0}x3072xf16>", rows);
    std::string text = llvm::formatv(R"(
      %w = tn.weight "w" : tensor<768x3072xf16>
      %c = tn.weight "c" : tensor<3072xf16>
      {2}
      %0 = tn.matmul %a, %w : ({0}, tensor<768x3072xf16>) -> {1}
      %1 = tn.add %0, {3} : ({1}, tensor<3072xf16>) -> {1}
      %2 = tn.gelu %1 : {1}
      return %2 : {1})",
                                     a, y, more, bias);
    return run(llvm::formatv("(%a: {0}, %b: tensor<768xf16>) -> {1}", a, y).str(), text,
               target::targetOf(arch));
  };
  EXPECT_EQ(regions("sm_90a", 128), (Regions{"contraction(unpack, matmul, add, gelu)"}));
  EXPECT_TRUE(llvm::StringRef(records.regions.front().kernel).starts_with("gemm_skinny"));
  EXPECT_EQ(regions("sm_90", 128), (Regions{"contraction(matmul, add, gelu)"}));
  EXPECT_TRUE(llvm::StringRef(records.regions.front().kernel).starts_with("gemm_tensorcore"));
  EXPECT_EQ(regions("sm_90a", 1024), (Regions{"contraction(matmul, add)", "elementwise(gelu)"}));
  // A weight that something else reads too stays as it is.
  EXPECT_EQ(regions("sm_90a", 128,
                    "%3 = tn.reduce <sum> %w {axes = array<i64: 0>, keepdims = false} : "
                    "(tensor<768x3072xf16>) -> tensor<3072xf16>",
                    "%3")
                .back(),
            "contraction(matmul, add, gelu)");
}

TEST_F(GpuCostTest, RegistersKeepNeighboursApart) {
  auto [signature, body] = mixture(8, "tensor<65536x512xf32>");
  EXPECT_EQ(runOnGpu(signature, body).size(), 1u);
  // 16 elements of each input would be alive until the reduction is done: 256 registers.
  std::tie(signature, body) = mixture(16, "tensor<65536x512xf32>");
  EXPECT_GT(runOnGpu(signature, body).size(), 1u);
  ASSERT_FALSE(records.edges.empty());
  for (const EdgeRecord &edge : records.edges) {
    EXPECT_EQ(edge.rule, "registers");
    EXPECT_GT(edge.fused.registers, 255);
    EXPECT_GT(edge.fused.lostMicroseconds, 0);
    EXPECT_LE(edge.apart.registers, 255);
    EXPECT_GT(edge.apart.occupancy, 0);
    EXPECT_GT(edge.fused.microseconds, edge.apart.microseconds);
    EXPECT_NE(edge.decided.find(llvm::formatv("{0} registers", edge.fused.registers).str()),
              std::string::npos);
    EXPECT_NE(edge.decided.find("% occupancy"), std::string::npos);
  }
  // Elements of half the size take half the registers.
  std::tie(signature, body) = mixture(16, "tensor<65536x512xf16>");
  EXPECT_EQ(runOnGpu(signature, body).size(), 1u);
}

TEST_F(GpuCostTest, OccupancyIsOfTheArchitecture) {
  llvm::StringRef signature = "(%x: tensor<4096x4096xf32>) -> tensor<4096x4096xf32>";
  llvm::StringRef body = R"(
    %0 = tn.neg %x : tensor<4096x4096xf32>
    return %0 : tensor<4096x4096xf32>)";
  runOnGpu(signature, body);
  EXPECT_EQ(records.regions.front().cost.occupancy, 100);
  target::Target quartered = target::targetOf("sm_90");
  quartered.registers /= 4;
  run(signature, body, quartered);
  EXPECT_EQ(records.regions.front().cost.occupancy, 25);
  EXPECT_EQ(target::targetOf("sm_89").threads, 1536);
  run(signature, body);
  EXPECT_EQ(records.regions.front().cost.registers, 0) << "a CPU has none to count";
}

} // namespace
} // namespace tenon::dispatch
