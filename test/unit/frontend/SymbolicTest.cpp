// Shape computations of a model become expressions over its symbols and leave no operations behind.
// Relies on the printed form of `tn` types.
#include "test/unit/frontend/ImportFixture.h"
#include "test/unit/frontend/ModelBytes.h"

namespace tenon::onnx::test {
namespace {

using Symbolic = ImportFixture;

const Message kBatchSeq = valueInfo("x", kFloat, {std::string("batch"), std::string("seq"), 12});

TEST_F(Symbolic, ReshapeByShapeOfInputKeepsSymbols) {
  // Reshape(x, Concat(Gather(Shape(x), 0), [-1], [3], [4]))
  std::string text = moduleOf(
      model(graph({{node("Shape", {"x"}, {"shape"}), node("Gather", {"shape", "zero"}, {"batch"}),
                    node("Unsqueeze", {"batch", "axes"}, {"batch1"}),
                    node("Concat", {"batch1", "minus", "tail"}, {"target"}, {attrInt("axis", 0)}),
                    node("Reshape", {"x", "target"}, {"y"})},
                   {kBatchSeq},
                   {Message().text(1, "y")},
                   {rawTensor("zero", kInt64, {}, bytesOf<int64_t>({0})), int64s("axes", {0}),
                    int64s("minus", {-1}), int64s("tail", {3, 4})}})));
  EXPECT_HAS(text, "tensor<?x?x3x4xf32, #tn.shape<()[s0, s1] -> (s0, s1, 3, 4)>>");
  EXPECT_HAS(text, "#tn.symbol<\"batch\", 1, 65536>, #tn.symbol<\"seq\", 1, 65536>");
  EXPECT_HAS_NOT(text, "tn.sizes");
  EXPECT_HAS_NOT(text, "tn.constant");
}

TEST_F(Symbolic, WhereOfEqualChainOfTheExporterIsEvaluated) {
  // Expand(x, Where(Equal(shape, -1), ones, shape)) with shape = [seq, -1]
  Message x = valueInfo("x", kFloat, {1, 7});
  Message z = valueInfo("z", kFloat, {std::string("seq")});
  std::string text = moduleOf(model(graph(
      {{node("Shape", {"z"}, {"seq"}),
        node("Concat", {"seq", "minus"}, {"shape"}, {attrInt("axis", 0)}),
        node("Shape", {"shape"}, {"rank"}),
        node("ConstantOfShape", {"rank"}, {"ones"}, {attrTensor("value", int64s("", {1}))}),
        node("Mul", {"ones", "minus"}, {"marks"}), node("Equal", {"shape", "marks"}, {"is"}),
        node("Where", {"is", "ones", "shape"}, {"target"}), node("Expand", {"x", "target"}, {"y"})},
       {x, z},
       {Message().text(1, "y")},
       {int64s("minus", {-1})}})));
  EXPECT_HAS(text, "tn.broadcast");
  EXPECT_HAS(text, "tensor<?x7xf32, #tn.shape<()[s0] -> (s0, 7)>>");
}

TEST_F(Symbolic, SizesUsedAsDataBecomeAnOperation) {
  std::string text =
      moduleOf(model(graph({{node("Shape", {"x"}, {"s"}), node("Mul", {"s", "two"}, {"y"})},
                            {kBatchSeq},
                            {Message().text(1, "y")},
                            {int64s("two", {2})}})));
  EXPECT_HAS(text, "tn.sizes");
  EXPECT_HAS(text, "()[s0, s1] -> (s0 * 2, s1 * 2, 24)");
}

TEST_F(Symbolic, SizesStayKnownThroughWhatMovesThem) {
  // As old exporters compute padding: pairs of sizes are reversed, transposed and flattened.
  // [batch, seq, 12] -> [[batch, seq], [12, 2]] -> its columns backwards -> [seq, 2, batch, 12]
  std::string text = moduleOf(model(graph(
      {{node("Shape", {"x"}, {"s"}), node("Concat", {"s", "two"}, {"four"}, {attrInt("axis", 0)}),
        node("Reshape", {"four", "square"}, {"m"}),
        node("Slice", {"m", "starts", "ends", "axes", "steps"}, {"r"}),
        node("Transpose", {"r"}, {"t"}, {attrInts("perm", {1, 0})}),
        node("Flatten", {"t"}, {"f"}, {attrInt("axis", 0)}), node("Tile", {"f", "once"}, {"u"}),
        node("Squeeze", {"u", "zero"}, {"v"}), node("Split", {"v", "parts"}, {"head", "tail"}),
        node("Concat", {"head", "tail"}, {"target"}, {attrInt("axis", 0)}),
        node("Expand", {"one", "target"}, {"y"})},
       {kBatchSeq},
       {Message().text(1, "y")},
       {int64s("two", {2}), int64s("square", {2, 2}), int64s("starts", {-1, 0}),
        int64s("ends", {INT64_MIN, 2}), int64s("axes", {1, 0}), int64s("steps", {-1, 1}),
        int64s("once", {1, 1}), int64s("zero", {0}), int64s("parts", {1, 3}),
        floats("one", {}, {1})}})));
  EXPECT_HAS(text, "tensor<?x2x?x12xf32, #tn.shape<()[s0, s1] -> (s1, 2, s0, 12)>>");
  EXPECT_HAS_NOT(text, "tn.sizes");
}

TEST_F(Symbolic, SizesRepeatAndSplitEvenly) {
  // [seq, 3] twice, of which the halves are multiplied.
  std::string text = moduleOf(
      model(graph({{node("Shape", {"x"}, {"s"}, {attrInt("start", 1)}),
                    node("Tile", {"s", "twice"}, {"t"}), node("Split", {"t"}, {"a", "b"}),
                    node("Mul", {"a", "b"}, {"target"}), node("Expand", {"one", "target"}, {"y"})},
                   {valueInfo("x", kFloat, {2, std::string("seq"), 3})},
                   {Message().text(1, "y")},
                   {int64s("twice", {2}), floats("one", {}, {1})}})));
  EXPECT_HAS(text, "tensor<?x9xf32, #tn.shape<()[s0] -> (s0 * s0, 9)>>");
}

TEST_F(Symbolic, RangeOverASymbolicDim) {
  std::string text = moduleOf(
      model(graph({{node("Shape", {"x"}, {"s"}, {attrInt("start", 1), attrInt("end", 2)}),
                    node("Squeeze", {"s"}, {"n"}), node("Range", {"zero", "n", "one"}, {"y"})},
                   {kBatchSeq},
                   {Message().text(1, "y")},
                   {rawTensor("zero", kInt64, {}, bytesOf<int64_t>({0})),
                    rawTensor("one", kInt64, {}, bytesOf<int64_t>({1}))}})));
  EXPECT_HAS(text, "tn.iota");
  EXPECT_HAS(text, "-> tensor<?xi64, #tn.shape<()[s0, s1] -> (s1)>>");
}

const Message kSliceOfTable = node("Slice", {"table", "start", "s", "axes"}, {"y"});

std::string positionTable() {
  return model(
      graph({{node("Shape", {"x"}, {"s"}, {attrInt("start", 1), attrInt("end", 2)}), kSliceOfTable},
             {kBatchSeq},
             {Message().text(1, "y")},
             {rawTensor("table", kFloat, {512, 2}, std::string(4096, '\0')), int64s("start", {0}),
              int64s("axes", {0})}}));
}

TEST_F(Symbolic, ASliceOfATableEndsWithIt) {
  std::string text = moduleOf(positionTable());
  EXPECT_HAS(text, "#tn.symbol<\"seq\", 1, 65536>");
  EXPECT_HAS(text, "tn.slice");
}

TEST_F(Symbolic, ASumWithASliceOfATableBoundsASymbol) {
  Message sum = node("Add", {"x", "rows"}, {"y"});
  std::string text =
      moduleOf(model(graph({{node("Shape", {"x"}, {"s"}, {attrInt("start", 1), attrInt("end", 2)}),
                             node("Slice", {"table", "start", "s", "axes"}, {"rows"}), sum},
                            {kBatchSeq},
                            {Message().text(1, "y")},
                            {rawTensor("table", kFloat, {512, 12}, std::string(24576, '\0')),
                             int64s("start", {0}), int64s("axes", {0})}})));
  EXPECT_HAS(text, "#tn.symbol<\"seq\", 1, 512>");
  EXPECT_HAS(text, "tensor<?x?x12xf32, #tn.shape<()[s0, s1] -> (s0, s1, 12)>>");
}

TEST_F(Symbolic, ADeclaredRangeIsNotNarrowed) {
  ImportOptions options;
  options.shapes.push_back({"x", {{}, {DimOverride::Kind::Range, 1, 1024}, {}}});
  EXPECT_HAS(moduleOf(positionTable(), options), "#tn.symbol<\"seq\", 1, 1024>");
  options.shapes[0].dims[1].max = 512;
  EXPECT_HAS(moduleOf(positionTable(), options), "tn.slice");
}

TEST_F(Symbolic, ConstantOverrideReplacesTheSymbolEverywhere) {
  std::string bytes = model(graph({{node("Add", {"a", "b"}, {"y"})},
                                   {valueInfo("a", kFloat, {std::string("n"), 4}),
                                    valueInfo("b", kFloat, {std::string("n"), 4})},
                                   {Message().text(1, "y")},
                                   {}}));
  ImportOptions options;
  options.shapes.push_back({"a", {{DimOverride::Kind::Constant, 3, 3}, {}}});
  std::string text = moduleOf(bytes, options);
  EXPECT_HAS(
      text, "(%arg0: tensor<3x4xf32> {tn.name = \"a\"}, %arg1: tensor<3x4xf32> {tn.name = \"b\"})");
  EXPECT_HAS_NOT(text, "#tn.symbol<");
}

TEST_F(Symbolic, UnnamedDimsAreSymbolsOfTheirOwn) {
  std::string text = moduleOf(oneNode(node("Relu", {"x"}, {"y"}),
                                      {valueInfo("x", kFloat, {std::string(), std::string()})}));
  EXPECT_HAS(text, "#tn.symbol<\"x.0\", 1, 65536>, #tn.symbol<\"x.1\", 1, 65536>");
}

TEST_F(Symbolic, OverridesThatDoNotFitAreRefused) {
  std::string bytes = oneNode(node("Relu", {"x"}, {"y"}), {kBatchSeq});
  using Kind = DimOverride::Kind;
  auto with = [](std::vector<DimOverride> dims, std::string input = "x") {
    ImportOptions options;
    options.shapes.push_back({std::move(input), std::move(dims)});
    return options;
  };
  EXPECT_EQ(errorOf(bytes, with({{}, {}})), ErrorId::OnnxBadOverride);
  EXPECT_EQ(errorOf(bytes, with({{}, {}, {Kind::Constant, 13, 13}})), ErrorId::OnnxBadOverride);
  EXPECT_EQ(errorOf(bytes, with({{Kind::Range, 9, 2}, {}, {}})), ErrorId::OnnxBadOverride);
  EXPECT_EQ(errorOf(bytes, with({{}, {}, {}}, "nosuch")), ErrorId::OnnxBadOverride);
  EXPECT_EQ(errorOf(bytes, with({{Kind::Range, 1, 8}, {}, {Kind::Constant, 12, 12}})),
            ErrorId::None);
}

TEST_F(Symbolic, AFixedInputIsAConstantAndNoArgument) {
  std::string bytes =
      oneNode(node("Reshape", {"x", "shape"}, {"y"}), {kBatchSeq, valueInfo("shape", kInt64, {2})});
  EXPECT_HAS(moduleOf(bytes), "gap: Reshape");
  std::vector<int64_t> shape = {-1, 6};
  ImportOptions options;
  options.fixed.push_back({"shape", DType::I64, {2}, std::as_bytes(std::span(shape))});
  std::string text = moduleOf(bytes, options);
  EXPECT_HAS(text, "#tn.shape<()[s0, s1] -> ((s0 * s1) * 2, 6)>");
  EXPECT_HAS_NOT(text, "tn.name = \"shape\"");
}

} // namespace
} // namespace tenon::onnx::test
