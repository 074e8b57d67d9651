// The attention strategy: layouts, masks of every broadcast, causal, grouped heads, dynamic
// lengths.
#include "test/unit/codegen/RegionCheck.h"
#include "test/unit/codegen/cpu/AttentionText.h"

#include <limits>

namespace tenon::codegen::cpu {
namespace {

AttentionCase plain(int64_t batch, int64_t heads, int64_t sq, int64_t sk, int64_t d, int64_t dv,
                    int64_t kvHeads = 0) {
  return plainAttention("f32", batch, heads, sq, sk, d, dv, kvHeads);
}

TEST(AttentionTest, Sizes) {
  EXPECT_TRUE(matchesReference(attentionText(plain(1, 1, 1, 1, 1, 1))));
  EXPECT_TRUE(matchesReference(attentionText(plain(2, 3, 17, 17, 16, 16)), {}, 4));
  EXPECT_TRUE(matchesReference(attentionText(plain(1, 2, 130, 130, 64, 64)), {}, 3));
  EXPECT_TRUE(matchesReference(attentionText(plain(1, 2, 5, 77, 24, 40)), {}, 3));
}

TEST(AttentionTest, SharedKeyHeads) {
  EXPECT_TRUE(matchesReference(attentionText(plain(2, 6, 9, 9, 8, 8, 2)), {}, 3));
}

TEST(AttentionTest, Causal) {
  for (auto [sq, sk] : {std::pair(70, 70), std::pair(3, 50), std::pair(100, 133)}) {
    AttentionCase c = plain(1, 2, sq, sk, 16, 32);
    c.causal = true;
    EXPECT_TRUE(matchesReference(attentionText(c), {}, 3));
  }
}

TEST(AttentionTest, Masks) {
  for (const char *mask :
       {"tensor<f32>", "tensor<19xf32>", "tensor<11x19xf32>", "tensor<11x1xf32>",
        "tensor<2x1x1x19xf32>", "tensor<2x3x11x19xf32>", "tensor<1x3x1x19xf32>"}) {
    AttentionCase c = plain(2, 3, 11, 19, 8, 8);
    c.mask = mask;
    EXPECT_TRUE(matchesReference(attentionText(c), {}, 3));
    c.causal = true;
    EXPECT_TRUE(matchesReference(attentionText(c)));
  }
}

/// The mask of a window of `size` keys up to each query: `hidden` for all others.
void makeWindow(reference::Tensor &mask, int64_t size, float hidden) {
  int64_t keys = mask.dims().back(), queries = mask.dims()[mask.rank() - 2];
  for (int64_t i = 0; i < mask.count(); ++i) {
    int64_t behind = i / keys % queries - i % keys;
    mask.as<float>()[i] = behind < 0 || behind >= size ? hidden : 0;
  }
}

TEST(AttentionTest, LongKeys) {
  // Several blocks of keys, the last of them short; one row and several of them read values in
  // place.
  for (auto [sq, sk] : {std::pair(1, 1301), std::pair(7, 1301), std::pair(70, 1301)}) {
    EXPECT_TRUE(matchesReference(attentionText(plain(1, 2, sq, sk, 24, 40)), {}, 3));
    EXPECT_TRUE(matchesReference(attentionText(plain(1, 6, sq, sk, 16, 64, 2)), {}, 3));
  }
}

TEST(AttentionTest, SharedKeyHeadsOfManyQueries) {
  AttentionCase c = plain(1, 6, 50, 70, 16, 32, 2);
  EXPECT_TRUE(matchesReference(attentionText(c), {}, 3));
  c.causal = true;
  EXPECT_TRUE(matchesReference(attentionText(c), {}, 3));
  std::string inner = "tensor<2x11x6x8xf32>", keys = "tensor<2x13x3x8xf32>";
  EXPECT_TRUE(matchesReference(
      attentionText({inner, keys, keys, inner, "tensor<2x6x11x13xf32>", "true, true, true, true"}),
      {}, 3));
}

TEST(AttentionTest, QueriesThatSeeNothing) {
  AttentionCase c = plain(1, 2, 90, 40, 16, 16);
  c.causal = true; // the first 50 come before all keys
  EXPECT_TRUE(matchesReference(attentionText(c), {}, 3));
}

TEST(AttentionTest, WindowsSkipBlocksOfKeys) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float hidden : {-infinity, std::numeric_limits<float>::lowest(), -10000.0f}) {
    for (const char *mask : {"tensor<1100x1100xf32>", "tensor<1x2x1100x1100xf32>"}) {
      AttentionCase c = plain(1, 2, 1100, 1100, 8, 8);
      c.mask = mask;
      EXPECT_TRUE(matchesReference(attentionText(c), {}, 3, 0,
                                   [&](auto &inputs) { makeWindow(inputs[3], 100, hidden); }));
    }
  }
}

