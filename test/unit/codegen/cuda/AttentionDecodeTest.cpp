// Attention of a step of decoding on the emulated GPU: keys behind the mask's last one are not
// read, and blocks of a cluster add up their parts.
#include "test/unit/codegen/cpu/AttentionText.h"
#include "test/unit/codegen/cuda/AttentionEmitters.h"

#include <limits>

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t kKeys = 520, kTile = 64;
/// Nine tiles over two blocks with two warps each.
constexpr AttentionTile kShared{.rowTiles = 1,
                                .rowWarps = 1,
                                .keyWarps = 2,
                                .keys = kTile,
                                .splits = 2,
                                .joinsHeads = true,
                                .stages = 3,
                                .isClustered = true,
                                .endsAtMask = true};

std::string decodeText(int64_t batch, const std::string &mask) {
  AttentionCase c = plainAttention("bf16", batch, 8, 1, kKeys, 64, 64, 2);
  c.mask = mask;
  return attentionText(c);
}

void fill(reference::Tensor &tensor, int64_t first, int64_t end, float value) {
  uint32_t bits = llvm::bit_cast<uint32_t>(value);
  uint16_t *elements = reinterpret_cast<uint16_t *>(tensor.mutableBytes());
  std::fill(elements + first, elements + end, static_cast<uint16_t>(bits >> 16));
}

/// The first `seen` keys of all rows of the mask are let through, the others have `rest`. With
/// `poisons`, what lies in the tiles behind is not a number for the kernels.
RunOptions seeing(int64_t seen, float rest, bool poisons) {
  RunOptions options;
  options.edit = [=](llvm::MutableArrayRef<reference::Tensor> inputs) {
    for (int64_t row = 0; row < inputs[3].count(); row += kKeys) {
      fill(inputs[3], row, row + seen, 0);
      fill(inputs[3], row + seen, row + kKeys, rest);
    }
  };
  if (poisons) {
    options.poison = [=](llvm::MutableArrayRef<reference::Tensor> inputs) {
      int64_t end = (seen + kTile - 1) / kTile * kTile;
      for (reference::Tensor &tensor : inputs.slice(1, 2)) {
        for (int64_t row = 0; row < tensor.count(); row += kKeys * 64) {
          fill(tensor, row + std::min(end, kKeys) * 64, row + kKeys * 64,
               std::numeric_limits<float>::quiet_NaN());
        }
      }
    };
  }
  return options;
}

constexpr float kNever = -std::numeric_limits<float>::infinity();

TEST(CudaAttentionDecodeTest, KeysBehindTheMaskAreNotRead) {
  std::string text = decodeText(1, "tensor<1x1x1x520xbf16>");
  for (int64_t seen : {1, 64, 65, 200, 519, 520}) {
    EXPECT_TRUE(matchesReference(text, emitTile(kShared), seeing(seen, kNever, true))) << seen;
  }
  EXPECT_TRUE(matchesReference(text, emitTile(kShared), seeing(200, -3e38f, true)));
  AttentionTile alone = kShared;
  alone.splits = 1;
  alone.isClustered = false;
  EXPECT_TRUE(matchesReference(text, emitTile(alone), seeing(200, kNever, true)));
  // What is added up by a second kernel, where there are no clusters.
  AttentionTile apart = kShared;
  apart.isClustered = false;
  EXPECT_TRUE(matchesReference(text, emitTile(apart), seeing(200, kNever, true)));
  RunOptions reversed = seeing(130, kNever, true);
  reversed.reversed = true;
  EXPECT_TRUE(matchesReference(text, emitTile(kShared), reversed));
}

/// One query at a position: keys in the tiles behind it are not numbers for the kernels.
TEST(CudaAttentionDecodeTest, KeysBehindTheStartAreNotRead) {
  AttentionCase c = plainAttention("bf16", 1, 8, 1, kKeys, 64, 64, 2);
  c.causal = true;
  c.start = "tensor<1xi64>";
  AttentionTile clustered = kShared;
  clustered.endsAtMask = false;
  AttentionTile apart = clustered;
  apart.isClustered = false;
  for (int64_t window : {0, 100}) {
    c.window = window;
    for (int64_t seen : {1, 64, 65, 200, 519, 520}) {
      RunOptions options = seeing(seen, 0, true);
      options.edit = [=](llvm::MutableArrayRef<reference::Tensor> inputs) {
        *reinterpret_cast<int64_t *>(inputs[3].mutableBytes()) = seen - 1;
      };
      EXPECT_TRUE(matchesReference(attentionText(c), emitTile(clustered), options)) << seen;
      EXPECT_TRUE(matchesReference(attentionText(c), emitTile(apart), options)) << seen;
    }
  }
}

/// Without a key that is let through, all count alike.
TEST(CudaAttentionDecodeTest, MasksThatLetNothingThrough) {
  std::string text = decodeText(1, "tensor<1x1x1x520xbf16>");
  EXPECT_TRUE(matchesReference(text, emitTile(kShared), seeing(0, -3e38f, false)));
  EXPECT_TRUE(matchesReference(text, emitTile(kShared), seeing(0, -1000, false)));
}

