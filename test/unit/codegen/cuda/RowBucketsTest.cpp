// Products whose row count varies on the emulated GPU: every bucket, its borders and no rows at
// all; epilogues that one kernel or several compute; which kernels have work for a count.
#include "compiler/codegen/cuda/gemm/RowBuckets.h"
#include "compiler/codegen/cuda/gemm/PersistentGemm.h"
#include "test/unit/codegen/cuda/GeluGemm.h"
#include "test/unit/codegen/cuda/OpenedRegion.h"

namespace tenon::codegen::cuda {
namespace {

struct Case {
  int64_t least = 0, most = 100, columns = 48, depth = 256;
  int64_t inner = 1; ///< rows are s0 x inner
  std::string type = "f16";
  /// Of %y; "" for the product alone.
  std::string epilogue = "silu";
  bool isPacked = false; ///< the weight in one panel, else as [columns, depth]
  bool isGated = false;  ///< silu of one half of the columns times the other
  bool isInvariant = false;
  bool isNormed = false; ///< the product of rows divided by their root mean square
};

std::string varying(const Case &c, int64_t last) {
  std::string inner = c.inner == 1 ? "" : std::to_string(c.inner) + "x",
              dim = c.inner == 1 ? "" : std::to_string(c.inner) + ", ";
  return "tensor<?x" + inner + std::to_string(last) + "x" + c.type + ", #tn.shape<()[s0] -> (s0, " +
         dim + std::to_string(last) + ")>>";
}

std::string gatedBody(const Case &c) {
  std::string y = varying(c, c.columns), half = varying(c, c.columns / 2);
  std::string zeros = c.inner == 1 ? "0, " : "0, 0, ", ones = c.inner == 1 ? "1, 1" : "1, 1, 1";
  auto slice = [&](const std::string &name, int64_t start) {
    return name + " = tn.slice %y {starts = affine_map<() -> (" + zeros + std::to_string(start) +
           ")>, steps = array<i64: " + ones + ">} : (" + y + ") -> " + half + "\n";
  };
  return slice("%g", 0) + slice("%u", c.columns / 2) + "%s = tn.silu %g : " + half +
         "\n%p = tn.mul %s, %u : (" + half + ", " + half + ") -> " + half + "\nreturn %p : " + half;
}

std::string textOf(const Case &c) {
  std::string a = varying(c, c.depth), y = varying(c, c.columns);
  auto matrix = [&](int64_t rows, int64_t columns) {
    return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "x" + c.type + ">";
  };
  std::string lying = matrix(c.columns, c.depth), logical = matrix(c.depth, c.columns);
  std::string body;
  if (c.isPacked) {
    body = "%b = tn.unpack %w outer_dims_perm = [1, 0] : (" + lying + ") -> " + logical + "\n";
  }
  if (c.isNormed) {
    body += "%n = tn.rms_norm %a {axis = " + std::to_string(c.inner == 1 ? 1 : 2) +
            " : i64, epsilon = 1.000000e-05 : f64} : (" + a + ") -> " + a + "\n";
  }
  body += "%y = tn.matmul " + std::string(c.isNormed ? "%n" : "%a") + ", " +
          std::string(c.isPacked ? "%b" : "%w {transposeB}") + " : (" + a + ", " +
          (c.isPacked ? logical : lying) + ") -> " + y + "\n";
  std::string result = c.isGated ? varying(c, c.columns / 2) : y;
  if (c.isGated) {
    body += gatedBody(c);
  } else if (c.epilogue.empty()) {
    body += "return %y : " + y;
  } else {
    body += "%z = tn." + c.epilogue + " %y : " + y + "\nreturn %z : " + y;
  }
  std::string text = regionText(
      "contraction", "(%a: " + a + ", %w: " + lying + " {tn.constant}) -> " + result, body,
      "#tn.symbol<\"s0\", " + std::to_string(c.least) + ", " + std::to_string(c.most) + ">");
  const std::string attributes = "attributes {";
  return c.isInvariant ? text.insert(text.find(attributes) + attributes.size(), "tn.invariant, ")
                       : text;
}

const Emitter emitOwn = byFamily({"gemm_buckets_generated"});

testing::AssertionResult isRight(const Case &c, int64_t rows, const target::Target &gpu) {
  RunOptions options;
  options.inputScale = 1;
  options.symbols = {rows};
  options.gpu = gpu;
  testing::AssertionResult result = matchesReference(textOf(c), emitOwn, options);
  return result ? result : (result << " with " << rows << " rows");
}

/// A region and its buckets.
struct Bucketed : OpenedRegion {
  explicit Bucketed(const Case &c, bool calls, const target::Target &gpu = kWarpgroupGpu)
      : OpenedRegion(textOf(c), gpu) {
    MatchResult<RowBuckets> found = rowBucketsOf(*region, calls);
    why = found.why();
    if (found) {
      buckets = *found;
    }
  }

  /// "8 gemv, 100 rows_loops pointwise"
  std::string text() const {
    std::string result;
    for (const RowBucket &bucket : buckets.buckets) {
      result += (result.empty() ? "" : ", ") + std::to_string(bucket.rows.most);
      for (const dispatch::KernelChoice &kernel : bucket.kernels) {
        result += " " + kernel.family;
      }
    }
    return result;
  }