/// A position in memory: before all keys, in several blocks of them, and so late that all are seen.
TEST(AttentionTest, StartsAndWindows) {
  for (const char *type : {"f32", "bf16", "f16"}) {
    for (auto [heads, keyHeads, queries] :
         {std::tuple(2, 2, 1), std::tuple(6, 2, 7), std::tuple(4, 2, 70)}) {
      AttentionCase c = plainAttention(type, 1, heads, queries, 1301, 24, 40, keyHeads);
      c.causal = true;
      c.start = "tensor<1xi64>";
      for (int64_t window : {0, 100, 700}) {
        c.window = window;
        for (int64_t start : {-100, 33, 1231}) {
          EXPECT_TRUE(
              matchesReference(attentionText(c), {}, 3, 0,
                               [&](auto &inputs) { *inputs[3].template as<int64_t>() = start; }))
              << type << " " << queries << " " << window << " " << start;
        }
      }
    }
  }
}

TEST(AttentionTest, WindowsWithoutAStart) {
  for (const char *type : {"f32", "f64"}) {
    for (auto [queries, keys] : {std::pair(70, 90), std::pair(30, 12)}) {
      AttentionCase c = plainAttention(type, 1, 2, queries, keys, 16, 8, 1);
      c.causal = true;
      c.window = 9;
      EXPECT_TRUE(matchesReference(attentionText(c), {}, 3));
      c.mask = "tensor<" + std::to_string(queries) + "x" + std::to_string(keys) + "x" + type + ">";
      EXPECT_TRUE(matchesReference(attentionText(c), {}, 3));
      c.start = "tensor<1xi32>";
      EXPECT_TRUE(matchesReference(attentionText(c), {}, 3, 0,
                                   [&](auto &inputs) { *inputs[4].template as<int32_t>() = 11; }));
    }
  }
}

/// Minus infinity for all keys of the first query, and of the last.
template <typename T> void hideRows(reference::Tensor &mask, T hidden) {
  int64_t keys = mask.dims().back();
  std::fill_n(mask.as<T>(), keys, hidden);
  std::fill_n(mask.as<T>() + mask.count() - keys, keys, hidden);
}

TEST(AttentionTest, MaskedRowsAreZerosOrNan) {
  for (bool areNan : {false, true}) {
    for (int keys : {40, 1100}) {
      AttentionCase c = plain(1, 2, 20, keys, 8, 8);
      c.mask = "tensor<20x" + std::to_string(keys) + "xf32>";
      c.maskedRowsAreNan = areNan;
      auto hide = [](auto &inputs) {
        hideRows(inputs[3], -std::numeric_limits<float>::infinity());
      };
      EXPECT_TRUE(matchesReference(attentionText(c), {}, 3, 0, hide));
      EXPECT_TRUE(matchesReference(attentionText(c), {}, 3, 0, [](auto &inputs) {
        hideRows(inputs[3], std::numeric_limits<float>::lowest());
      }));
      c = plainAttention("f64", 1, 2, 20, keys, 8, 8);
      c.mask = "tensor<20x" + std::to_string(keys) + "xf64>";
      c.maskedRowsAreNan = areNan;
      EXPECT_TRUE(matchesReference(attentionText(c), {}, 3, 0, [](auto &inputs) {
        hideRows(inputs[3], -std::numeric_limits<double>::infinity());
      }));
    }
    // No keys are no masked ones.
    std::string q = "tensor<1x4x?x16xf32, #tn.shape<()[s0] -> (1, 4, s0, 16)>>";
    std::string k = "tensor<1x2x?x16xf32, #tn.shape<()[s0, s1] -> (1, 2, s1, 16)>>";
    AttentionCase c{q, k, k, q};
    c.symbols = "#tn.symbol<\"s0\", 0, 4096>, #tn.symbol<\"s1\", 0, 4096>";
    c.maskedRowsAreNan = areNan;
    EXPECT_TRUE(matchesReference(attentionText(c), {2, 0}, 3));
    EXPECT_TRUE(matchesReference(attentionText(c), {5, 70}, 3));
  }
}

