// Seeded inputs, free dimensions and pictures.

#include "runtime/tensors/Image.h"
#include "runtime/tensors/Npy.h"
#include "runtime/tensors/Seeded.h"

#include <gtest/gtest.h>

#include <bit>
#include <fstream>

namespace tenon::tool {
namespace {

Tensor seeded(DType dtype, int64_t count, ValueRange range, uint64_t seed = 0) {
  Result<Tensor> tensor = Tensor::create("encoder.weight", dtype, {count});
  fillSeeded(*tensor, seed, range);
  return std::move(*tensor);
}

TEST(Seeded, FollowsTheGeneratorOfTheModels) {
  // models/README.md gives these bits for scale 0.05 and center 1; the range [-1, 1) is scale 1,
  // center 0.
  const uint32_t documented[] = {0x3f7cce10, 0x3f8616b3, 0x3f855795, 0x3f842597};
  Tensor unit = seeded(DType::F64, 4, {-1, 1});
  for (int64_t i = 0; i < 4; ++i) {
    double value = 1 + static_cast<double>(0.05f) * elementAsDouble(unit, i);
    EXPECT_EQ(std::bit_cast<uint32_t>(static_cast<float>(value)), documented[i]) << i;
  }
}

TEST(Seeded, IntegersCoverTheirRangeAndStayInside) {
  Tensor ids = seeded(DType::I64, 20000, {0, 9});
  std::vector<int> counts(10);
  for (int64_t i = 0; i < ids.elements(); ++i) {
    double value = elementAsDouble(ids, i);
    ASSERT_GE(value, 0);
    ASSERT_LE(value, 9);
    ++counts[static_cast<size_t>(value)];
  }
  for (int count : counts) {
    EXPECT_NEAR(count, 2000, 200);
  }
}

TEST(Seeded, DependsOnTheSeed) {
  Tensor first = seeded(DType::F32, 100, {-1, 1}, 1);
  Tensor second = seeded(DType::F32, 100, {-1, 1}, 2);
  EXPECT_NE(elementAsDouble(first, 0), elementAsDouble(second, 0));
}

/// One input "x" of [batch in 2..8, length in 1..512, 3] and one "y" of [batch, 2 * length].
engine::Plan makePlan() {
  engine::Plan plan;
  plan.symbols = {{"batch", 2, 8, 0, 0}, {"length", 1, 512, 0, 1}};
  engine::ExprId batch = plan.exprs.symbol(0);
  engine::ExprId length = plan.exprs.symbol(1);
  plan.inputs.resize(2);
  plan.inputs[0].name = "x";
  plan.inputs[0].dims = {batch, length, plan.exprs.constant(3)};
  plan.inputs[1].name = "y";
  plan.inputs[1].dims = {batch, plan.exprs.mul(length, plan.exprs.constant(2))};
  return plan;
}

using Dims = std::vector<std::vector<int64_t>>;

Result<Dims> choose(const std::vector<std::string> &texts, int64_t batch) {
  std::vector<ShapeArgument> shapes;
  for (const std::string &text : texts) {
    shapes.push_back(*parseShapeArgument(text));
  }
  return chooseDims(makePlan(), shapes, batch);
}

TEST(Seeded, RangesFitTheirType) {
  EXPECT_TRUE(holds(DType::I8, {-128, 127}));
  EXPECT_FALSE(holds(DType::I8, {0, 128}));
  EXPECT_FALSE(holds(DType::U16, {-1, 1}));
  EXPECT_FALSE(holds(DType::I64, {0, 1e19}));
  EXPECT_FALSE(holds(DType::F32, {0, 1e300}));
  EXPECT_TRUE(holds(DType::F64, {0, 1e300}));
  EXPECT_FALSE(holds(DType::Bool, {0, 2}));
}

TEST(ChooseDims, TakesTheSmallestBatchAndAUsualLength) {
  EXPECT_EQ(*choose({}, 0), (Dims{{2, 128, 3}, {2, 256}}));
}

TEST(ChooseDims, FollowsShapeAndBatch) {
  EXPECT_EQ(*choose({"x:?x7x3"}, 5), (Dims{{5, 7, 3}, {5, 14}}));
}

TEST(ChooseDims, RefusesWhatTheEngineLacks) {
  EXPECT_EQ(choose({"x:1x1x4"}, 0).status().id(), ErrorId::RunInputDim);
  EXPECT_EQ(choose({"x:1x1"}, 0).status().id(), ErrorId::RunInputRank);
  EXPECT_EQ(choose({"z:1"}, 0).status().id(), ErrorId::BadArgument);
  EXPECT_EQ(choose({}, 9).status().id(), ErrorId::RunInputDim);
  EXPECT_EQ(choose({"y:5x7"}, 0).status().id(), ErrorId::RunInputMismatch);
  EXPECT_EQ(choose({"x:5x7x3", "y:6x14"}, 0).status().id(), ErrorId::RunInputMismatch);
}

/// The smallest PNG: 2 by 1 pixels, gray 0 and 255.
std::string writePng() {
  const unsigned char bytes[] = {
      0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
      0x44, 0x52, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, 0x00, 0x00,
      0x00, 0xd1, 0x49, 0x20, 0x56, 0x00, 0x00, 0x00, 0x0b, 0x49, 0x44, 0x41, 0x54, 0x78,
      0x9c, 0x63, 0x60, 0xf8, 0x0f, 0x00, 0x01, 0x02, 0x01, 0x00, 0x42, 0xbe, 0xbc, 0x68,
      0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
  std::string path = ::testing::TempDir() + "/two.png";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(bytes), sizeof(bytes));
  return path;
}

TEST(Image, SaysWhatItNeeds) {
  std::string path = writePng();
  Preprocessing none;
  EXPECT_EQ(loadImage(path, none, DType::F32, {1, 1, 1, 2}).status().id(),
            ErrorId::ImageNeedsPreprocessing);
  Preprocessing given = parsePreprocessing(R"({"mean":[0.5],"std":0.25,"layout":"nchw"})");
  EXPECT_EQ(loadImage(path, given, DType::F32, {1, 1, 2, 2}).status().id(),
            ErrorId::ImageNeedsPreprocessing);
  EXPECT_EQ(loadImage(path, given, DType::F32, {1, 5, 1, 2}).status().id(),
            ErrorId::ImageNeedsPreprocessing);
  EXPECT_EQ(loadImage(path, given, DType::I64, {1, 1, 1, 2}).status().id(), ErrorId::BadArgument);
  EXPECT_TRUE(parsePreprocessing("pictures, divided by 255").mean.empty());
}

TEST(Image, NormalizesAndOrdersPixels) {
  std::string path = writePng();
  Preprocessing given = parsePreprocessing(R"({"mean":[0.5],"std":0.25,"layout":"nchw"})");
  Result<Tensor> tensor = loadImage(path, given, DType::F32, {-1, 1, 1, 2});
  ASSERT_TRUE(tensor.isOk()) << tensor.status().toString();
  EXPECT_EQ(tensor->dims, (std::vector<int64_t>{1, 1, 1, 2}));
  EXPECT_EQ(elementAsDouble(*tensor, 0), -2);
  EXPECT_EQ(elementAsDouble(*tensor, 1), 2);
  given.layout = ImageLayout::Nhwc;
  given.deviation = {0.25, 0.5, 1};
  tensor = loadImage(path, given, DType::F32, {1, -1, -1, 3});
  ASSERT_TRUE(tensor.isOk()) << tensor.status().toString();
  EXPECT_EQ(tensor->dims, (std::vector<int64_t>{1, 1, 2, 3}));
  EXPECT_EQ(elementAsDouble(*tensor, 3), 2);
  EXPECT_EQ(elementAsDouble(*tensor, 5), 0.5);
}

TEST(Image, StretchesOnlyWhenAsked) {
  std::string path = writePng();
  Preprocessing given =
      parsePreprocessing(R"({"mean":[0],"std":[1],"layout":"nchw","resize":true})");
  Result<Tensor> tensor = loadImage(path, given, DType::F32, {1, 1, 4, 4});
  ASSERT_TRUE(tensor.isOk()) << tensor.status().toString();
  EXPECT_EQ(elementAsDouble(*tensor, 0), 0);
  EXPECT_EQ(elementAsDouble(*tensor, 15), 1);
}

} // namespace
} // namespace tenon::tool
