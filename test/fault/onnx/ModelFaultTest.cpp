// Malformed models, class by class: each gives its own documented error, none crashes.
// Relies on models written byte by byte (test/unit/frontend/ModelBytes.h).
#include "test/unit/frontend/ImportFixture.h"
#include "test/unit/frontend/ModelBytes.h"

namespace tenon::onnx::test {
namespace {

using ModelFault = ImportFixture;

const Message kX = valueInfo("x", kFloat, {2, 3});
const Message kRelu = node("Relu", {"x"}, {"y"});

std::string valid() { return oneNode(kRelu, {kX}); }
std::string around(const Message &graphMessage) { return model(graphMessage); }
std::string withNode(const Message &n, std::vector<Message> initializers = {},
                     int64_t version = 17) {
  return oneNode(n, {kX}, version, initializers);
}
/// A model that adds an initializer `w` to its input.
std::string withTensor(const Message &tensor) {
  return withNode(node("Add", {"x", "w"}, {"y"}), {tensor});
}

//===--- Container ---===//

TEST_F(ModelFault, TheModelThatTheOthersAreMadeOfIsSound) {
  EXPECT_EQ(errorOf(valid()), ErrorId::None);
  EXPECT_EQ(errorOf(withTensor(floats("w", {3}, {1, 2, 3}))), ErrorId::None);
}

TEST_F(ModelFault, Container) {
  EXPECT_EQ(errorOf(""), ErrorId::OnnxEmpty);
  EXPECT_EQ(errorOf("\x08"), ErrorId::OnnxTruncated);
  EXPECT_EQ(errorOf(Message().varint(1, 8).str()), ErrorId::OnnxNotAModel);
  EXPECT_EQ(errorOf(Message().add(7, graph({})).add(8, opset(17)).str()), ErrorId::OnnxNotAModel);
  EXPECT_NE(errorOf("PK\x03\x04 a zip file"), ErrorId::None);
}

TEST_F(ModelFault, EveryTruncationIsRefusedOrImports) {
  std::string whole = withTensor(floats("w", {3}, {1, 2, 3}));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(errorOf(whole.substr(0, size)), ErrorId::None) << size;
  }
}

TEST_F(ModelFault, EveryBitFlipIsSurvived) {
  std::string whole = withTensor(floats("w", {3}, {1, 2, 3}));
  size_t refused = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    Result<ImportResult> result = import(damaged);
    refused += !result || !result->gaps.empty();
    EXPECT_TRUE(result || result.status().code() != Code::Internal) << bit;
  }
  EXPECT_GT(refused, whole.size());
}

//===--- Protobuf ---===//

TEST_F(ModelFault, Protobuf) {
  EXPECT_EQ(errorOf(valid() + "\x83\x01"), ErrorId::OnnxGroup);            // field 16, start group
  EXPECT_EQ(errorOf(valid() + "\x84\x01"), ErrorId::OnnxGroup);            // end group
  EXPECT_EQ(errorOf(valid() + std::string(1, '\0')), ErrorId::OnnxBadTag); // field 0
  EXPECT_EQ(errorOf(valid() + "\x86\x01"), ErrorId::OnnxBadTag);           // wire type 6
  EXPECT_EQ(errorOf(valid() + "\x28" + std::string(10, '\xff') + "\x01"),
            ErrorId::OnnxBadVarint); // 11 bytes
  EXPECT_EQ(errorOf(valid() + "\x28" + std::string(9, '\xff') + "\x02"),
            ErrorId::OnnxBadVarint); // 65 bits
  EXPECT_EQ(errorOf(valid() + "\x12\xff\xff\xff\xff\x1f"
                              "abc"),
            ErrorId::OnnxTruncated); // longer than the file
  EXPECT_EQ(errorOf(valid() + "\x12\x80\x80\x80\x80\x10"
                              "abc"),
            ErrorId::OnnxTruncated); // 2^32: not cut to 0
  EXPECT_EQ(errorOf(valid() + Message().varint(1, 8).str()), ErrorId::OnnxDuplicateField);
  EXPECT_EQ(errorOf(valid() + Message().add(7, graph({})).str()), ErrorId::OnnxDuplicateField);
  EXPECT_EQ(errorOf(valid() + Message().varint(8, 1).str()), ErrorId::OnnxWireType);
  EXPECT_EQ(
      errorOf(withTensor(Message().varint(1, 1).varint(2, kFloat).text(8, "w").text(4, "abc"))),
      ErrorId::OnnxTruncated);
}

