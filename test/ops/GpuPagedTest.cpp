// Pages on the emulated GPU: beside the reference, and each token's result beside that of the same
// token in other steps.
#include "test/ops/PagedModule.h"
#include "test/unit/codegen/emulator/EmulatedRegion.h"
#include "test/unit/codegen/emulator/TensorModel.h"

#include <array>
#include <cstring>

namespace tenon::ops {
namespace {

RegionRunner runOn(const target::Target &gpu) {
  return [&gpu](const codegen::RegionSource &source, ArrayRef<reference::Tensor> operands,
                const Tensors &results, const std::vector<int64_t> &symbols) -> Result<Tensors> {
    llvm::Expected<Tensors> outputs = codegen::cuda::runEmulated(
        source.text, operands, results, symbols, /*reversed=*/false, /*status=*/nullptr, gpu);
    if (!outputs) {
      return Status::error(ErrorId::InternalError, llvm::toString(outputs.takeError()));
    }
    return std::move(*outputs);
  };
}

std::string nameOf(const testing::TestParamInfo<Heads> &info) {
  return std::string(info.param.dtype) + "_" + std::to_string(info.param.width) + "_" +
         std::to_string(info.param.valueWidth) + (info.param.window > 0 ? "_window" : "");
}

class GpuPagedTest : public testing::TestWithParam<Heads> {};

/// Many tokens; then some, and few: each has a kernel of its own where there are two heads of keys.
const StepOf kMany = {{0, 0, 37}, {1, 129, 1}, {2, 100, 30}, {3, 0, 1}};
const StepOf kFewer[] = {{{2, 110, 20}, {0, 20, 17}, {3, 0, 1}}, {{0, 36, 1}}};

/// And a token's bits are those that it has in another step.
TEST_P(GpuPagedTest, AgreesWithTheReference) {
  const target::Target &gpu = target::targetOf("sm_90a");
  RegionRunner runPages = runOn(gpu);
  PagedModule module(GetParam(), gpu);
  ASSERT_TRUE(module.isMade) << module.diagnostics;
  Rows expected = module.run(kMany, runPages);
  ASSERT_EQ(size_t(69), expected.size()) << module.problem;
  EXPECT_TRUE(module.agrees(kMany, expected));
  // The detector: another position has other bits.
  EXPECT_TRUE(expected.at({2, 110}) != expected.at({2, 111}));
  // Room for more: tokens of no sequence have zeros, and a sequence may have none.
  module.padding = 2;
  const StepOf padded = {{1, 129, 1}, {4, 0, 0}, {0, 36, 1}};
  EXPECT_TRUE(module.agrees(padded, module.run(padded, runPages)));
  module.padding = 0;
  for (const StepOf &step : kFewer) {
    for (const auto &[key, bytes] : module.run(step, runPages)) {
      EXPECT_TRUE(expected.at(key) == bytes)
          << "sequence " << key.first << ", position " << key.second;
    }
  }
}

/// Invariant models, with wgmma where heads are 64 or 128 wide.
class InvariantPagedTest : public testing::TestWithParam<Heads> {};

Heads invariant(Heads heads) {
  heads.isInvariant = true;
  return heads;
}

/// Chunks of many tokens, around the ends of parts of keys. 16 tokens behind 16 parts have so many
/// numbers that another order would show in some, rounded to 16 bits as they are.
const StepOf kChunks = {{1, 986, 16}, {3, 494, 8}, {0, 60, 70}};
/// Few, so few that blocks share keys, and alone.
const StepOf kShares[] = {{{1, 986, 16}, {3, 494, 8}, {0, 60, 10}, {4, 0, 6}},
                          {{1, 986, 16}},
                          {{1, 1000, 1}},
                          {{0, 128, 1}}};

/// Whether the tokens that steps have in common with others have the same bits.
void expectSameBits(PagedModule &module, const RegionRunner &runner, const Rows &expected,
                    ArrayRef<StepOf> steps) {
  for (const StepOf &step : steps) {
    size_t compared = 0;
    for (const auto &[key, bytes] : module.run(step, runner)) {
      auto found = expected.find(key);
      if (found != expected.end()) {
        ++compared;
        EXPECT_TRUE(found->second == bytes)
            << "sequence " << key.first << ", position " << key.second;
      }
    }
    EXPECT_GT(compared, size_t(0)) << module.problem;
  }
}

/// A token's bits are those that it has alone, beside few others and in chunks.
TEST_P(InvariantPagedTest, BitsDoNotDependOnTheStep) {
  const target::Target &gpu = target::targetOf("sm_90a");
  RegionRunner runPages = runOn(gpu);
  PagedModule module(invariant(GetParam()), gpu);
  ASSERT_TRUE(module.isMade) << module.diagnostics;
  Rows expected = module.run(kChunks, runPages);
  ASSERT_EQ(size_t(94), expected.size()) << module.problem;
  expectSameBits(module, runPages, expected, kShares);
}

/// Nor where two warpgroups share keys, which a GPU of so few processors has work for.
TEST(InvariantPagedOrderTest, TwoWarpgroupsChangeNoBits) {
  target::Target gpu = target::targetOf("sm_90a");
  gpu.cores = 4;
  RegionRunner runPages = runOn(gpu);
  PagedModule module(invariant({"f16", 1, 1, 64, 64}), gpu);
  ASSERT_TRUE(module.isMade) << module.diagnostics;
  Rows expected = module.run({{0, 0, 1024}}, runPages);
  ASSERT_EQ(size_t(1024), expected.size()) << module.problem;
  expectSameBits(module, runPages, expected, {StepOf{{0, 440, 70}}, {{0, 984, 40}}});
}

INSTANTIATE_TEST_SUITE_P(
    Heads, InvariantPagedTest,
    testing::Values(Heads{"f16", 4, 2, 64, 64}, Heads{"f16", 1, 1, 64, 64, 100, 3},
                    Heads{"bf16", 1, 1, 128, 128}, Heads{"f16", 1, 1, 136, 136, 70, 5},
                    Heads{"f32", 2, 1, 80, 72, 17}, Heads{"bf16", 1, 1, 66, 40, 90, 3}),
    nameOf);

/// How a row's sums are added up.
enum class Added { InOrder, Backwards, WithOneMaximum };

/// A row of a head of one sequence by a plain program of the stated order: parts of 64 keys, each
/// with a maximum and sums of its own; or of what a kernel might do instead.
class RowModel {
public:
  RowModel(const Heads &heads, int64_t sequence, int64_t position, int64_t head)
      : width(heads.width), keys(position + 1), factor(float(1 / std::sqrt(double(width)) * kLog2)),
        q(numbers(0, sequence, position, head)) {
    for (int64_t key = 0; key < keys; ++key) {
      int64_t keyHead = head / (heads.heads / heads.keyHeads);
      k.push_back(numbers(1, sequence, key, keyHead));
      v.push_back(numbers(2, sequence, key, keyHead));
    }
  }

