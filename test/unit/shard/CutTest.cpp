// Cuts of small graphs: found, pinned, and equal to one rank when all ranks run. Relies on the
// reference interpreter in float64.
#include "compiler/graph/TnShard.h"
#include "compiler/pipeline/NumericCheck.h"
#include "compiler/shard/RunRanks.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

using namespace mlir;
using namespace tenon;
using namespace tenon::shard;

namespace {

/// Two layers of a decoder without positions: width 16, 4 heads of 4 with 2 key heads, inner 24.
std::string decoder(int layers) {
  std::string text = "module { func.func @main(%x0: tensor<5x16xf32>) -> tensor<5x32xf32> {\n";
  auto weight = [&](const std::string &name, const std::string &type) {
    text += "%" + name + " = tn.weight \"" + name + "\" : tensor<" + type + "xf32>\n";
  };
  for (int i = 0; i < layers; ++i) {
    std::string n = std::to_string(i);
    auto name = [&](const char *base) { return "%" + (base + n); };
    auto product = [&](const char *y, const char *x, const char *w, const std::string &in,
                       const std::string &matrix, const std::string &out) {
      weight(w + n, matrix);
      text += name(y) + " = tn.matmul " + name(x) + ", " + name(w) + " : (tensor<" + in +
              "xf32>, tensor<" + matrix + "xf32>) -> tensor<" + out + "xf32> loc(\"" + w + n +
              "\")\n";
    };
    weight("s" + n, "16");
    text += name("n") + " = tn.rms_norm " + name("x") + " scale " + name("s") +
            " {axis = 1 : i64, epsilon = 1.0e-05 : f64} : (tensor<5x16xf32>, tensor<16xf32>) -> "
            "tensor<5x16xf32>\n";
    product("q", "n", "wq", "5x16", "16x16", "5x16");
    product("k", "n", "wk", "5x16", "16x8", "5x8");
    product("v", "n", "wv", "5x16", "16x8", "5x8");
    for (auto [from, to, heads] : {std::tuple("q", "qh", 4), {"k", "kh", 2}, {"v", "vh", 2}}) {
      std::string h = std::to_string(heads);
      text += name(to) + " = tn.reshape " + name(from) + " : (tensor<5x" +
              std::to_string(heads * 4) + "xf32>) -> tensor<1x5x" + h + "x4xf32>\n";
    }
    text += name("a") + " = tn.attention " + name("qh") + ", " + name("kh") + ", " + name("vh") +
            " {scale = 0.5 : f64, causal = true, headsInner = array<i1: true, true, true, true>} : "
            "(tensor<1x5x4x4xf32>, tensor<1x5x2x4xf32>, tensor<1x5x2x4xf32>) -> "
            "tensor<1x5x4x4xf32>\n";
    text +=
        name("o") + " = tn.reshape " + name("a") + " : (tensor<1x5x4x4xf32>) -> tensor<5x16xf32>\n";
    product("p", "o", "wo", "5x16", "16x16", "5x16");
    text += name("r") + " = tn.add " + name("x") + ", " + name("p") +
            " : (tensor<5x16xf32>, tensor<5x16xf32>) -> tensor<5x16xf32>\n";
    product("g", "r", "wg", "5x16", "16x24", "5x24");
    product("u", "r", "wu", "5x16", "16x24", "5x24");
    text += name("sg") + " = tn.silu " + name("g") + " : tensor<5x24xf32>\n";
    text += name("m") + " = tn.mul " + name("sg") + ", " + name("u") +
            " : (tensor<5x24xf32>, tensor<5x24xf32>) -> tensor<5x24xf32>\n";
    product("d", "m", "wd", "5x24", "24x16", "5x16");
    text += "%x" + std::to_string(i + 1) + " = tn.add " + name("r") + ", " + name("d") +
            " : (tensor<5x16xf32>, tensor<5x16xf32>) -> tensor<5x16xf32>\n";
  }
  std::string last = "%x" + std::to_string(layers);
  weight("head", "16x32");
  text += "%logits = tn.matmul " + last +
          ", %head : (tensor<5x16xf32>, tensor<16x32xf32>) -> tensor<5x32xf32> loc(\"head\")\n";
  return text + "return %logits : tensor<5x32xf32> } }";
}

class CutTest : public ::testing::Test {
protected:
  void SetUp() override { context.loadDialect<func::FuncDialect, tn::TnDialect>(); }