std::string nested(unsigned levels) {
  Message inner = graph({{}, {}, {Message().text(1, "x")}, {}});
  for (unsigned i = 0; i < levels; ++i) {
    inner = graph({{node("If", {"c"}, {"r"},
                         {attrGraph("then_branch", inner), attrGraph("else_branch", graph({}))})},
                   {},
                   {Message().text(1, "r")},
                   {}});
  }
  return around(inner);
}

TEST_F(ModelFault, DepthAndCounts) {
  EXPECT_EQ(errorOf(nested(30)), ErrorId::OnnxTooDeep);
  EXPECT_NE(errorOf(nested(3)), ErrorId::OnnxTooDeep);
  std::string tiny = Message().text(4, "A").text(2, "b").str();
  std::string entry = Message().text(1, tiny).str();
  std::string many;
  for (unsigned i = 0; i < 1000000; ++i) {
    many += entry;
  }
  EXPECT_EQ(errorOf(around(Message().raw(many))), ErrorId::OnnxTooMany);
}

//===--- Graph ---===//

TEST_F(ModelFault, Names) {
  Message y = Message().text(1, "y");
  EXPECT_EQ(errorOf(withNode(node("Relu", {std::string(65536, 'n')}, {"y"}))),
            ErrorId::OnnxBadName);
  EXPECT_EQ(errorOf(withNode(node("Relu", {"x"}, {std::string("y\0z", 3)}))), ErrorId::OnnxBadName);
  EXPECT_EQ(errorOf(withNode(Message().text(1, "x").text(2, "y"))), ErrorId::OnnxBadName);
  EXPECT_EQ(errorOf(oneNode(kRelu, {kX, valueInfo("", kFloat, {1})})), ErrorId::OnnxBadName);
  EXPECT_EQ(errorOf(oneNode(kRelu, {kX, kX})), ErrorId::OnnxDuplicateName);
  EXPECT_EQ(errorOf(around(graph({{kRelu, kRelu}, {kX}, {y}, {}}))), ErrorId::OnnxDuplicateName);
  EXPECT_EQ(errorOf(withNode(node("Relu", {"x"}, {"x"}))), ErrorId::OnnxDuplicateName);
  EXPECT_EQ(errorOf(withNode(kRelu, {floats("w", {1}, {1}), floats("w", {1}, {1})})),
            ErrorId::OnnxDuplicateName);
}

TEST_F(ModelFault, Edges) {
  Message y = Message().text(1, "y");
  EXPECT_EQ(errorOf(withNode(node("Relu", {"nothing"}, {"y"}))), ErrorId::OnnxUndefinedValue);
  EXPECT_EQ(errorOf(withNode(node("Relu", {"x"}, {"other"}))), ErrorId::OnnxUndefinedValue);
  EXPECT_EQ(errorOf(around(graph({{kRelu}, {kX}, {}, {}}))), ErrorId::OnnxUndefinedValue);
  EXPECT_EQ(errorOf(withNode(node("Add", {"x", "y"}, {"y"}))), ErrorId::OnnxNotSorted);
  EXPECT_EQ(errorOf(around(
                graph({{node("Relu", {"b"}, {"y"}), node("Relu", {"y"}, {"b"})}, {kX}, {y}, {}}))),
            ErrorId::OnnxNotSorted);
  EXPECT_EQ(errorOf(withNode(node("Add", {"x"}, {"y"}))), ErrorId::OnnxBadArity);
  EXPECT_EQ(errorOf(withNode(node("Relu", {"x", "x"}, {"y"}))), ErrorId::OnnxBadArity);
  EXPECT_EQ(errorOf(withNode(node("Relu", {"x"}, {"y", "z"}))), ErrorId::OnnxBadArity);
  EXPECT_EQ(errorOf(withNode(node("Relu", {"x"}, {"y"}, {}, "nowhere"))),
            ErrorId::OnnxUndeclaredDomain);
}

