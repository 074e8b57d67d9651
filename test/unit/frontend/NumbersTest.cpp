// What single nodes give for zeros, infinities, NaN and extremes, by the values that ONNX's
// definitions have. Relies on the reference interpreter, which other tests hold generated code to.
#include "compiler/reference/Interpreter.h"
#include "test/unit/frontend/ImportFixture.h"
#include "test/unit/frontend/ModelBytes.h"

#include <cmath>
#include <limits>

namespace tenon::onnx::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");
using Floats = std::vector<float>;

class Numbers : public ImportFixture {
protected:
  /// The outputs of a model over these inputs, or why there are none.
  Result<std::vector<reference::Tensor>> run(std::string bytes,
                                             const std::vector<reference::Tensor> &inputs) {
    TENON_ASSIGN(ImportResult imported, import(std::move(bytes)));
    if (!imported.module) {
      return Status::error(ErrorId::InternalError, imported.gaps[0].why);
    }
    reference::Interpreter interpreter(&store);
    return interpreter.evaluate(imported.module->lookupSymbol<mlir::func::FuncOp>("main"), inputs);
  }

  template <typename T>
  static reference::Tensor tensor(DType dtype, const std::vector<int64_t> &dims,
                                  const std::vector<T> &values) {
    return *reference::Tensor::copy(
        dtype, dims,
        llvm::ArrayRef(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)));
  }

  /// One node of f32 inputs, all of rank 1 or of `dims`, must give these numbers.
  void expectFloats(const Message &n, const std::vector<Floats> &inputs, const Floats &expected,
                    int64_t version = 20, std::vector<int64_t> dims = {},
                    const std::vector<Message> &initializers = {}) {
    std::vector<Message> infos;
    std::vector<reference::Tensor> tensors;
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::vector<int64_t> shape =
          dims.empty() ? std::vector<int64_t>{int64_t(inputs[i].size())} : dims;
      infos.push_back(valueInfo(std::string(1, char('a' + i)), kFloat,
                                std::vector<Dim>(shape.begin(), shape.end())));
      tensors.push_back(tensor(DType::F32, shape, inputs[i]));
    }
    Result<std::vector<reference::Tensor>> results =
        run(oneNode(n, infos, version, initializers), tensors);
    ASSERT_TRUE(results) << results.status().toString();
    ASSERT_EQ(size_t((*results)[0].count()), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      float actual = (*results)[0].as<float>()[i];
      bool isSame = std::isnan(expected[i])
                        ? std::isnan(actual)
                        : actual == expected[i] || std::abs(actual - expected[i]) < 1e-6;
      EXPECT_TRUE(isSame) << "element " << i << " is " << actual << ", not " << expected[i];
    }
  }
};

TEST_F(Numbers, RemaindersAreExact) {
  expectFloats(node("Mod", {"a", "b"}, {"y"}, {attrInt("fmod", 1)}),
               {{5, 1, -7, 7, 1, kInf, 5}, {0.1f, kInf, 3, -3, 0, 1, kNan}},
               {std::fmod(5.f, 0.1f), 1, -1, 1, kNan, kNan, kNan});
}

TEST_F(Numbers, LogarithmsOfSumsOfInfiniteRows) {
  Floats rows = {-kInf, -kInf, kInf, 1, -kInf, 2, kNan, 1, 0, 0, kInf, -kInf};
  Floats expected = {-kInf, kInf, 2, kNan, std::log(2.f), kInf};
  for (int64_t keepdims : {0, 1}) {
    expectFloats(node("ReduceLogSumExp", {"a", "axes"}, {"y"}, {attrInt("keepdims", keepdims)}),
                 {rows}, expected, 20, {6, 2}, {int64s("axes", {1})});
  }
}

