// Regions of which one size varies: at each size the kernel that an engine of that size has, or one
// that is predicted to take as long; results on the emulated GPU at the borders of ranges; and
// which steps have work for a size.
#include "compiler/codegen/cuda/gemm/SizeBuckets.h"
#include "compiler/codegen/cuda/gemm/RowBuckets.h"
#include "engine/Expr.h"
#include "test/unit/codegen/cuda/ConvText.h"
#include "test/unit/codegen/cuda/OpenedRegion.h"

namespace tenon::codegen::cuda {
namespace {

const target::Target &kGpu = target::targetOf("sm_90a");

/// Of a batch of dims with a factor for what lies together in the first one.
std::string batched(const Numbers &dims, const std::string &type = "f16", int64_t factor = 1) {
  std::string text = "tensor<?x", shape = factor == 1 ? "(s0" : "(s0 * " + std::to_string(factor);
  for (int64_t dim : dims) {
    text += std::to_string(dim) + "x";
    shape += ", " + std::to_string(dim);
  }
  return text + type + ", #tn.shape<()[s0] -> " + shape + ")>>";
}

std::string symbol(int64_t most) { return "#tn.symbol<\"s0\", 1, " + std::to_string(most) + ">"; }

std::string convOf(int64_t size, int64_t channels, int64_t outChannels, int64_t most = 65536) {
  std::string x = batched({size, size, channels}), y = batched({size, size, outChannels}),
              w = plainTensor({outChannels, channels, 3, 3}, "f16");
  return regionText("contraction", "(%x: " + x + ", %w: " + w + " {tn.constant}) -> " + y,
                    "%0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, "
                    "1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (" +
                        x + ", " + w + ") -> " + y + "\n%1 = tn.relu %0 : " + y +
                        "\nreturn %1 : " + y,
                    symbol(most));
}

/// Of `rows` rows an image.
std::string productOf(int64_t rows, int64_t depth, int64_t columns, int64_t most = 65536,
                      const std::string &epilogue = "relu") {
  std::string a = batched({depth}, "f16", rows), y = batched({columns}, "f16", rows),
              b = plainTensor({columns, depth}, "f16");
  return regionText("contraction", "(%a: " + a + ", %b: " + b + " {tn.constant}) -> " + y,
                    "%0 = tn.matmul %a, %b {transposeB} : (" + a + ", " + b + ") -> " + y +
                        "\n%1 = tn." + epilogue + " %0 : " + y + "\nreturn %1 : " + y,
                    symbol(most));
}

std::string normOf(int64_t rows, int64_t width, int64_t most = 65536) {
  std::string x = batched({width}, "f16", rows), s = plainTensor({width}, "f16");
  return regionText("rows", "(%x: " + x + ", %s: " + s + ", %t: " + s + ") -> " + x,
                    "%0 = tn.layer_norm %x scale %s bias %t {axis = 1 : i64, epsilon = 1.0e-05 : "
                    "f64} : (" +
                        x + ", " + s + ", " + s + ") -> " + x + "\nreturn %0 : " + x,
                    symbol(most));
}

std::string attentionOf(int64_t heads, int64_t length, int64_t most = 65536) {
  std::string x = batched({heads, length, 64});
  return regionText("attention", "(%q: " + x + ", %k: " + x + ", %v: " + x + ") -> " + x,
                    "%0 = tn.attention %q, %k, %v {scale = 0.125 : f64, causal = false, headsInner "
                    "= array<i1: false, false, false, false>} : (" +
                        x + ", " + x + ", " + x + ") -> " + x + "\nreturn %0 : " + x,
                    symbol(most));
}

/// A region with its buckets.
struct Bucketed : OpenedRegion {
  explicit Bucketed(const std::string &text, bool calls = true) : OpenedRegion(text, kGpu) {
    MatchResult<SizeBuckets> found = sizeBucketsOf(*region, calls);
    why = found.why();
    if (found) {
      buckets = *found;
    }
  }

  const dispatch::KernelChoice &at(int64_t size) const {
    auto isIn = [&](const SizeRange &sizes) { return size >= sizes.least && size <= sizes.most; };
    return llvm::find_if(
               buckets.buckets,
               [&](const SizeBucket &bucket) { return llvm::any_of(bucket.ranges, isIn); })
        ->kernel;
  }