  RowBuckets buckets;
  std::string why;
};

TEST(CudaRowBucketsTest, EachCountHasItsKernel) {
  EXPECT_EQ(Bucketed(Case(), /*calls=*/false).text(), "8 gemv, 16 gemv, 100 gemm_skinny");
  Case many;
  many.most = 4096;
  EXPECT_EQ(Bucketed(many, /*calls=*/false, target::targetOf("sm_80")).text(),
            "8 gemv, 16 gemv, 4096 gemm_tensorcore");
  many.epilogue = "";
  many.columns = many.depth = 4096;
  EXPECT_EQ(Bucketed(many, /*calls=*/true, target::targetOf("sm_80")).text(),
            "8 gemv, 16 gemv, 4096 cublaslt");
}

/// Enough rows for a persistent kernel, whose grid does not follow their number.
TEST(CudaRowBucketsTest, LargeRows) {
  Case c;
  c.columns = 256;
  c.depth = 64;
  c.least = 1;
  c.most = 700;
  for (int64_t rows : {1, 128, 300, 700}) {
    RunOptions options = warpgroupOptions();
    options.symbols = {rows};
    EXPECT_TRUE(matchesReference(
        textOf(c),
        [](RegionBuilder &region) -> mlir::FailureOr<bool> {
          MatchResult<LargeProblem> problem = matchPersistentGemm(region);
          return problem && emitPersistentGemm(region, *problem);
        },
        options));
  }
  c.most = 65536;
  c.columns = 4096;
  c.depth = 1024;
  c.epilogue = "gelu";
  EXPECT_EQ(Bucketed(c, /*calls=*/false).text(),
            "8 gemv, 16 gemv, 64 gemm_skinny, 128 gemm_skinny, 256 gemm_skinny, 512 gemm_skinny, "
            "2304 gemm_tensorcore, 65536 gemm_persistent");
}

TEST(CudaRowBucketsTest, Borders) {
  for (int64_t rows : {0, 1, 8, 9, 16, 17, 64, 65, 100}) {
    EXPECT_TRUE(isRight(Case(), rows, kWarpgroupGpu));
  }
  Case packed;
  packed.isPacked = true;
  packed.type = "bf16";
  for (int64_t rows : {0, 1, 13, 50}) {
    EXPECT_TRUE(isRight(packed, rows, target::targetOf("sm_80")));
  }
}

/// What a row gets of these families beside others, by the kernels of so many rows.
std::vector<std::byte> rowsOf(const Case &c, int64_t rows, const std::vector<std::string> &families,
                              const target::Target &gpu) {
  std::vector<std::byte> result;
  RunOptions options;
  options.inputScale = 1;
  options.symbols = {rows};
  options.gpu = gpu;
  options.result = &result;
  testing::AssertionResult isRight = matchesReference(textOf(c), byFamily(families), options);
  EXPECT_TRUE(isRight) << rows << " rows";
  return result;
}

/// Kernels for few rows and for many, and no library's call, give a row the same bits.
TEST(CudaRowBucketsTest, InvariantRowsHaveOneOrder) {
  Case c;
  c.isInvariant = true;
  c.most = 4096;
  c.columns = c.depth = 2048;
  for (auto [name, columns] : {std::pair("sm_80", 2048), {"sm_90a", 2048}, {"sm_90a", 16384}}) {
    c.columns = columns;
    Bucketed bucketed(c, /*calls=*/true, target::targetOf(name));
    EXPECT_EQ(bucketed.buckets.buckets.back().rows.most, 4096) << bucketed.why;
    EXPECT_EQ(bucketed.text().find("1 gemv, 8 gemv, 16 gemv, "), size_t(0)) << bucketed.text();
    EXPECT_EQ(bucketed.buckets.buckets.back().kernels.front().family, "gemm_sliced");
    EXPECT_NE(bucketed.buckets.order, "");
  }
  c.isInvariant = false;
  EXPECT_EQ(Bucketed(c, true).text().find("gemm_sliced"), std::string::npos);
}

TEST(CudaRowBucketsTest, InvariantRowsHaveEqualBits) {
  for (bool isWhole : {false, true}) {
    // A depth of slices that are not all full, and columns that end within a tile.
    Case c{.most = 200, .columns = 200, .depth = 840, .isInvariant = true};
    c.type = isWhole ? "bf16" : "f16";
    c.isNormed = c.isGated = isWhole;
    std::vector<std::byte> most = rowsOf(c, 70, {"gemm_buckets_generated"}, kWarpgroupGpu);
    for (int64_t rows : {1, 9, 17, 40}) {
      std::vector<std::byte> few = rowsOf(c, rows, {"gemm_buckets_generated"}, kWarpgroupGpu);
      ASSERT_LE(few.size(), most.size());
      EXPECT_TRUE(std::equal(few.begin(), few.end(), most.begin())) << rows << " rows";
    }
    if (!isWhole) {
      EXPECT_NE(most, rowsOf(c, 70, {"gemm_tensorcore"}, kWarpgroupGpu)) << "another order is seen";
    }
  }
}

/// Rows are a multiple of five: some buckets have a part of their range, some none.
TEST(CudaRowBucketsTest, RowsOfSeveralDims) {
  Case c;
  c.inner = 5;
  c.most = 20;
  for (int64_t images : {0, 1, 2, 3, 4, 20}) {
    EXPECT_TRUE(isRight(c, images, kWarpgroupGpu));
  }
  c.inner = 197;
  EXPECT_EQ(Bucketed(c, false, target::targetOf("sm_80")).text(), "");
}

/// No kernel computes both halves of many rows: the rest is a loop behind the product.
TEST(CudaRowBucketsTest, Gated) {
  Case c;
  c.isGated = true;
  EXPECT_EQ(Bucketed(c, false).text(), "8 gemv, 16 gemv, 48 pointwise, 100 gemm_skinny pointwise");
  for (int64_t rows : {1, 12, 40}) {
    EXPECT_TRUE(isRight(c, rows, kWarpgroupGpu));
  }
}

/// Few rows alone: GEMV's own layout of the weights, and a loop behind nothing.
TEST(CudaRowBucketsTest, FewRowsAlone) {
  Case c;
  c.most = 6;
  EXPECT_EQ(Bucketed(c, false).text(), "6 gemv");
  for (int64_t rows : {0, 1, 6}) {
    EXPECT_TRUE(isRight(c, rows, kWarpgroupGpu));
  }
  c.least = 1;
  EXPECT_EQ(Bucketed(c, false).why, "one kernel takes all row counts");
}

/// A call for no rows does nothing, and a launch has no blocks.
TEST(CudaRowBucketsTest, OneStepHasWork) {
  Case c;
  c.most = 4096;
  c.epilogue = "gelu"; // that of erf, which no call has
  Bucketed bucketed(c, /*calls=*/true, target::targetOf("sm_80"));
  ASSERT_TRUE(succeeded(kernelFamilies().emit(
      *bucketed.region, dispatch::choiceOf(kGemmBuckets.name, bucketed.buckets.limits))));
  const std::vector<RegionStep> &steps = bucketed.region->code.steps;
  auto working = [&](int64_t rows) {
    std::string result;
    for (const RegionStep &step : steps) {
      const Program &size = step.call.empty() ? step.grid : step.sizes.front();
      result += *engine::evaluate(size, std::vector<int64_t>{rows}) == 0 ? '-' : '+';
    }
    return result;
  };
  auto expected = [&](int64_t rows) {
    std::string result;
    for (const RowBucket &bucket : bucketed.buckets.buckets) {
      bool isIn = rows >= std::max<int64_t>(bucket.rows.least, 1) && rows <= bucket.rows.most;
      result += std::string(bucket.kernels.size(), isIn ? '+' : '-');
    }
    return result;
  };
  ASSERT_GT(bucketed.buckets.buckets.size(), size_t(2));
  for (int64_t rows : {0, 8, 9, 17, 256, 257, 4096}) {
    EXPECT_EQ(working(rows), expected(rows)) << rows << " rows";
  }
}

TEST(CudaRowBucketsTest, RefusesWhatDoesNotVary) {
  Case c;
  c.least = c.most = 5;
  EXPECT_FALSE(Bucketed(c, false).why.empty());
  c = Case();
  c.type = "f32";
  EXPECT_FALSE(Bucketed(c, false).why.empty());
  c = Case();
  c.depth = 260;
  EXPECT_FALSE(Bucketed(c, false, target::targetOf("sm_80")).why.empty());
}

/// Norms in front of products of several widths, whose layouts depend on how many rows there are.
TEST(CudaRowBucketsTest, PartsHaveTheirConfigurations) {
  for (bool isInvariant : {false, true}) {
    for (int64_t depth : {256, 512, 1024, 4096}) {
      for (int64_t most : {40, 200, 2048}) {
        Case c{.least = 1, .most = most, .columns = 768, .depth = depth, .type = "bf16"};
        c.epilogue = "";
        c.isNormed = true;
        c.isInvariant = isInvariant;
        llvm::Expected<std::string> ptx = emitTestPtx(textOf(c), emitOwn, kWarpgroupGpu);
        EXPECT_TRUE(bool(ptx)) << depth << " x " << most << ": " << llvm::toString(ptx.takeError());
      }
    }
  }
}

TEST(CudaRowBucketsTest, Assembles) {
  Case c;
  c.most = 1024;
  c.columns = 3072;
  c.depth = 768;
  for (const char *name : {"sm_80", "sm_86", "sm_90", "sm_90a"}) {
    for (bool isInvariant : {false, true}) {
      c.isInvariant = isInvariant;
      const target::Target &gpu = target::targetOf(name);
      llvm::Expected<std::string> ptx = emitTestPtx(textOf(c), emitOwn, gpu);
      ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
      EXPECT_TRUE(assembles(*ptx, gpu)) << name;
    }
  }
}

} // namespace
} // namespace tenon::codegen::cuda