TEST_F(Numbers, SoftmaxOfInfiniteRows) {
  Floats rows = {-kInf, -kInf, kInf, 1, -kInf, 2, kNan, 1};
  expectFloats(node("Softmax", {"a"}, {"y"}), {rows}, {kNan, kNan, kNan, kNan, 0, 1, kNan, kNan},
               20, {4, 2});
  expectFloats(node("LogSoftmax", {"a"}, {"y"}), {rows},
               {kNan, kNan, kNan, kNan, -kInf, 0, kNan, kNan}, 20, {4, 2});
}

TEST_F(Numbers, NanInComparisons) {
  expectFloats(node("Max", {"a", "b"}, {"y"}), {{kNan, 1, -kInf}, {1, kNan, kInf}},
               {kNan, kNan, kInf});
  expectFloats(node("Min", {"a", "b"}, {"y"}), {{kNan, 1, -kInf}, {1, kNan, kInf}},
               {kNan, kNan, -kInf});
  expectFloats(node("Sign", {"a"}, {"y"}), {{kNan, -0.f, kInf, -2}}, {kNan, 0, 1, -1});
  expectFloats(node("Relu", {"a"}, {"y"}), {{kNan, -kInf, kInf}}, {kNan, 0, kInf});
  expectFloats(node("ThresholdedRelu", {"a"}, {"y"}), {{kNan, 1, 2, -kInf, kInf}},
               {0, 0, 2, 0, kInf});
  expectFloats(node("Shrink", {"a"}, {"y"}), {{kNan, 1, -kInf, kInf}}, {0, 1, -kInf, kInf});
  for (const char *op : {"LeakyRelu", "Elu", "Selu", "Celu", "HardSigmoid", "HardSwish", "Softsign",
                         "Softplus", "Mish", "Gelu"}) {
    expectFloats(node(op, {"a"}, {"y"}), {{kNan}}, {kNan});
  }
  expectFloats(node("PRelu", {"a", "b"}, {"y"}), {{kNan, -kInf}, {2, 2}}, {kNan, -kInf});
  expectFloats(node("Clip", {"a", "lo", "hi"}, {"y"}), {{kNan, 0, 9, kInf}}, {kNan, 1, 1, 1}, 20,
               {}, {floats("lo", {}, {5}), floats("hi", {}, {1})});
  expectFloats(node("Round", {"a"}, {"y"}), {{0.5, 1.5, 2.5, -0.5, -2.5, 3e38f}},
               {0, 2, 2, 0, -2, 3e38f});
}

TEST_F(Numbers, TheIndexOfNan) {
  auto indexOf = [&](const char *op, int64_t last) {
    Result<std::vector<reference::Tensor>> results =
        run(oneNode(node(op, {"a"}, {"y"}, {attrInt("select_last_index", last)}),
                    {valueInfo("a", kFloat, {5})}),
            {tensor<float>(DType::F32, {5}, {3, kNan, kInf, kNan, -kInf})});
    return results ? (*results)[0].as<int64_t>()[0] : -1;
  };
  EXPECT_EQ(indexOf("ArgMax", 0), 1);
  EXPECT_EQ(indexOf("ArgMax", 1), 3);
  EXPECT_EQ(indexOf("ArgMin", 0), 1);
  EXPECT_EQ(indexOf("ArgMin", 1), 3);
}

TEST_F(Numbers, CastsSaturate) {
  auto cast = [&](int64_t to, auto zero) {
    using T = decltype(zero);
    const Floats values = {kNan, kInf, -kInf, 3e9f, -3e9f, 300.7f, -129.2f, -0.9f, 2.9f};
    Result<std::vector<reference::Tensor>> results =
        run(oneNode(node("Cast", {"a"}, {"y"}, {attrInt("to", to)}), {valueInfo("a", kFloat, {9})}),
            {tensor(DType::F32, {9}, values)});
    EXPECT_TRUE(results) << results.status().toString();
    return std::vector<T>((*results)[0].as<T>(), (*results)[0].as<T>() + 9);
  };
  EXPECT_EQ(cast(3, int8_t()), (std::vector<int8_t>{0, 127, -128, 127, -128, 127, -128, 0, 2}));
  EXPECT_EQ(cast(2, uint8_t()), (std::vector<uint8_t>{0, 255, 0, 255, 0, 255, 0, 0, 2}));
  EXPECT_EQ(cast(kInt32, int32_t()),
            (std::vector<int32_t>{0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 300, -129, 0, 2}));
  EXPECT_EQ(cast(13, uint64_t()),
            (std::vector<uint64_t>{0, UINT64_MAX, 0, 3000000000u, 0, 300, 0, 0, 2}));
}