  /// What a kernel is predicted to take over that of an engine of this size alone.
  double ratio(int64_t size, const dispatch::KernelChoice &kernel) {
    SubRegion alone = narrowed(region->source, 0, {size, size});
    RegionBuilder own(alone.function(), "", kGpu);
    llvm::Expected<dispatch::KernelSelection> fixed = kernelFamilies().select(own, {});
    return predictedMicroseconds(alone.function(), kernel, kGpu) / fixed->microseconds;
  }

  SizeBuckets buckets;
  std::string why;
};

constexpr double kAsFixed = 1.05;

/// At each size, not only at the last one of its range, the kernel is that of an engine of this
/// size, or as fast.
TEST(CudaSizeBucketsTest, EachSizeHasItsKernel) {
  for (const std::string &text :
       {convOf(7, 512, 512), convOf(14, 256, 256), productOf(784, 192, 32),
        productOf(3136, 24, 144), productOf(49, 160, 960), normOf(128, 768), attentionOf(12, 128),
        attentionOf(12, 197)}) {
    Bucketed bucketed(text);
    ASSERT_GT(bucketed.buckets.buckets.size(), size_t(1)) << bucketed.why << text;
    double worstOfOne = 0;
    for (int64_t size = 1; size <= 128; ++size) {
      EXPECT_LE(bucketed.ratio(size, bucketed.at(size)), kAsFixed) << size << " of " << text;
      worstOfOne = std::max(worstOfOne, bucketed.ratio(size, bucketed.at(64)));
    }
    EXPECT_GT(worstOfOne, kAsFixed) << "one kernel for all sizes would do: " << text;
  }
}

TEST(CudaSizeBucketsTest, IsRightAtBorders) {
  const Emitter emitOwn = byFamily({"size_buckets_generated"});
  for (const std::string &text :
       {convOf(5, 16, 40, 24), normOf(16, 256, 70), productOf(600, 16, 40, 8, "silu")}) {
    Bucketed bucketed(text, /*calls=*/false);
    ASSERT_GT(bucketed.buckets.buckets.size(), size_t(1)) << bucketed.why << text;
    for (const SizeBucket &bucket : bucketed.buckets.buckets) {
      for (int64_t size : {bucket.whole().least, bucket.whole().most}) {
        RunOptions options;
        options.inputScale = 1;
        options.symbols = {size};
        options.gpu = kGpu;
        EXPECT_TRUE(matchesReference(text, emitOwn, options)) << size << " of " << text;
      }
    }
  }
}

/// The steps that have blocks, or rows for a call.
std::vector<size_t> working(const std::vector<RegionStep> &steps, int64_t size) {
  std::vector<size_t> numbers;
  for (auto [i, step] : llvm::enumerate(steps)) {
    const Program &work = step.call.empty() ? step.grid : step.sizes.front();
    if (*engine::evaluate(work, std::vector<int64_t>{size}) > 0) {
      numbers.push_back(i);
    }
  }
  return numbers;
}

/// The step of one bucket has blocks, or rows for a call, and all others have none.
TEST(CudaSizeBucketsTest, OneBucketHasWork) {
  bool hasCall = false;
  for (const std::string &text : {attentionOf(12, 197), productOf(3136, 144, 24)}) {
    Bucketed bucketed(text);
    ASSERT_TRUE(succeeded(kernelFamilies().emit(*bucketed.region, {kSizeBuckets.name.str(), {}})));
    const std::vector<RegionStep> &steps = bucketed.region->code.steps;
    ASSERT_EQ(steps.size(), bucketed.buckets.buckets.size());
    ASSERT_GT(steps.size(), size_t(1));
    for (auto [i, bucket] : llvm::enumerate(bucketed.buckets.buckets)) {
      for (const SizeRange &sizes : bucket.ranges) {
        EXPECT_EQ(working(steps, sizes.least), std::vector<size_t>{i}) << sizes.least;
        EXPECT_EQ(working(steps, sizes.most), std::vector<size_t>{i}) << sizes.most;
      }
    }
    hasCall |= llvm::any_of(steps, [](const RegionStep &step) { return !step.call.empty(); });
  }
  EXPECT_TRUE(hasCall);
}

TEST(CudaSizeBucketsTest, RefusesWhatHasOneKernel) {
  EXPECT_EQ(Bucketed(convOf(7, 512, 512, 1)).why, "it is compiled for a range of its size");
  // Two sizes vary.
  EXPECT_EQ(
      Bucketed(
          convText(
              {.images = 1, .in = {7, 9}, .taps = {3, 3}, .pads = {1, 1, 1, 1}, .isDynamic = true}))
          .why,
      "it is not a region of which one size varies, as the first dim");
}

} // namespace
} // namespace tenon::codegen::cuda