  std::vector<uint16_t> result(Added how) const {
    Sums all{-0x1p100f, 0, std::vector<float>(width)};
    int64_t parts = (keys + kPart - 1) / kPart;
    for (int64_t i = 0; i < parts; ++i) {
      Sums part = sumsOf(how == Added::Backwards ? parts - 1 - i : i,
                         how == Added::WithOneMaximum ? all.maximum : -0x1p100f);
      float maximum = std::max(all.maximum, part.maximum);
      float before = power((all.maximum - maximum) * factor),
            own = power((part.maximum - maximum) * factor);
      all.maximum = maximum;
      all.total = std::fma(part.total, own, all.total * before);
      for (int64_t c = 0; c < width; ++c) {
        all.columns[c] = std::fma(part.columns[c], own, all.columns[c] * before);
      }
    }
    std::vector<uint16_t> rounded;
    for (float column : all.columns) {
      rounded.push_back(toHalf(column * (1 / all.total)));
    }
    return rounded;
  }

private:
  struct Sums {
    float maximum, total;
    std::vector<float> columns;
  };
  static constexpr int64_t kPart = 64;
  static constexpr double kLog2 = 1.4426950408889634;

  static uint16_t toHalf(float number) { return codegen::cuda::toHalf(number, false); }
  static float rounded(float number) { return codegen::cuda::fromHalf(toHalf(number), false); }
  static float power(float exponent) { return std::exp2(exponent); }
  std::vector<float> numbers(int64_t kind, int64_t sequence, int64_t position, int64_t head) const {
    std::vector<float> all;
    for (int64_t c = 0; c < width; ++c) {
      all.push_back(rounded(float(numberOf(kind, sequence, position, head * width + c))));
    }
    return all;
  }