TEST_F(Numbers, IntegersDivideRaiseAndShift) {
  auto apply = [&](const Message &n, const std::vector<int32_t> &a, const std::vector<int32_t> &b) {
    int64_t count = int64_t(a.size());
    return run(oneNode(n, {valueInfo("a", kInt32, {count}), valueInfo("b", kInt32, {count})}),
               {tensor(DType::I32, {count}, a), tensor(DType::I32, {count}, b)});
  };
  auto numbers = [](const Result<std::vector<reference::Tensor>> &results) {
    EXPECT_TRUE(results) << results.status().toString();
    const reference::Tensor &y = (*results)[0];
    return std::vector<int32_t>(y.as<int32_t>(), y.as<int32_t>() + y.count());
  };
  using Ints = std::vector<int32_t>;
  EXPECT_EQ(
      numbers(apply(node("Div", {"a", "b"}, {"y"}), {7, -7, 7, -7, INT32_MIN}, {2, 2, -2, -2, -1})),
      (Ints{3, -3, -3, 3, INT32_MIN}));
  EXPECT_EQ(
      numbers(apply(node("Mod", {"a", "b"}, {"y"}), {7, -7, 7, -7, INT32_MIN}, {3, 3, -3, -3, -1})),
      (Ints{1, 2, -2, -1, 0}));
  EXPECT_EQ(numbers(apply(node("Mod", {"a", "b"}, {"y"}, {attrInt("fmod", 1)}), {7, -7, 7, -7},
                          {3, 3, -3, -3})),
            (Ints{1, -1, 1, -1}));
  EXPECT_EQ(numbers(apply(node("Pow", {"a", "b"}, {"y"}), {2, -1, -1, 1, 3, 0, 65536},
                          {-1, -3, -4, -9, 20, 0, 2})),
            (Ints{0, -1, 1, 1, -808182895, 1, 0}));
  for (const char *op : {"Div", "Mod"}) {
    EXPECT_EQ(apply(node(op, {"a", "b"}, {"y"}), {1}, {0}).status().id(),
              ErrorId::RunBadArithmetic);
  }
  EXPECT_EQ(apply(node("Pow", {"a", "b"}, {"y"}), {0}, {-1}).status().id(),
            ErrorId::RunBadArithmetic);
}

TEST_F(Numbers, NormsOfWindowsThatReachBeyondTheData) {
  // ceil_mode: the last window has one element, or starts where there is none and is left out.
  expectFloats(node("LpPool", {"a"}, {"y"},
                    {attrInts("kernel_shape", {2}), attrInts("strides", {2}),
                     attrInt("ceil_mode", 1), attrInt("p", 1)}),
               {{1, -2, 3, -4, 5}}, {3, 7, 5}, 18, {1, 1, 5});
  expectFloats(node("LpPool", {"a"}, {"y"},
                    {attrInts("kernel_shape", {1}), attrInts("strides", {3}),
                     attrInt("ceil_mode", 1), attrInt("p", 1)}),
               {{1, -2, 3, -4, 5}}, {1, 4}, 18, {1, 1, 5});
  expectFloats(node("LpPool", {"a"}, {"y"},
                    {attrInts("kernel_shape", {2}), attrInts("strides", {2}),
                     attrInts("pads", {1, 1}), attrInt("ceil_mode", 1), attrInt("p", 2)}),
               {{3, -2, 4, 3}}, {3, std::sqrt(20.f), 3}, 18, {1, 1, 4});
}

