// Data sets as files: what is read from a good one, and what is said of each bad one.

#include "tools/tenon/data/Dataset.h"
#include "runtime/tensors/Npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

namespace tenon::tool {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class DatasetTest : public testing::Test {
protected:
  ~DatasetTest() override { std::filesystem::remove(path); }

  /// Counts up from 0.
  static Tensor counting(const std::string &name, DType dtype, std::vector<int64_t> dims) {
    Tensor tensor = std::move(*Tensor::create(name, dtype, std::move(dims)));
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      setElement(tensor, i, static_cast<double>(dtype == DType::U8 ? i % 256 : i));
    }
    return tensor;
  }

  Result<Dataset> open(std::vector<WantedInput> wanted, const std::vector<Tensor> &arrays) {
    EXPECT_TRUE(writeNpz(path, arrays).isOk());
    return Dataset::open(path, std::move(wanted));
  }

  void expectError(std::vector<WantedInput> wanted, const std::vector<Tensor> &arrays, ErrorId id,
                   const std::string &part) {
    Result<Dataset> result = open(std::move(wanted), arrays);
    ASSERT_FALSE(result.isOk());
    EXPECT_EQ(result.status().id(), id) << result.status().toString();
    EXPECT_NE(result.status().toString().find(part), std::string::npos)
        << result.status().toString();
  }

  std::string path = testing::TempDir() + "dataset" + std::to_string(getpid()) + ".npz";
};

template <typename... Tensors> std::vector<Tensor> list(Tensors... tensors) {
  std::vector<Tensor> result;
  (result.push_back(std::move(tensors)), ...);
  return result;
}

