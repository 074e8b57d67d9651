// Where nodes come from, by locations as the frontends of ONNX and of PyTorch's programs make them.

#include "compiler/graph/NodeOrigin.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace tenon::tn {
namespace {

class NodeOriginTest : public testing::Test {
protected:
  Location node(llvm::StringRef name, llvm::StringRef kind, unsigned line = 0) {
    SmallVector<Location> parts = {NameLoc::get(StringAttr::get(&context, name))};
    if (line > 0) {
      parts.push_back(FileLineColLoc::get(&context, "model.py", line, 0));
    }
    return FusedLoc::get(&context, parts, StringAttr::get(&context, kind));
  }

  MLIRContext context;
};

TEST_F(NodeOriginTest, OnnxNamesArePaths) {
  NodeOrigin origin = originOf(node("/encoder/layer.0/query/MatMul", "MatMul"));
  EXPECT_EQ(origin.names, std::vector<std::string>{"/encoder/layer.0/query/MatMul"});
  EXPECT_EQ(origin.kinds, std::vector<std::string>{"MatMul"});
  EXPECT_EQ(origin.module, "encoder/layer.0/query");
  EXPECT_EQ(origin.source, "");
  EXPECT_EQ(originOf(node("node_MatMul_3", "MatMul")).module, "");
  EXPECT_EQ(originOf(node("", "MatMul")).names.size(), 0u);
}

TEST_F(NodeOriginTest, ModulesOfPyTorchHaveDots) {
  NodeOrigin origin = originOf(node("encoder.layer.0.mlp.1.2/linear_3", "linear", 12));
  EXPECT_EQ(origin.module, "encoder/layer.0/mlp.1.2");
  EXPECT_EQ(origin.source, "model.py:12");
  EXPECT_EQ(originOf(node("0/relu", "relu")).module, "0");
  EXPECT_EQ(originOf(node("a./b", "relu")).module, "a");
}

TEST_F(NodeOriginTest, ModulesMayBeSaidBesideTheName) {
  Attribute info =
      ArrayAttr::get(&context, {StringAttr::get(&context, "Gemm"),
                                StringAttr::get(&context, "encoder.layer.0/node_linear_3")});
  NodeOrigin origin = originOf(
      FusedLoc::get(&context, {NameLoc::get(StringAttr::get(&context, "node_linear_3"))}, info));
  EXPECT_EQ(origin.names, std::vector<std::string>{"node_linear_3"});
  EXPECT_EQ(origin.kinds, std::vector<std::string>{"Gemm"});
  EXPECT_EQ(origin.module, "encoder/layer.0");
}

TEST_F(NodeOriginTest, AFusedOperationIsWhereMostOfItsNodesAre) {
  Location fused =
      FusedLoc::get(&context, {node("/a/b/Conv", "Conv", 7), node("/a/c/Relu", "Relu", 8),
                               node("/a/b/Conv", "Conv", 7)});
  NodeOrigin origin = originOf(fused);
  EXPECT_EQ(origin.names, (std::vector<std::string>{"/a/b/Conv", "/a/c/Relu"}));
  EXPECT_EQ(origin.kinds, (std::vector<std::string>{"Conv", "Relu"}));
  EXPECT_EQ(origin.module, "a");
  EXPECT_EQ(origin.source, "model.py:7");
  Location most = FusedLoc::get(&context, {node("/mask", "Where"), node("/a/b/MatMul", "MatMul"),
                                           node("/a/b/Softmax", "Softmax")});
  EXPECT_EQ(originOf(most).module, "a/b");
}

} // namespace
} // namespace tenon::tn
