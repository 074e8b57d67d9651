// The table of weights: equal arrays once, generated ones made only when written, bools one a byte.
#include "compiler/plan/Weights.h"

#include "compiler/graph/ContentGenerator.h"
#include "compiler/graph/Winograd.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>

using namespace mlir;
using tenon::Bytes;
using tenon::Status;
using tenon::plan::WeightTable;
namespace tn = tenon::tn;

namespace {

class WeightsTest : public ::testing::Test {
protected:
  WeightsTest() { context.loadDialect<tn::TnDialect>(); }

  void parse(llvm::StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    for (Operation &op : *module->getBody()) {
      indices.push_back(table.add(&op));
    }
  }

  std::vector<char> read(uint32_t index, uint32_t rank = 0) {
    std::vector<char> bytes;
    Status status = table.source(2)(index, rank, [&](Bytes piece) {
      const char *data = reinterpret_cast<const char *>(piece.data());
      bytes.insert(bytes.end(), data, data + piece.size());
      return Status::ok();
    });
    EXPECT_TRUE(status.isOk()) << status.toString();
    EXPECT_EQ(bytes.size(), table.list()[index].bytes);
    return bytes;
  }

  MLIRContext context;
  tn::WeightStore store;
  WeightTable table{store};
  OwningOpRef<ModuleOp> module;
  std::vector<uint32_t> indices;
};

TEST_F(WeightsTest, EqualArraysAreHeldOnce) {
  store.addOwned("a", {1, 2, 3, 4}, "test");
  store.addOwned("b", {1, 2, 3, 4}, "test");
  store.addOwned("c", {1, 2, 3, 5}, "test");
  parse(R"(
    %a = tn.weight "a" : tensor<4xi8>
    %b = tn.weight "b" : tensor<4xi8>
    %c = tn.weight "c" : tensor<4xi8>
    %p = tn.pack %a outer_dims_perm = [0] inner_dims_pos = [0] inner_tiles = [32] : (tensor<4xi8>) -> tensor<1x32xi8>
  )");
  EXPECT_EQ(indices, (std::vector<uint32_t>{0, 0, 1, 2}));
  EXPECT_EQ(read(1), (std::vector<char>{1, 2, 3, 5}));
  std::vector<char> packed = read(2);
  EXPECT_EQ(std::vector<char>(packed.begin(), packed.begin() + 5),
            (std::vector<char>{1, 2, 3, 4, 0}));
  std::vector<tenon::plan::WeightForm> forms = table.forms();
  ASSERT_EQ(forms.size(), 2u);
  EXPECT_EQ(std::tuple(forms[0].arrays, forms[0].bytes, forms[0].sourceBytes),
            std::tuple(2u, 8u, 8u));
  // Made from a weight that the first form has counted.
  EXPECT_EQ(std::tuple(forms[1].arrays, forms[1].bytes, forms[1].sourceBytes),
            std::tuple(1u, 32u, 0u));
  std::vector<tenon::plan::WeightForm> alone = table.forms({2});
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].sourceBytes, 4u);
}

/// Element (y, x) of G g Gᵀ, its rows as graph/Winograd.h orders them.
double transformed(const float *taps, int64_t m, int64_t y, int64_t x) {
  auto factor = [&](int64_t row, int64_t tap) {
    if (row == m + 1) {
      return tap == 2 ? 1.0 : 0.0;
    }
    auto [point, divisor] = tenon::winograd::rowOf(m, row);
    return std::pow(point, tap) / divisor;
  };
  double sum = 0;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      sum += factor(y, i) * factor(x, j) * taps[i * 3 + j];
    }
  }
  return sum;
}

