// A changed model that is larger than a file may be: whoever asked for it says what to do.
#include "compiler/quant/ModelEdit.h"

#include "compiler/frontend/onnx/wire/ModelReader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>

using namespace tenon;

namespace {

/// y = Relu(x), as ONNX's protobuf has it.
std::string reluModel() {
  onnx::Message node = quant::nodeMessage("Relu", "relu", std::vector<std::string>{"x"}, "y");
  onnx::Message graph, opset;
  graph.add(1, node).text(2, "g").add(11, onnx::Message().text(1, "x"));
  graph.add(12, onnx::Message().text(1, "y"));
  opset.varint(2, 17);
  return onnx::Message().varint(1, 8).add(7, graph).add(8, opset).str();
}

/// A file in memory.
class MemorySink : public quant::ConstantSink {
public:
  std::string location() const override { return "weights.data"; }
  Status append(Bytes more) override {
    bytes.insert(bytes.end(), more.begin(), more.end());
    return Status::ok();
  }
  uint64_t size() const override { return bytes.size(); }

  std::vector<std::byte> bytes;
};

} // namespace

TEST(ModelEdit, TheRemedyOfALargeModelIsTheCallers) {
  std::string file = reluModel();
  Bytes bytes = std::as_bytes(std::span(file));
  Result<onnx::Model> model = onnx::readModel(bytes);
  ASSERT_TRUE(model.isOk()) << model.status().toString();
  quant::Graph graph(*model);
  quant::ModelEdit edit(bytes, *model, graph);
  onnx::ExternalFiles files(".");
  Result<std::string> written = edit.write(files, "prune more of it");
  ASSERT_TRUE(written.isOk()) << written.status().toString();
  Result<std::string> same = edit.write(files, "prune more of it", nullptr, written->size());
  EXPECT_TRUE(same.isOk());
  Result<std::string> large = edit.write(files, "prune more of it", nullptr, written->size() - 1);
  ASSERT_FALSE(large.isOk());
  EXPECT_EQ(large.status().id(), ErrorId::OnnxTooLarge);
  EXPECT_EQ(large.status().hint(), "prune more of it");
  EXPECT_EQ(large.status().message().find("quantize"), std::string_view::npos);
}

TEST(ModelEdit, ConstantsThatAFileHasNoRoomForGoBesideIt) {
  std::string file = reluModel();
  Bytes bytes = std::as_bytes(std::span(file));
  Result<onnx::Model> model = onnx::readModel(bytes);
  ASSERT_TRUE(model.isOk()) << model.status().toString();
  quant::Graph graph(*model);
  quant::ModelEdit edit(bytes, *model, graph);
  std::vector<float> large(1024, 2.5F), small(4, 1.5F);
  std::vector<int64_t> largeDims = {32, 32}, smallDims = {4};
  edit.addConstant("first", onnx::DataType::Float, largeDims, quant::bytesOf(large));
  edit.addConstant("small", onnx::DataType::Float, smallDims, quant::bytesOf(small));
  edit.addConstant("second", onnx::DataType::Float, largeDims, quant::bytesOf(large));
  onnx::ExternalFiles files(".");
  MemorySink sink;
  Result<std::string> whole = edit.write(files, "", &sink);
  ASSERT_TRUE(whole.isOk());
  EXPECT_EQ(sink.size(), 0U);
  Result<std::string> split = edit.write(files, "", &sink, whole->size() / 2);
  ASSERT_TRUE(split.isOk()) << split.status().toString();
  Result<onnx::Model> read = onnx::readModel(std::as_bytes(std::span(*split)));
  ASSERT_TRUE(read.isOk()) << read.status().toString();
  ASSERT_EQ(read->graph.initializers.size(), 3U);
  EXPECT_FALSE(read->graph.initializers[1].external);
  for (size_t i : {size_t{0}, size_t{2}}) {
    const onnx::Tensor &tensor = read->graph.initializers[i];
    EXPECT_EQ(tensor.dims, largeDims);
    Result<onnx::ExternalLocation> where = onnx::parseExternalLocation(tensor);
    ASSERT_TRUE(where.isOk()) << where.status().toString();
    EXPECT_EQ(where->location, "weights.data");
    EXPECT_EQ(where->offset % 4096, 0U);
    EXPECT_EQ(where->length, 4096U);
    ASSERT_LE(where->offset + where->length, sink.size());
    EXPECT_EQ(std::memcmp(sink.bytes.data() + where->offset, large.data(), where->length), 0);
  }
}