  void parse(const std::string &text) {
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    uint64_t state = 1;
    module->walk([&](tn::WeightOp op) {
      RankedTensorType type = cast<RankedTensorType>(op.getY().getType());
      std::vector<char> bytes(type.getNumElements() * sizeof(float));
      for (int64_t i = 0; i < type.getNumElements(); ++i) {
        state = state * 6364136223846793005 + 1442695040888963407;
        float number = static_cast<float>(state >> 40) / (1 << 24) - 0.5F;
        std::memcpy(bytes.data() + i * sizeof(float), &number, sizeof(float));
      }
      op.setId(weights.addOwned(op.getId(), std::move(bytes), "test"));
    });
    graph.emplace(*module, weights);
  }

  /// Memory and messages so slow that all that can be cut is worth cutting.
  Result<Plan> search(int64_t ranks, const std::vector<Pin> &pins = {}) {
    part = *target::findPart("cuda", "h200");
    part.memoryBandwidth = 2e6;
    collectives.emplace(part);
    collectives->setShortest(200e-6);
    Symbols symbols;
    for (const tn::Symbol &symbol : tn::SymbolList(*module).symbols()) {
      symbols.push_back(symbol.min);
    }
    costs.emplace(*graph, part, *collectives, ranks, false, symbols);
    return searchCuts(*graph, *costs, ranks, pins);
  }

  std::map<std::string, MatrixCut> cutsOf(const Plan &plan) {
    std::map<std::string, MatrixCut> cuts;
    for (Operation *op : graph->operations()) {
      if (graph->matrixOf(op)) {
        cuts[cast<NameLoc>(op->getLoc()).getName().str()] =
            matrixCutOf(*graph, op, plan.strategies.find(op)->second);
      }
    }
    return cuts;
  }

  Result<RankCheck> check(const Plan &plan, const std::function<void(ModuleOp)> &edit = {}) {
    Result<OwningOpRef<ModuleOp>> cut = cutGraph(*module, *graph, plan);
    if (!cut) {
      return cut.takeStatus();
    }
    if (edit) {
      edit(**cut);
    }
    TENON_ASSIGN(std::vector<reference::Tensor> inputs, pipeline::seededInputs(*module));
    return checkRanks(*module, **cut, *graph, plan, weights, inputs);
  }