  Sums sumsOf(int64_t part, float least) const {
    Sums sums{least, 0, std::vector<float>(width)};
    int64_t first = part * kPart, end = std::min(keys, first + kPart);
    std::vector<float> scores;
    for (int64_t key = first; key < end; ++key) {
      float score = 0;
      for (int64_t c = 0; c < width; ++c) {
        score += q[c] * k[key][c];
      }
      scores.push_back(score);
      sums.maximum = std::max(sums.maximum, score);
    }
    // A lane adds up two neighbouring keys of each eight.
    std::array<float, 4> totals = {};
    for (int64_t i = 0; i < end - first; ++i) {
      float weight = power(std::fma(scores[i], factor, -(sums.maximum * factor)));
      totals[i % 8 / 2] += weight;
      for (int64_t c = 0; c < width; ++c) {
        sums.columns[c] += rounded(weight) * v[first + i][c];
      }
    }
    sums.total = (totals[0] + totals[1]) + (totals[2] + totals[3]);
    return sums;
  }

  int64_t width, keys;
  float factor;
  std::vector<float> q;
  std::vector<std::vector<float>> k, v;
};

/// The kernels of many tokens and of few add up in the stated order; others would be found.
TEST(InvariantPagedOrderTest, PartsOfKeysAreAddedInTheirOrder) {
  Heads heads = invariant({"f16", 2, 1, 64, 64});
  const target::Target &gpu = target::targetOf("sm_90a");
  RegionRunner runPages = runOn(gpu);
  PagedModule module(heads, gpu);
  ASSERT_TRUE(module.isMade) << module.diagnostics;
  // Many tokens, few, and so few that blocks share keys.
  for (const StepOf &step : {StepOf{{1, 500, 66}}, {{1, 526, 40}}, {{1, 550, 16}}}) {
    Rows rows = module.run(step, runPages);
    ASSERT_FALSE(rows.empty()) << module.problem;
    std::map<Added, size_t> others;
    for (const auto &[key, bytes] : rows) {
      for (int64_t head = 0; head < heads.heads; ++head) {
        RowModel row(heads, key.first, key.second, head);
        std::vector<uint16_t> actual(heads.valueWidth);
        memcpy(actual.data(), bytes.data() + head * heads.valueWidth * 2, heads.valueWidth * 2);
        EXPECT_EQ(row.result(Added::InOrder), actual) << "position " << key.second;
        for (Added how : {Added::Backwards, Added::WithOneMaximum}) {
          others[how] += row.result(how) != actual;
        }
      }
    }
    EXPECT_GT(others[Added::Backwards], size_t(0)) << rows.size();
    EXPECT_GT(others[Added::WithOneMaximum], size_t(0)) << rows.size();
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, GpuPagedTest,
                         testing::Values(Heads{"bf16", 4, 2, 64, 64},
                                         Heads{"f32", 2, 1, 80, 72, 17},
                                         Heads{"f16", 2, 1, 80, 40, 70},
                                         Heads{"bf16", 1, 1, 66, 40, 90, 3},
                                         Heads{"f16", 1, 1, 136, 136, 0, 5}),
                         nameOf);

} // namespace
} // namespace tenon::ops