TEST_F(ModelFault, Opsets) {
  Message g = graph({{kRelu}, {kX}, {Message().text(1, "y")}, {}});
  EXPECT_EQ(errorOf(model(g, 0)), ErrorId::OnnxBadOpset);
  EXPECT_EQ(errorOf(model(g, -1)), ErrorId::OnnxBadOpset);
  EXPECT_EQ(errorOf(model(g, int64_t{1} << 31)), ErrorId::OnnxBadOpset);
  EXPECT_EQ(errorOf(valid() + Message().add(8, opset(16)).str()), ErrorId::OnnxBadOpset);
  EXPECT_EQ(errorOf(Message().varint(1, 8).add(7, g).str()), ErrorId::OnnxBadOpset);
  EXPECT_EQ(errorOf(model(g, 1000)), ErrorId::OnnxUnknownOpset);
}

//===--- Attributes ---===//

TEST_F(ModelFault, Attributes) {
  Message twice = node("LeakyRelu", {"x"}, {"y"}, {attrFloat("alpha", 1), attrFloat("alpha", 2)});
  EXPECT_EQ(errorOf(withNode(twice)), ErrorId::OnnxDuplicateAttribute);
  EXPECT_EQ(errorOf(withNode(node("LeakyRelu", {"x"}, {"y"}, {attrInt("alpha", 1)}))),
            ErrorId::OnnxBadAttribute);
  EXPECT_EQ(errorOf(withNode(node("Cast", {"x"}, {"y"}))), ErrorId::OnnxBadAttribute);
  EXPECT_EQ(errorOf(withNode(node("Cast", {"x"}, {"y"}, {attrInt("to", 99)}))),
            ErrorId::OnnxBadAttribute);
  EXPECT_EQ(errorOf(withNode(node("Softmax", {"x"}, {"y"},
                                  {Message().text(1, "axis").varint(3, 1).varint(20, 77)}))),
            ErrorId::OnnxBadAttribute);
  for (int64_t axis : {int64_t{2}, int64_t{-3}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(errorOf(withNode(node("Softmax", {"x"}, {"y"}, {attrInt("axis", axis)}))),
              ErrorId::OnnxBadAttribute)
        << axis;
    EXPECT_EQ(errorOf(withNode(node("ReduceMean", {"x"}, {"y"}, {attrInts("axes", {axis})}))),
              ErrorId::OnnxBadAttribute)
        << axis;
    EXPECT_EQ(errorOf(withNode(node("Concat", {"x", "x"}, {"y"}, {attrInt("axis", axis)}))),
              ErrorId::OnnxBadAttribute)
        << axis;
  }
  EXPECT_EQ(errorOf(withNode(node("Transpose", {"x"}, {"y"}, {attrInts("perm", {0, 0})}))),
            ErrorId::OnnxBadAttribute);
  EXPECT_EQ(errorOf(withNode(node("Transpose", {"x"}, {"y"}, {attrInts("perm", {0, 5})}))),
            ErrorId::OnnxBadAttribute);
}

/// A convolution over 1x4x5x5 with one more attribute.
std::string convolution(const Message &attribute,
                        const std::vector<int64_t> &weight = {2, 4, 3, 3}) {
  return oneNode(node("Conv", {"x", "w"}, {"y"}, {attribute}),
                 {valueInfo("x", kFloat, {1, 4, 5, 5}),
                  valueInfo("w", kFloat, std::vector<Dim>(weight.begin(), weight.end()))});
}

TEST_F(ModelFault, WindowArithmetic) {
  EXPECT_EQ(errorOf(convolution(attrInt("group", 1))), ErrorId::None);
  for (int64_t bad : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(errorOf(convolution(attrInt("group", bad))), ErrorId::OnnxBadAttribute) << bad;
    EXPECT_EQ(errorOf(convolution(attrInts("strides", {1, bad}))), ErrorId::OnnxBadAttribute)
        << bad;
    EXPECT_EQ(errorOf(convolution(attrInts("dilations", {bad, 1}))), ErrorId::OnnxBadAttribute)
        << bad;
  }
  EXPECT_EQ(errorOf(convolution(attrInts("pads", {0, 0, -1, 0}))), ErrorId::OnnxBadAttribute);
  EXPECT_EQ(errorOf(convolution(attrInts("pads", {0, 0}))), ErrorId::OnnxBadAttribute);
  EXPECT_EQ(errorOf(convolution(attrInts("kernel_shape", {3, 4}))), ErrorId::OnnxBadAttribute);
  EXPECT_EQ(errorOf(convolution(attrInt("group", 1), {2, 3, 3, 3})), ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(convolution(attrInt("group", 1), {2, 4, 9, 9})), ErrorId::OnnxBadNode);
}

TEST_F(ModelFault, ShapesThatContradict) {
  Message two = valueInfo("b", kFloat, {4, 5});
  EXPECT_EQ(errorOf(oneNode(node("Add", {"x", "b"}, {"y"}), {kX, two})), ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(oneNode(node("MatMul", {"x", "b"}, {"y"}), {kX, two})), ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(oneNode(node("Add", {"x", "b"}, {"y"}), {kX, valueInfo("b", kInt64, {2, 3})})),
            ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(withNode(node("Reshape", {"x", "s"}, {"y"}), {int64s("s", {4, 2})})),
            ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(withNode(node("Reshape", {"x", "s"}, {"y"}), {int64s("s", {-1, -1})})),
            ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(withNode(node("Reshape", {"x", "s"}, {"y"}), {int64s("s", {-7, 2})})),
            ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(withNode(node("Expand", {"x", "s"}, {"y"}), {int64s("s", {5, 5})})),
            ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(withNode(node("Slice", {"x", "s", "s", "s", "z"}, {"y"}),
                             {int64s("s", {0}), int64s("z", {0})})),
            ErrorId::OnnxBadNode);
}

TEST_F(ModelFault, Amplification) {
  int64_t huge = int64_t{1} << 40;
  EXPECT_EQ(errorOf(withNode(node("Tile", {"x", "s"}, {"y"}), {int64s("s", {huge, huge})})),
            ErrorId::OnnxShapeOverflow);
  EXPECT_EQ(errorOf(withNode(node("Expand", {"x", "s"}, {"y"}), {int64s("s", {huge, 1, 1})})),
            ErrorId::OnnxShapeOverflow);
  EXPECT_EQ(errorOf(withNode(node("ConstantOfShape", {"s"}, {"y"}), {int64s("s", {huge, huge})})),
            ErrorId::OnnxShapeOverflow);
  EXPECT_EQ(errorOf(withNode(node("ConstantOfShape", {"s"}, {"y"}), {int64s("s", {-4})})),
            ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(withNode(node("Pad", {"x", "s"}, {"y"}), {int64s("s", {0, 0, 0, huge})})),
            ErrorId::OnnxShapeOverflow);
  std::vector<Message> bounds = {rawTensor("a", kInt64, {}, bytesOf<int64_t>({0})),
                                 rawTensor("b", kInt64, {}, bytesOf<int64_t>({huge})),
                                 rawTensor("c", kInt64, {}, bytesOf<int64_t>({1}))};
  EXPECT_EQ(errorOf(withNode(node("Range", {"a", "b", "c"}, {"y"}), bounds)),
            ErrorId::OnnxShapeOverflow);
}

//===--- Tensors ---===//

TEST_F(ModelFault, TensorDims) {
  EXPECT_EQ(errorOf(withTensor(rawTensor("w", kFloat, {-1}, ""))), ErrorId::OnnxBadDim);
  EXPECT_EQ(errorOf(withTensor(rawTensor("w", kFloat, {INT64_MIN}, ""))), ErrorId::OnnxBadDim);
  EXPECT_EQ(errorOf(withTensor(rawTensor("w", kFloat, {INT64_MAX, 2}, ""))),
            ErrorId::OnnxShapeOverflow);
  EXPECT_EQ(
      errorOf(withTensor(rawTensor("w", kFloat, {int64_t{1} << 31, int64_t{1} << 31, 4}, ""))),
      ErrorId::OnnxShapeOverflow);
  EXPECT_EQ(errorOf(withTensor(rawTensor("w", kFloat, std::vector<int64_t>(10000, 1), "abcd"))),
            ErrorId::OnnxRank);
  EXPECT_EQ(errorOf(withTensor(rawTensor("w", kFloat, {int64_t{1} << 31}, "abcd"))),
            ErrorId::OnnxTensorSize);
  EXPECT_EQ(errorOf(oneNode(kRelu, {valueInfo("x", kFloat, {-2})})), ErrorId::OnnxBadDim);
  EXPECT_EQ(errorOf(oneNode(kRelu, {valueInfo("x", kFloat, {INT64_MAX, INT64_MAX})})),
            ErrorId::OnnxShapeOverflow);
  EXPECT_EQ(errorOf(oneNode(kRelu, {valueInfo("x", kFloat, std::vector<Dim>(40, int64_t{1}))})),
            ErrorId::OnnxRank);
}

TEST_F(ModelFault, TensorData) {
  EXPECT_EQ(errorOf(withTensor(rawTensor("w", kFloat, {3}, "abcdefgh"))), ErrorId::OnnxTensorSize);
  EXPECT_EQ(errorOf(withTensor(rawTensor("w", kFloat, {3}, std::string(16, 'a')))),
            ErrorId::OnnxTensorSize);
  EXPECT_EQ(errorOf(withTensor(Message().varint(1, 3).varint(2, kFloat).text(8, "w"))),
            ErrorId::OnnxTensorSize);
  EXPECT_EQ(errorOf(withTensor(Message().varint(1, 3).varint(2, 99).text(8, "w"))),
            ErrorId::OnnxTensorType);
  EXPECT_EQ(errorOf(withTensor(floats("w", {3}, {1, 2, 3}).real(4, 1))), ErrorId::OnnxTensorData);
  EXPECT_EQ(errorOf(withTensor(Message().varint(1, 1).varint(2, kFloat).text(8, "w").varint(7, 5))),
            ErrorId::OnnxTensorData);
  EXPECT_EQ(
      errorOf(withTensor(Message().varint(1, 1).varint(2, kUInt8).text(8, "w").varint(5, 300))),
      ErrorId::OnnxTensorData);
  EXPECT_EQ(errorOf(withTensor(floats("w", {3}, {1, 2, 3}).add(3, Message()))),
            ErrorId::OnnxTensorData);
  EXPECT_EQ(errorOf(withTensor(rawTensor("w", kBool, {1}, "\x02"))), ErrorId::OnnxTensorPadding);
  EXPECT_EQ(errorOf(withTensor(rawTensor("w", kInt4, {3}, "\x11\x21"))),
            ErrorId::OnnxTensorPadding);
}

TEST_F(ModelFault, StringsAreGaps) {
  Result<ImportResult> text =
      import(withTensor(Message().varint(1, 1).varint(2, kString).text(8, "w").text(6, "hello")));
  ASSERT_TRUE(text);
  EXPECT_FALSE(text->gaps.empty());
}

TEST_F(ModelFault, SparseTensors) {
  auto errorWith = [&](const Message &sparse) {
    return errorOf(around(graph({{kRelu}, {kX}, {Message().text(1, "y")}, {}}).add(15, sparse)));
  };
  auto at = [](std::vector<int64_t> places) {
    std::string bytes(reinterpret_cast<const char *>(places.data()), places.size() * 8);
    return rawTensor("", kInt64, {static_cast<int64_t>(places.size())}, bytes);
  };
  Message values = floats("w", {2}, {1, 2});
  auto sparse = [&](std::vector<int64_t> places) {
    return Message().add(1, values).add(2, at(std::move(places))).varint(3, 5);
  };
  EXPECT_EQ(errorWith(sparse({0, 4})), ErrorId::None);
  EXPECT_EQ(errorWith(Message()), ErrorId::OnnxBadName);
  for (std::vector<int64_t> places : {std::vector<int64_t>{0, 5}, {-1, 2}, {3, 3}, {4, 0}}) {
    EXPECT_EQ(errorWith(sparse(places)), ErrorId::OnnxTensorData);
  }
  EXPECT_EQ(errorWith(sparse({0})), ErrorId::OnnxTensorSize);
}

} // namespace
} // namespace tenon::onnx::test