TEST_F(Numbers, ReflectionGoesToAndFro) {
  Message reflect = node("Pad", {"a", "pads"}, {"y"}, {attrText("mode", "reflect")});
  expectFloats(reflect, {{1, 2, 3}}, {2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2}, 18, {},
               {int64s("pads", {5, 3})});
  expectFloats(reflect, {{4}}, {4, 4, 4, 4}, 18, {}, {int64s("pads", {1, 2})});
}

TEST_F(Numbers, ResizedDimsAreProductsOfFloats) {
  auto resized = [&](int64_t size, float scale) {
    return moduleOf(oneNode(node("Resize", {"a", "", "scales"}, {"y"}),
                            {valueInfo("a", kFloat, {size})}, 19,
                            {floats("scales", {1}, {scale})}));
  };
  EXPECT_HAS(resized(10, 0.7f), "-> (tensor<7xf32>");
  EXPECT_HAS(resized(10, 0.69f), "-> (tensor<6xf32>");
  EXPECT_HAS(resized(3, 1.0f / 3), "-> (tensor<1xf32>");
}

TEST_F(Numbers, SizesByWayOfFloats) {
  auto resized = [&](float scale, bool isFloored) {
    std::string last = isFloored ? "f" : "m";
    std::vector<Message> nodes = {node("Shape", {"a"}, {"s"}),
                                  node("Cast", {"s"}, {"r"}, {attrInt("to", kFloat)}),
                                  node("Mul", {"r", "scale"}, {"m"})};
    if (isFloored) {
      nodes.push_back(node("Floor", {"m"}, {"f"}));
    }
    nodes.push_back(node("Cast", {last}, {"n"}, {attrInt("to", kInt64)}));
    nodes.push_back(node("Resize", {"a", "", "", "n"}, {"y"}, {attrText("mode", "nearest")}));
    return moduleOf(model(graph({nodes,
                                 {valueInfo("a", kFloat, {"L"})},
                                 {Message().text(1, "y")},
                                 {floats("scale", {}, {scale})}})));
  };
  for (bool isFloored : {true, false}) {
    EXPECT_HAS(resized(1.5, isFloored), "(s0 + s0 floordiv 2)");
    EXPECT_HAS(resized(2, isFloored), "s0 * 2");
    EXPECT_HAS(resized(0.5, isFloored), "s0 floordiv 2");
  }
}

TEST_F(Numbers, StatisticsOfLayerNormHaveTheStashedType) {
  auto norm = [&](int element, const std::vector<Message> &attributes) {
    return moduleOf(model(
        graph({{node("LayerNormalization", {"a", "s"}, {"y", "mean", "deviation"}, attributes)},
               {valueInfo("a", element, {2, 3}), valueInfo("s", element, {3})},
               {Message().text(1, "y"), Message().text(1, "mean"), Message().text(1, "deviation")},
               {}})));
  };
  EXPECT_HAS(norm(10, {}), "(tensor<2x3xf16> {tn.name = \"y\"}, tensor<2x1xf32> {tn.name = "
                           "\"mean\"}, tensor<2x1xf32> {tn.name = \"deviation\"})");
  EXPECT_HAS(norm(11, {}), "(tensor<2x3xf64> {tn.name = \"y\"}, tensor<2x1xf32>");
  EXPECT_HAS(norm(16, {attrInt("stash_type", 16)}),
             "(tensor<2x3xbf16> {tn.name = \"y\"}, tensor<2x1xbf16>");
}

TEST_F(Numbers, BiasOfGemmDoesNotGrowTheProduct) {
  auto gemm = [&](int64_t rows, const std::vector<Dim> &bias) {
    return oneNode(node("Gemm", {"a", "b", "c"}, {"y"}),
                   {valueInfo("a", kFloat, {rows, 3}), valueInfo("b", kFloat, {3, 5}),
                    valueInfo("c", kFloat, bias)});
  };
  EXPECT_HAS(moduleOf(gemm(1, {1, 5})), "-> (tensor<1x5xf32>");
  EXPECT_HAS(moduleOf(gemm(4, {4, 1})), "-> (tensor<4x5xf32>");
  EXPECT_HAS(moduleOf(gemm(4, {5})), "-> (tensor<4x5xf32>");
  EXPECT_EQ(errorOf(gemm(1, {4, 5})), ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(gemm(1, {4, 1})), ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(gemm(1, {1, 1, 5})), ErrorId::OnnxBadNode);
}