TEST_F(DatasetTest, BatchesHoldTheSamplesInTheirOrder) {
  Result<Dataset> data =
      open({{"x", DType::F32, {-1, 3}}},
           list(counting("x", DType::F32, {5, 3}), counting("labels", DType::I64, {5})));
  ASSERT_TRUE(data.isOk()) << data.status().toString();
  EXPECT_EQ(data->samples(), 5u);
  ASSERT_TRUE(data->labels().has_value());
  EXPECT_EQ(elementAsDouble(*data->labels(), 4), 4);
  Result<Batch> batch = data->read(3, 4);
  ASSERT_TRUE(batch.isOk());
  EXPECT_EQ(batch->samples, 2u);
  EXPECT_EQ(batch->inputs[0].dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(elementAsDouble(batch->inputs[0], 0), 9);
  EXPECT_TRUE(data->warnings().empty());
}

TEST_F(DatasetTest, AnyNameServesTheOnlyInput) {
  Result<Dataset> data =
      open({{"image", DType::F32, {-1, 3}}}, list(counting("data", DType::F32, {5, 3})));
  EXPECT_TRUE(data.isOk()) << data.status().toString();
}

TEST_F(DatasetTest, AFixedBatchIsFilledWithTheLastSample) {
  Result<Dataset> data =
      open({{"x", DType::F32, {4, 2}, 4, 4}}, list(counting("x", DType::F32, {6, 2})));
  ASSERT_TRUE(data.isOk());
  Result<Batch> batch = data->read(4, 100);
  EXPECT_EQ(batch->samples, 2u);
  EXPECT_EQ(batch->inputs[0].dims, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(elementAsDouble(batch->inputs[0], 6), 10);
}

TEST_F(DatasetTest, ASampleMayBeAWholeInput) {
  Result<Dataset> data =
      open({{"x", DType::F32, {2, 3}, 2, 2}}, list(counting("x", DType::F32, {4, 2, 3})));
  ASSERT_TRUE(data.isOk());
  Result<Batch> batch = data->read(1, 100);
  EXPECT_EQ(batch->samples, 1u);
  EXPECT_EQ(batch->inputs[0].dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(elementAsDouble(batch->inputs[0], 0), 6);
}

TEST_F(DatasetTest, WhatDoesNotFitIsNamed) {
  std::vector<WantedInput> pictures = {{"image", DType::F32, {-1, 3, 8, 6}}};
  expectError(pictures, list(counting("image", DType::F32, {2, 8, 6, 3})), ErrorId::BadDataset,
              "NHWC");
  expectError({{"image", DType::F32, {-1, 8, 6, 3}}},
              list(counting("image", DType::F32, {2, 3, 8, 6})), ErrorId::BadDataset,
              "transpose(0, 2, 3, 1)");
  expectError(pictures, list(counting("image", DType::F32, {2, 3, 8, 7})), ErrorId::BadDataset,
              "3x8x7");
  expectError(pictures, list(counting("image", DType::U8, {2, 3, 8, 6})), ErrorId::WrongTensorType,
              "pixels");
  expectError(pictures, list(counting("image", DType::F64, {2, 3, 8, 6})), ErrorId::WrongTensorType,
              "numpy.float32");
  expectError(pictures, list(counting("image", DType::F32, {0, 3, 8, 6})), ErrorId::BadDataset,
              "empty");
  expectError(pictures,
              list(counting("image", DType::F32, {2, 3, 8, 6}), counting("y", DType::I64, {3})),
              ErrorId::BadDataset, "a label for each sample");
  std::vector<WantedInput> two = {{"ids", DType::I64, {-1, 3}}, {"mask", DType::I64, {-1, 3}}};
  expectError(two, list(counting("ids", DType::I64, {2, 3})), ErrorId::BadDataset,
              "no array for the input 'mask'");
  expectError(two, list(counting("ids", DType::I64, {2, 3}), counting("msk", DType::I64, {2, 3})),
              ErrorId::BadDataset, "did you mean 'msk'");
  expectError(two, list(counting("ids", DType::I64, {2, 3}), counting("mask", DType::I64, {3, 3})),
              ErrorId::BadDataset, "'mask' has 3 samples, but 'ids' has 2");
}

TEST_F(DatasetTest, NumbersThatAreNoneAreFound) {
  std::vector<WantedInput> wanted = {{"x", DType::F32, {-1, 3}}};
  Tensor broken = counting("x", DType::F32, {4, 3});
  setElement(broken, 7, kNan);
  expectError(wanted, list(std::move(broken)), ErrorId::BadSampleValue,
              "not a number in sample 2, element 1");
  Tensor large = counting("x", DType::F32, {4, 3});
  setElement(large, 3, kInfinity);
  expectError(wanted, list(std::move(large)), ErrorId::BadSampleValue,
              "infinite in sample 1, element 0");
  Tensor mask = std::move(*Tensor::create("x", DType::F32, {4, 3}));
  setElement(mask, 5, -kInfinity);
  EXPECT_TRUE(open(wanted, list(std::move(mask))).isOk());
}

TEST_F(DatasetTest, WhatNeverChangesIsWarnedOf) {
  std::vector<WantedInput> wanted = {{"x", DType::F32, {-1, 3}}};
  Result<Dataset> data = open(wanted, list(std::move(*Tensor::create("x", DType::F32, {4, 3}))));
  ASSERT_TRUE(data.isOk());
  ASSERT_EQ(data->warnings().size(), 2u);
  EXPECT_NE(data->warnings()[0].find("everywhere"), std::string::npos);
  EXPECT_NE(data->warnings()[1].find("all 4 samples are the same"), std::string::npos);
}

TEST_F(DatasetTest, SharedSamplesAreFoundWhateverTheirPlace) {
  std::vector<WantedInput> wanted = {{"x", DType::F32, {-1, 3}}};
  Result<Dataset> all = open(wanted, list(counting("x", DType::F32, {300, 3})));
  ASSERT_TRUE(all.isOk());
  Result<std::string> fingerprint = all->fingerprint(all->samples());
  EXPECT_EQ(*all->shareOf(*fingerprint), 1);
  Result<Dataset> half = open(wanted, list(counting("x", DType::F32, {150, 3})));
  EXPECT_NEAR(*half->shareOf(*fingerprint), 0.5, 0.02);
  EXPECT_EQ(*all->shareOf(*half->fingerprint(half->samples())), 1);
  // That of the first samples does not know the others.
  std::string first = *all->fingerprint(8);
  EXPECT_EQ(*half->shareOf(first), 1);
  EXPECT_EQ(*open(wanted, list(counting("x", DType::F32, {8, 3})))->shareOf(first), 1);
  Tensor others = counting("x", DType::F32, {300, 3});
  for (int64_t i = 0; i < others.elements(); ++i) {
    setElement(others, i, -1 - static_cast<double>(i));
  }
  EXPECT_EQ(*open(wanted, list(std::move(others)))->shareOf(*fingerprint), 0);
}

} // namespace
} // namespace tenon::tool