/// The tile that is chosen, for masks of every broadcast.
TEST(CudaAttentionDecodeTest, Chosen) {
  for (const char *mask :
       {"tensor<2x1x1x520xbf16>", "tensor<2x8x1x520xbf16>", "tensor<520xbf16>"}) {
    EXPECT_TRUE(matchesReference(decodeText(2, mask), emitChosen, seeing(130, kNever, false)))
        << mask;
  }
}

/// Rows and columns of which the blocks of a cluster have unequal shares, and many warps.
TEST(CudaAttentionDecodeTest, ClustersOfOtherShapes) {
  for (auto [heads, keyHeads, width, splits, warps] :
       {std::tuple(6, 2, 64, 8, 4), std::tuple(16, 1, 64, 2, 8), std::tuple(16, 1, 128, 2, 4),
        std::tuple(5, 1, 40, 4, 4)}) {
    AttentionTile tile = kShared;
    tile.splits = splits;
    tile.keyWarps = warps;
    tile.keys = warps * 16;
    tile.stages = 2;
    tile.endsAtMask = false;
    AttentionCase c = plainAttention("f16", 1, heads, 1, 300, width, width, keyHeads);
    EXPECT_TRUE(matchesReference(attentionText(c), emitTile(tile)));
  }
}

std::string varying(int64_t heads, const std::string &rows, const std::string &last) {
  std::string dims = "1x" + std::to_string(heads) + "x?x" + (last == "s1" ? "?" : last);
  std::string symbols = rows == "s1" || last == "s1" ? "s0, s1" : "s0";
  return "tensor<" + dims + "xbf16, #tn.shape<()[" + symbols + "] -> (1, " + std::to_string(heads) +
         ", " + rows + ", " + last + ")>>";
}

/// Many queries by warpgroups, and more of them by two that share keys, on both sides of the
/// borders: a GPU of few processors has enough blocks for them early.
TEST(CudaAttentionDecodeTest, RangesOfManyQueries) {
  AttentionCase c{varying(2, "s0", "64"), varying(1, "s1", "64"), varying(1, "s1", "64"),
                  varying(2, "s0", "64")};
  c.symbols = "#tn.symbol<\"s0\", 1, 300>, #tn.symbol<\"s1\", 1, 2048>";
  c.causal = true;
  c.start = "tensor<1xi64>";
  RunOptions options;
  options.gpu = target::targetOf("sm_90a");
  options.gpu.cores = 3;
  for (int64_t rows : {1, 17, 64, 65, 256, 257}) {
    options.symbols = {rows, rows + 30};
    options.edit = [](llvm::MutableArrayRef<reference::Tensor> inputs) {
      *reinterpret_cast<int64_t *>(inputs[3].mutableBytes()) = 29;
    };
    EXPECT_TRUE(matchesReference(attentionText(c), byFamily({"attention_buckets"}), options))
        << rows;
  }
  // One query, a few, a warpgroup, two; with more processors the first of the many have warps that
  // share keys, and none has two warpgroups.
  for (auto [cores, pairs] : {std::pair(3, 1U), std::pair(7, 0U)}) {
    options.gpu.cores = cores;
    llvm::Expected<std::string> ptx =
        emitTestPtx(attentionText(c), byFamily({"attention_buckets"}), options.gpu);
    ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
    EXPECT_EQ(llvm::StringRef(*ptx).count(".entry"), 4U);
    EXPECT_EQ(llvm::StringRef(*ptx).count(".reqntid 256"), pairs);
  }
}

/// Queries and keys that vary: each range of queries has its kernel, and none runs beside another.
TEST(CudaAttentionDecodeTest, QueriesThatVary) {
  std::string queries = varying(8, "s0", "64"), keys = varying(2, "s1", "64");
  AttentionCase c{queries, keys, keys, queries};
  c.symbols = "#tn.symbol<\"s0\", 1, 100>, #tn.symbol<\"s1\", 1, 600>";
  for (int form : {0, 1, 2}) {
    c.mask = form == 1 ? varying(1, "s0", "s1") : "";
    c.start = form == 2 ? "tensor<1xi64>" : "";
    c.causal = form == 2;
    for (auto [rows, seen] :
         {std::pair<int64_t, int64_t>(1, 1), {1, 300}, {2, 70}, {16, 20}, {17, 70}, {50, 70}}) {
      RunOptions options;
      options.symbols = {rows, seen};
      options.edit = [=](llvm::MutableArrayRef<reference::Tensor> inputs) {
        if (form == 2) {
          *reinterpret_cast<int64_t *>(inputs[3].mutableBytes()) = seen - rows - (seen > 200);
        }
      };
      EXPECT_TRUE(matchesReference(attentionText(c), byFamily({"attention_buckets"}), options))
          << rows << " by " << seen;
    }
  }
}

TEST(CudaAttentionDecodeTest, APlantedFaultIsFound) {
  AttentionTile readsAll = kShared;
  readsAll.endsAtMask = false;
  EXPECT_FALSE(matchesReference(decodeText(1, "tensor<1x1x1x520xbf16>"), emitTile(readsAll),
                                seeing(200, kNever, true)));
}

} // namespace
} // namespace tenon::codegen::cuda