TEST_F(Numbers, IndicesFromTheStartAreNotNegative) {
  using Longs = std::vector<int64_t>;
  auto idOf = [&](const Message &n, const std::vector<Message> &infos,
                  const std::vector<reference::Tensor> &inputs) {
    return run(oneNode(n, infos, 24), inputs).status().id();
  };
  reference::Tensor x = tensor<float>(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  auto reversed = [&](int64_t length) {
    return idOf(node("ReverseSequence", {"a", "n"}, {"y"},
                     {attrInt("batch_axis", 0), attrInt("time_axis", 1)}),
                {valueInfo("a", kFloat, {2, 3}), valueInfo("n", kInt64, {2})},
                {x, tensor<int64_t>(DType::I64, {2}, Longs{length, 2})});
  };
  auto scattered = [&](int64_t place) {
    return idOf(node("TensorScatter", {"a", "u", "n"}, {"y"}, {attrInt("axis", 1)}),
                {valueInfo("a", kFloat, {2, 3}), valueInfo("u", kFloat, {2, 1}),
                 valueInfo("n", kInt64, {2})},
                {x, tensor<float>(DType::F32, {2, 1}, {8, 9}),
                 tensor<int64_t>(DType::I64, {2}, Longs{place, 2})});
  };
  auto turned = [&](int64_t position) {
    return idOf(node("RotaryEmbedding", {"a", "c", "s", "n"}, {"y"}),
                {valueInfo("a", kFloat, {1, 1, 2, 2}), valueInfo("c", kFloat, {3, 1}),
                 valueInfo("s", kFloat, {3, 1}), valueInfo("n", kInt64, {1, 2})},
                {tensor<float>(DType::F32, {1, 1, 2, 2}, {1, 2, 3, 4}),
                 tensor<float>(DType::F32, {3, 1}, {1, 0, 1}),
                 tensor<float>(DType::F32, {3, 1}, {0, 1, 0}),
                 tensor<int64_t>(DType::I64, {1, 2}, Longs{position, 1})});
  };
  auto unpooled = [&](int64_t place) {
    return idOf(node("MaxUnpool", {"a", "n"}, {"y"}, {attrInts("kernel_shape", {2})}),
                {valueInfo("a", kFloat, {1, 1, 2}), valueInfo("n", kInt64, {1, 1, 2})},
                {tensor<float>(DType::F32, {1, 1, 2}, {1, 2}),
                 tensor<int64_t>(DType::I64, {1, 1, 2}, Longs{place, 1})});
  };
  auto aligned = [&](int64_t image) {
    return idOf(node("RoiAlign", {"a", "r", "n"}, {"y"}, {attrInt("sampling_ratio", 1)}),
                {valueInfo("a", kFloat, {2, 1, 2, 2}), valueInfo("r", kFloat, {1, 4}),
                 valueInfo("n", kInt64, {1})},
                {tensor<float>(DType::F32, {2, 1, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                 tensor<float>(DType::F32, {1, 4}, {0, 0, 1, 1}),
                 tensor<int64_t>(DType::I64, {1}, Longs{image})});
  };
  auto expectRange = [](auto idFor, int64_t last) {
    for (int64_t good : {int64_t{0}, last}) {
      EXPECT_EQ(idFor(good), ErrorId::None) << good;
    }
    for (int64_t bad : {INT64_MIN, -last - 1, int64_t{-1}, last + 1, INT64_MAX}) {
      EXPECT_EQ(idFor(bad), ErrorId::RunIndexOutOfRange) << bad;
    }
  };
  expectRange(reversed, 3);
  expectRange(scattered, 2);
  expectRange(turned, 2);
  expectRange(unpooled, 2);
  for (auto [image, id] :
       {std::pair(-1, ErrorId::RunIndexOutOfRange), std::pair(0, ErrorId::None),
        std::pair(1, ErrorId::None), std::pair(2, ErrorId::RunIndexOutOfRange)}) {
    EXPECT_EQ(aligned(image), id) << image;
  }
}

TEST_F(Numbers, LengthsOfKeysAreChecked) {
  auto idOf = [&](int64_t keys) {
    std::vector<Message> infos;
    std::vector<reference::Tensor> inputs;
    for (const char *name : {"q", "k", "v"}) {
      infos.push_back(valueInfo(name, kFloat, {1, 1, 2, 2}));
      inputs.push_back(tensor<float>(DType::F32, {1, 1, 2, 2}, {1, 2, 3, 4}));
    }
    infos.push_back(valueInfo("n", kInt64, {1}));
    inputs.push_back(tensor<int64_t>(DType::I64, {1}, {keys}));
    return run(oneNode(node("Attention", {"q", "k", "v", "", "", "", "n"}, {"y"}), infos, 24),
               inputs)
        .status()
        .id();
  };
  EXPECT_EQ(idOf(1), ErrorId::None);
  EXPECT_EQ(idOf(2), ErrorId::None);
  EXPECT_EQ(idOf(-1), ErrorId::RunConstraint);
  EXPECT_EQ(idOf(3), ErrorId::RunConstraint);
}

TEST_F(Numbers, SamePaddingOfFreeSizes) {
  auto results = [&](const char *op, const std::vector<Message> &attributes, Dim size,
                     int64_t length, int64_t window) {
    Floats data, weight;
    for (int64_t i = 0; i < length; ++i) {
      data.push_back(float((i * 7) % 5) - 3);
    }
    for (int64_t i = 0; i < window; ++i) {
      weight.push_back(float(i + 1));
    }
    bool isConv = std::string(op) == "Conv";
    Message pool =
        node(op, isConv ? std::vector<std::string>{"a", "w"} : std::vector<std::string>{"a"}, {"y"},
             attributes);
    std::vector<Message> weights;
    if (isConv) {
      weights.push_back(floats("w", {1, 1, window}, weight));
    }
    Result<std::vector<reference::Tensor>> y =
        run(oneNode(pool, {valueInfo("a", kFloat, {1, 1, size})}, 20, weights),
            {tensor<float>(DType::F32, {1, 1, length}, data)});
    EXPECT_TRUE(y) << op << ": " << y.status().toString();
    const float *first = y ? (*y)[0].as<float>() : nullptr;
    return first ? Floats(first, first + (*y)[0].count()) : Floats();
  };
  for (const char *mode : {"SAME_UPPER", "SAME_LOWER"}) {
    for (auto [window, stride] :
         {std::pair(2, 2), std::pair(3, 2), std::pair(4, 3), std::pair(1, 2)}) {
      std::vector<Message> shared = {attrText("auto_pad", mode), attrInts("strides", {stride}),
                                     attrInts("kernel_shape", {window})};
      std::vector<Message> counting = shared;
      counting.push_back(attrInt("count_include_pad", 1));
      for (int64_t length = 3; length < 10; ++length) {
        for (const char *op : {"Conv", "MaxPool", "AveragePool", "LpPool"}) {
          EXPECT_EQ(results(op, shared, "L", length, window),
                    results(op, shared, length, length, window))
              << op << " " << mode << " " << window << " " << stride << " " << length;
        }
        EXPECT_EQ(results("AveragePool", counting, "L", length, window),
                  results("AveragePool", counting, length, length, window));
      }
    }
  }
}

TEST_F(Numbers, MoreThanTheDimHasIsAnError) {
  EXPECT_EQ(errorOf(oneNode(node("TopK", {"a", "k"}, {"y", "i"}), {valueInfo("a", kFloat, {4})}, 11,
                            {int64s("k", {5})})),
            ErrorId::OnnxBadNode);
}

} // namespace
} // namespace tenon::onnx::test
