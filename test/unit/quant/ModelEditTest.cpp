// A changed model that is larger than a file may be: whoever asked for it says what to do.
#include "compiler/quant/ModelEdit.h"

#include "compiler/frontend/onnx/wire/ModelReader.h"

#include <gtest/gtest.h>

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
  Result<std::string> same = edit.write(files, "prune more of it", written->size());
  EXPECT_TRUE(same.isOk());
  Result<std::string> large = edit.write(files, "prune more of it", written->size() - 1);
  ASSERT_FALSE(large.isOk());
  EXPECT_EQ(large.status().id(), ErrorId::OnnxTooLarge);
  EXPECT_EQ(large.status().hint(), "prune more of it");
  EXPECT_EQ(large.status().message().find("quantize"), std::string_view::npos);
}