TEST_F(WeightsTest, DerivedWeightsAreMadeBeforeTheyArePacked) {
  constexpr int64_t kOutputs = 35, kInputs = 90; // of more than a block
  std::vector<float> weight(kOutputs * kInputs * 9);
  for (size_t i = 0; i < weight.size(); ++i) {
    weight[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  }
  std::vector<char> bytes(weight.size() * 4);
  std::memcpy(bytes.data(), weight.data(), bytes.size());
  store.addOwned("w", bytes, "test");
  store.addOwned("same", bytes, "test");
  store.addGenerated(
      "g", bytes.size(),
      [&](uint64_t begin, uint64_t size, char *out) {
        std::memcpy(out, bytes.data() + begin, size);
      },
      "test");
  parse(R"(
    %w = tn.weight "w" : tensor<35x90x3x3xf32>
    %f = tn.winograd_filter %w {m = 4 : i64} : (tensor<35x90x3x3xf32>) -> tensor<35x90x6x6xf32>
    %p = tn.pack %f outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [32] : (tensor<35x90x6x6xf32>) -> tensor<2x6x6x90x32xf32>
    %s = tn.weight "same" : tensor<35x90x3x3xf32>
    %sf = tn.winograd_filter %s {m = 4 : i64} : (tensor<35x90x3x3xf32>) -> tensor<35x90x6x6xf32>
    %s2 = tn.winograd_filter %s {m = 2 : i64} : (tensor<35x90x3x3xf32>) -> tensor<35x90x4x4xf32>
    %g = tn.weight "g" : tensor<35x90x3x3xf32>
    %gf = tn.winograd_filter %g {m = 4 : i64} : (tensor<35x90x3x3xf32>) -> tensor<35x90x6x6xf32>
    %gp = tn.pack %gf outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [32] : (tensor<35x90x6x6xf32>) -> tensor<2x6x6x90x32xf32>
  )");
  EXPECT_EQ(indices, (std::vector<uint32_t>{0, 1, 2, 0, 1, 3, 4, 5, 6}));
  std::vector<char> filters = read(1), packed = read(2);
  for (int64_t o = 0; o < kOutputs; ++o) {
    for (int64_t i = 0; i < kInputs; ++i) {
      for (int64_t place = 0; place < 36; ++place) {
        double expected = transformed(&weight[(o * kInputs + i) * 9], 4, place / 6, place % 6);
        float filter = 0, inPanel = 0;
        std::memcpy(&filter, filters.data() + ((o * kInputs + i) * 36 + place) * 4, 4);
        int64_t row = (o / 32 * 36 + place) * kInputs + i;
        std::memcpy(&inPanel, packed.data() + (row * 32 + o % 32) * 4, 4);
        ASSERT_NEAR(expected, filter, 1e-6) << o << ' ' << i << ' ' << place;
        ASSERT_EQ(filter, inPanel);
      }
    }
  }
  EXPECT_EQ(filters, read(5));
  EXPECT_EQ(packed, read(6));
  std::vector<tenon::plan::WeightForm> forms = table.forms({2});
  ASSERT_EQ(forms.size(), 1u);
  EXPECT_EQ(forms[0].name, "transformed for Winograd's filtering");
  EXPECT_EQ(forms[0].sourceBytes, bytes.size());
}

TEST_F(WeightsTest, PacksForDotProductsOfNeighbours) {
  constexpr int64_t kDepth = 70, kColumns = 45;
  std::vector<char> bytes(kDepth * kColumns);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 7 % 127 + 1);
  }
  store.addOwned("w", bytes, "test");
  parse(R"(
    %w = tn.weight "w" : tensor<70x45xi8>
    %four = tn.pack %w outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [16, 4] : (tensor<70x45xi8>) -> tensor<3x18x16x4xi8>
    %two = tn.pack %w outer_dims_perm = [0, 1] inner_dims_pos = [0] inner_tiles = [2] : (tensor<70x45xi8>) -> tensor<35x45x2xi8>
    %turned = tn.pack %w outer_dims_perm = [1, 0] : (tensor<70x45xi8>) -> tensor<45x70xi8>
  )");
  std::vector<char> four(3 * 18 * 16 * 4), two(bytes.size()), turned(bytes.size());
  for (int64_t k = 0; k < kDepth; ++k) {
    for (int64_t n = 0; n < kColumns; ++n) {
      char value = bytes[k * kColumns + n];
      four[((n / 16 * 18 + k / 4) * 16 + n % 16) * 4 + k % 4] = value;
      two[(k / 2 * kColumns + n) * 2 + k % 2] = value;
      turned[n * kDepth + k] = value;
    }
  }
  EXPECT_EQ(four, read(1));
  EXPECT_EQ(two, read(2));
  EXPECT_EQ(turned, read(3));
  std::vector<tenon::plan::WeightForm> forms = table.forms();
  ASSERT_EQ(forms.size(), 3u);
  EXPECT_EQ(forms[1].name, "with their dims in another order");
  EXPECT_EQ(forms[2].arrays, 2u);
}

TEST_F(WeightsTest, SamplesThatMatchAreNotEnough) {
  std::vector<char> first(10000, 7);
  std::vector<char> second = first;
  second[3000] = 8;
  store.addOwned("a", first, "test");
  store.addOwned("b", second, "test");
  parse(R"(
    %a = tn.weight "a" : tensor<10000xi8>
    %b = tn.weight "b" : tensor<10000xi8>
  )");
  EXPECT_EQ(indices, (std::vector<uint32_t>{0, 1}));
}

TEST_F(WeightsTest, GeneratedWeightsAreMadeWhenWritten) {
  int made = 0;
  store.addGenerated(
      "g", 3,
      [&](uint64_t, uint64_t, char *out) {
        ++made;
        std::copy_n("xyz", 3, out);
      },
      "seeded");
  parse(R"(
    %g = tn.weight "g" : tensor<3xi8>
    %h = tn.weight "g" : tensor<3xi8>
  )");
  EXPECT_EQ(indices, (std::vector<uint32_t>{0, 0}));
  EXPECT_EQ(made, 0);
  EXPECT_EQ(read(0), (std::vector<char>{'x', 'y', 'z'}));
  EXPECT_EQ(made, 1);
}

