// The attention strategy: layouts, masks of every broadcast, causal, grouped heads, dynamic
// lengths.
#include "AttentionText.h"
#include "RegionCheck.h"

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

TEST(AttentionTest, HeadsInner) {
  std::string outer = "tensor<2x3x11x8xf32>", inner = "tensor<2x11x3x8xf32>";
  AttentionCase c{inner, inner, inner, inner, "tensor<2x1x1x11xf32>", "true, true, true, true"};
  EXPECT_TRUE(matchesReference(attentionText(c), {}, 3));
  EXPECT_TRUE(matchesReference(
      attentionText({outer, inner, outer, inner, "", "false, true, false, true"}), {}, 3));
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
  }
}

} // namespace
} // namespace tenon::codegen::cpu