TEST(AttentionTest, HeadsInner) {
  std::string outer = "tensor<2x3x11x8xf32>", inner = "tensor<2x11x3x8xf32>";
  AttentionCase c{inner, inner, inner, inner, "tensor<2x1x1x11xf32>", "true, true, true, true"};
  EXPECT_TRUE(matchesReference(attentionText(c), {}, 3));
  EXPECT_TRUE(matchesReference(
      attentionText({outer, inner, outer, inner, "", "false, true, false, true"}), {}, 3));
}

TEST(AttentionTest, DynamicQueriesAndKeys) {
  std::string q = "tensor<1x4x?x16xf32, #tn.shape<()[s0] -> (1, 4, s0, 16)>>";
  std::string k = "tensor<1x2x?x16xf32, #tn.shape<()[s0, s1] -> (1, 2, s1, 16)>>";
  AttentionCase c{q,     k,
                  k,     q,
                  "",    "false, false, false, false",
                  false, "#tn.symbol<\"s0\", 0, 4096>, #tn.symbol<\"s1\", 0, 4096>"};
  for (bool causal : {false, true}) {
    c.causal = causal;
    for (auto [sq, sk] : {std::pair(1, 700), std::pair(5, 700), std::pair(90, 700), std::pair(3, 1),
                          std::pair(2, 0), std::pair(0, 4)}) {
      EXPECT_TRUE(matchesReference(attentionText(c), {sq, sk}, 3));
    }
  }
}

TEST(AttentionTest, HalvesAndBrains) {
  for (const char *type : {"f16", "bf16"}) {
    EXPECT_TRUE(
        matchesReference(attentionText(plainAttention(type, 1, 4, 1, 600, 24, 40, 2)), {}, 3));
    EXPECT_TRUE(matchesReference(attentionText(plainAttention(type, 1, 2, 80, 90, 16, 32)), {}, 3));
    // Heads, values and keys that fill no words.
    EXPECT_TRUE(matchesReference(attentionText(plainAttention(type, 1, 2, 7, 33, 15, 17)), {}, 3));
    EXPECT_TRUE(matchesReference(attentionText(plainAttention(type, 2, 2, 70, 1, 9, 70)), {}, 3));
  }
}

TEST(AttentionTest, DynamicBatchAndSequence) {
  std::string inner = "tensor<?x?x3x16xf32, #tn.shape<()[s0, s1] -> (s0, s1, 3, 16)>>";
  std::string mask = "tensor<?x1x1x?xf32, #tn.shape<()[s0, s1] -> (s0, 1, 1, s1)>>";
  AttentionCase c{inner, inner,
                  inner, inner,
                  mask,  "true, true, true, true",
                  false, "#tn.symbol<\"s0\", 1, 8>, #tn.symbol<\"s1\", 1, 512>"};
  for (bool causal : {false, true}) {
    c.causal = causal;
    EXPECT_TRUE(matchesReference(attentionText(c), {1, 1}));
    EXPECT_TRUE(matchesReference(attentionText(c), {3, 16}, 3));
    EXPECT_TRUE(matchesReference(attentionText(c), {2, 131}, 5));
    EXPECT_TRUE(matchesReference(attentionText(c), {1, 500}, 5));
  }
}

} // namespace
} // namespace tenon::codegen::cpu