TEST_F(WeightsTest, RanksHaveBytesOfTheirOwn) {
  store.ranks = 2;
  store.addDerived(
      "p", 3,
      [&](uint64_t, uint64_t, char *out) { std::copy_n(&"abcxyz"[3 * store.rank], 3, out); },
      /*isOfRank=*/true, "parts");
  parse(R"(%p = tn.weight "p" : tensor<3xi8>)");
  EXPECT_EQ(table.list()[0].ranks, 2u);
  EXPECT_EQ(read(0), (std::vector<char>{'a', 'b', 'c'}));
  EXPECT_EQ(read(0, 1), (std::vector<char>{'x', 'y', 'z'}));
  EXPECT_TRUE(store.bytes("p").empty());
}

TEST_F(WeightsTest, LargeGeneratedWeightsAreMadeInParts) {
  constexpr uint64_t kBytes = (5 << 20) + 12;
  std::atomic<uint64_t> made = 0;
  store.addGenerated(
      "g", kBytes,
      [&](uint64_t begin, uint64_t size, char *out) {
        made += size;
        EXPECT_EQ(0u, begin % 4);
        for (uint64_t i = 0; i < size; i += 4) {
          uint32_t value = static_cast<uint32_t>((begin + i) / 4 * 2654435761u);
          std::memcpy(out + i, &value, 4);
        }
      },
      "seeded");
  parse(R"(
    %g = tn.weight "g" : tensor<1310723xi32>
  )");
  std::vector<char> bytes = read(0);
  ASSERT_EQ(kBytes, bytes.size());
  EXPECT_EQ(kBytes, made);
  for (uint64_t i = 0; i < kBytes / 4; ++i) {
    uint32_t value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    ASSERT_EQ(static_cast<uint32_t>(i * 2654435761u), value) << i;
  }
}

TEST_F(WeightsTest, GeneratedWeightsThatSayWhatTheyAreAreHeldOnce) {
  auto add = [&](llvm::StringRef name, std::string content) {
    store.addGenerated(name, 2,
                       tn::ContentGenerator{content,
                                            [content](uint64_t begin, uint64_t size, char *out) {
                                              std::copy_n(content.data() + begin, size, out);
                                            }},
                       "test");
  };
  add("a", "xy");
  add("b", "xy");
  add("c", "xz");
  parse(R"(
    %a = tn.weight "a" : tensor<2xi8>
    %b = tn.weight "b" : tensor<2xi8>
    %c = tn.weight "c" : tensor<2xi8>
  )");
  EXPECT_EQ(indices, (std::vector<uint32_t>{0, 0, 1}));
  EXPECT_EQ(read(1), (std::vector<char>{'x', 'z'}));
}

TEST_F(WeightsTest, LargeGeneratedWeightsArePackedInParts) {
  constexpr int64_t kRows = 45003, kColumns = 400; // two parts and some, the last panel not full
  auto at = [](uint64_t i) { return static_cast<char>(i * 2654435761u >> 24); };
  std::vector<char> bytes(kRows * kColumns);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = at(i);
  }
  std::atomic<uint64_t> made = 0;
  store.addOwned("w", bytes, "test");
  store.addGenerated(
      "g", bytes.size(),
      [&](uint64_t begin, uint64_t size, char *out) {
        made += size;
        for (uint64_t i = 0; i < size; ++i) {
          out[i] = at(begin + i);
        }
      },
      "test");
  parse(R"(
    %w = tn.weight "w" : tensor<45003x400xi8>
    %wp = tn.pack %w outer_dims_perm = [0, 1] inner_dims_pos = [1, 0] inner_tiles = [4, 32] : (tensor<45003x400xi8>) -> tensor<1407x100x4x32xi8>
    %wt = tn.pack %w outer_dims_perm = [1, 0] : (tensor<45003x400xi8>) -> tensor<400x45003xi8>
    %g = tn.weight "g" : tensor<45003x400xi8>
    %gp = tn.pack %g outer_dims_perm = [0, 1] inner_dims_pos = [1, 0] inner_tiles = [4, 32] : (tensor<45003x400xi8>) -> tensor<1407x100x4x32xi8>
    %gt = tn.pack %g outer_dims_perm = [1, 0] : (tensor<45003x400xi8>) -> tensor<400x45003xi8>
  )");
  EXPECT_TRUE(read(1) == read(4));
  EXPECT_EQ(bytes.size(), made);
  EXPECT_TRUE(read(2) == read(5));
}

TEST_F(WeightsTest, ConstantsOfBoolsAndSplats) {
  parse(R"(
    %a = tn.constant dense<[true, false, true]> : tensor<3xi1> : tensor<3xi1>
    %b = tn.constant dense<true> : tensor<2xi1> : tensor<2xi1>
    %c = tn.constant dense<258> : tensor<2xi16> : tensor<2xi16>
  )");
  EXPECT_EQ(read(0), (std::vector<char>{1, 0, 1}));
  EXPECT_EQ(read(1), (std::vector<char>{1, 1}));
  EXPECT_EQ(read(2), (std::vector<char>{2, 1, 2, 1}));
}

} // namespace
