// What `--allow` changes is told by the engine, also where the model's own precision is kept.
// Relies on a model in text form, as phases are dumped.
#include "TemporaryFolder.h"
#include "compiler/pipeline/Pipeline.h"
#include "engine/Reader.h"
#include "llvm/Support/JSON.h"

#include <fstream>
#include <gtest/gtest.h>

using namespace tenon;

namespace {

constexpr const char *kModel = R"(
module attributes {tn.phase = "import"} {
  func.func @main(%x: tensor<8xf16> {tn.name = "x"}) -> (tensor<8xf16> {tn.name = "y"}) {
    %y = tn.gelu %x : tensor<8xf16>
    return %y : tensor<8xf16>
  }
})";

constexpr const char *kConvolution = R"(
module attributes {tn.phase = "import"} {
  func.func @main(%x: tensor<1x64x40x40xf32> {tn.name = "x"}) -> (tensor<1x64x40x40xf32> {tn.name = "y"}) {
    %w = tn.constant dense<0.25> : tensor<64x64x3x3xf32> : tensor<64x64x3x3xf32>
    %y = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x64x40x40xf32>, tensor<64x64x3x3xf32>) -> tensor<1x64x40x40xf32>
    return %y : tensor<1x64x40x40xf32>
  }
})";

class ApproximationTest : public testing::Test {
protected:
  /// The record `precision` of a model that is compiled as it is; none if there is none.
  std::optional<std::string> recordOf(bool allowsTanh, const char *model = kModel,
                                      std::vector<std::string> disabled = {}) {
    std::ofstream(folder.path("model.mlir")) << model;
    pipeline::CompileOptions options;
    options.model = folder.path("model.mlir");
    options.output = folder.path("model.tenon");
    options.levels = {engine::CpuLevel::X86_64_V3};
    options.allowTanhGelu = allowsTanh;
    options.disabledFamilies = std::move(disabled);
    options.verify = true;
    Result<pipeline::CompileSummary> summary = pipeline::compile(options);
    EXPECT_TRUE(summary) << summary.status().toString();
    Result<std::unique_ptr<engine::EngineFile>> file = engine::EngineFile::open(options.output);
    EXPECT_TRUE(file) << file.status().toString();
    Result<std::string_view> record = (*file)->record("precision");
    return record ? std::optional(std::string(*record)) : std::nullopt;
  }

  TemporaryFolder folder;
};

TEST_F(ApproximationTest, OfAModelThatIsNarrowItselfIsRecorded) {
  std::optional<std::string> record = recordOf(true);
  ASSERT_TRUE(record);
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(*record);
  ASSERT_TRUE(static_cast<bool>(parsed));
  const llvm::json::Object &object = *parsed->getAsObject();
  EXPECT_EQ(object.getString("precision"), "keep");
  EXPECT_EQ(object.getInteger("narrow_operations"), 0);
  const llvm::json::Array &approximated = *object.getArray("approximated");
  ASSERT_EQ(approximated.size(), 1u);
  EXPECT_EQ(approximated[0].getAsObject()->getString("rule"), "tanh-gelu");
}

TEST_F(ApproximationTest, ConvolutionsByWinogradsFilteringAreRecorded) {
  std::optional<std::string> record = recordOf(false, kConvolution);
  ASSERT_TRUE(record);
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(*record);
  ASSERT_TRUE(static_cast<bool>(parsed));
  const llvm::json::Array &approximated = *parsed->getAsObject()->getArray("approximated");
  ASSERT_EQ(approximated.size(), 1u);
  EXPECT_EQ(approximated[0].getAsObject()->getString("rule"), "winograd");
  EXPECT_FALSE(recordOf(false, kConvolution, {"conv_winograd2", "conv_winograd4"}));
}

TEST_F(ApproximationTest, IsNotRecordedWhereNothingWasAllowed) { EXPECT_FALSE(recordOf(false)); }

} // namespace