  MLIRContext context;
  tn::WeightStore weights;
  OwningOpRef<ModuleOp> module;
  std::optional<Graph> graph;
  target::Target part;
  std::optional<target::Collectives> collectives;
  std::optional<Costs> costs;
};

/// "2 x 48+16 on 2" for a dim that is twice such pieces.
std::string shown(const std::optional<Cut> &cut) {
  if (!cut) {
    return "none";
  }
  std::string text = std::to_string(cut->dim) + ":";
  text += cut->repeat > 1 ? " " + std::to_string(cut->repeat) + " x" : "";
  for (const Piece &piece : cut->pieces) {
    text += " " + std::to_string(piece.size);
    text += piece.copies > 1 ? " on " + std::to_string(piece.copies) : "";
  }
  return text;
}

TEST_F(CutTest, CutsGoThroughReshapes) {
  struct Row {
    std::vector<int64_t> from, to; ///< 0 stands for a free size
    Cut cut;
    int64_t ranks;
    const char *result;
  };
  const Row rows[] = {
      {{0, 48}, {0, 6, 8}, Cut::plain(1, 48), 2, "1: 6"},
      {{0, 6, 8}, {0, 48}, Cut::plain(1, 6), 3, "1: 48"},
      {{0, 40}, {0, 5, 8}, Cut::plain(1, 40), 2, "none"}, // heads would be cut apart
      {{0, 6, 8}, {0, 48}, Cut::plain(2, 8), 2, "1: 6 x 8"},
      {{0, 3, 6, 8}, {0, 144}, Cut::plain(2, 6), 2, "1: 3 x 48"},
      {{0, 144}, {0, 3, 6, 8}, {1, 3, {{48, 1}}}, 3, "2: 6"},
      {{0, 144}, {0, 6, 3, 8}, Cut::plain(1, 144), 2, "1: 6"},
      {{0, 64}, {0, 8, 8}, {1, 1, {{32, 1}, {16, 2}, {16, 2}}}, 4, "1: 4 2 on 2 2 on 2"},
      {{1, 0, 6, 8}, {0, 48}, Cut::plain(2, 6), 2, "1: 48"},
      {{0, 48}, {0, 48, 1}, Cut::plain(1, 48), 2, "1: 48"},
      {{6, 0, 8}, {0, 48}, Cut::plain(0, 6), 2, "none"},
  };
  for (const Row &row : rows) {
    tn::Dims from, to;
    auto dims = [&](const std::vector<int64_t> &sizes, tn::Dims &made) {
      for (int64_t size : sizes) {
        made.push_back(size == 0 ? getAffineSymbolExpr(0, &context)
                                 : getAffineConstantExpr(size, &context));
      }
    };
    dims(row.from, from);
    dims(row.to, to);
    EXPECT_EQ(shown(cutThroughReshape(from, to, row.cut, row.ranks)), row.result);
  }
}

TEST_F(CutTest, RanksHaveTheirChunksOfEachPiece) {
  Cut cut{0, 1, {{8, 1}, {4, 2}}};
  std::vector<std::vector<int64_t>> firsts;
  for (int64_t rank = 0; rank < 4; ++rank) {
    firsts.emplace_back();
    for (const Chunk &chunk : chunksOf(cut, 4, rank)) {
      firsts.back().insert(firsts.back().end(), {chunk.first, chunk.count});
    }
  }
  EXPECT_EQ(firsts, (std::vector<std::vector<int64_t>>{
                        {0, 2, 8, 2}, {2, 2, 8, 2}, {4, 2, 10, 2}, {6, 2, 10, 2}}));
  EXPECT_EQ(cut.sizeOfRank(4), 4);
  EXPECT_EQ(cut.sizeOfRank(3), std::nullopt);
}

const std::vector<std::pair<const char *, MatrixCut>> kMegatron = {
    {"wq", MatrixCut::Columns}, {"wk", MatrixCut::Columns}, {"wv", MatrixCut::Columns},
    {"wo", MatrixCut::Rows},    {"wg", MatrixCut::Columns}, {"wu", MatrixCut::Columns},
    {"wd", MatrixCut::Rows}};

TEST_F(CutTest, TheSearchFindsTheCutsThatAreKnown) {
  parse(decoder(2));
  Result<Plan> plan = search(2);
  ASSERT_TRUE(plan) << plan.status().toString();
  std::map<std::string, MatrixCut> cuts = cutsOf(*plan);
  for (const char *layer : {"0", "1"}) {
    for (auto [name, cut] : kMegatron) {
      EXPECT_EQ(cuts[name + std::string(layer)], cut) << name << layer;
    }
  }
  EXPECT_EQ(cuts["head"], MatrixCut::Columns);
  Result<RankCheck> checked = check(*plan);
  ASSERT_TRUE(checked) << checked.status().toString();
  EXPECT_LE(checked->difference, kRankTolerance);
  EXPECT_EQ(checked->collectives, 5); // two a layer, and the logits
}

TEST_F(CutTest, PinnedCutsAreKept) {
  parse(decoder(2));
  std::vector<Pin> pins;
  for (auto [name, cut] : kMegatron) {
    pins.push_back(
        {name + std::string("*"), cut == MatrixCut::Rows ? Pin::Kind::Row : Pin::Kind::Column});
  }
  Result<Plan> pinned = search(2, pins), found = search(2);
  ASSERT_TRUE(pinned) << pinned.status().toString();
  ASSERT_TRUE(found);
  EXPECT_EQ(cutsOf(*pinned), cutsOf(*found));
  Result<Plan> other = search(2, {{"wq0", Pin::Kind::Replicate}, {"wd1", Pin::Kind::Column}});
  ASSERT_TRUE(other) << other.status().toString();
  EXPECT_EQ(cutsOf(*other)["wq0"], MatrixCut::Whole);
  EXPECT_EQ(cutsOf(*other)["wd1"], MatrixCut::Columns);
  Result<RankCheck> checked = check(*other);
  ASSERT_TRUE(checked) << checked.status().toString();
  EXPECT_LE(checked->difference, kRankTolerance);
}

TEST_F(CutTest, FourRanksRepeatTwoKeyHeads) {
  parse(decoder(2));
  Result<Plan> plan = search(4);
  ASSERT_TRUE(plan) << plan.status().toString();
  int repeated = 0;
  for (Operation *op : graph->operations()) {
    const State &state = plan->strategies.find(op)->second.results[0];
    repeated += isa<tn::MatmulOp>(op) && state.isSplit() && state.cut.pieces[0].copies == 2;
  }
  EXPECT_EQ(repeated, 4); // keys and values of two layers
  Result<RankCheck> checked = check(*plan);
  ASSERT_TRUE(checked) << checked.status().toString();
  EXPECT_LE(checked->difference, kRankTolerance);
}

TEST_F(CutTest, ThreeRanksLeaveFourHeadsWhole) {
  parse(decoder(2));
  Result<Plan> plan = search(3);
  ASSERT_TRUE(plan) << plan.status().toString();
  EXPECT_EQ(cutsOf(*plan)["wg0"], MatrixCut::Columns);
  EXPECT_EQ(cutsOf(*plan)["wd0"], MatrixCut::Rows);
  Result<RankCheck> checked = check(*plan);
  ASSERT_TRUE(checked) << checked.status().toString();
  EXPECT_LE(checked->difference, kRankTolerance);
  Result<Plan> pinned = search(3, {{"wq0", Pin::Kind::Column}});
  ASSERT_FALSE(pinned);
  EXPECT_EQ(pinned.status().id(), ErrorId::BadArgument);
}

/// What would be wrong is found: each kind of fault, put into a right graph.
TEST_F(CutTest, AWrongCutIsFound) {
  parse(decoder(2));
  Result<Plan> plan = search(2);
  ASSERT_TRUE(plan);
  using Edit = std::function<void(ModuleOp)>;
  const std::vector<std::pair<const char *, Edit>> faults = {
      {"a sum that is left out",
       [](ModuleOp cut) {
         tn::AllReduceOp first;
         cut.walk([&](tn::AllReduceOp op) { first = first ? first : op; });
         first.getY().replaceAllUsesWith(first.getX());
       }},
      {"rows of another rank",
       [](ModuleOp cut) {
         tn::RankSliceOp last;
         cut.walk([&](tn::RankSliceOp op) { last = op.getDim() == 0 ? op : last; });
         int64_t size = last.getSizes()[0];
         last.setSizes({size / 2});
         last.setRepeat(2);
       }},
      {"columns that are gathered in another order", [](ModuleOp cut) {
         tn::AllGatherOp last;
         cut.walk([&](tn::AllGatherOp op) { last = op; });
         int64_t size = last.getSizes()[0];
         last.setSizes({size / 2});
         last.setRepeat(2);
       }}};
  for (const auto &[what, edit] : faults) {
    Result<RankCheck> checked = check(*plan, edit);
    ASSERT_TRUE(checked) << checked.status().toString();
    EXPECT_GT(checked->difference, 1e-3) << what;
  }
}

} // namespace
