// Relies on views of a model pointing into its text, which stays where it is.
#include "compiler/quant/InnerModel.h"

#include "compiler/frontend/onnx/wire/Message.h"
#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/quant/Graph.h"

namespace tenon::quant {

using onnx::Message;

Result<std::unique_ptr<InnerModel>> InnerModel::read(const onnx::Model &outer,
                                                     const onnx::Graph &graph) {
  std::unique_ptr<InnerModel> result = std::make_unique<InnerModel>();
  Message whole;
  whole.varint(1, static_cast<uint64_t>(outer.irVersion));
  for (const onnx::OpsetImport &opset : outer.opsets) {
    whole.add(8, Message().text(1, opset.domain).varint(2, static_cast<uint64_t>(opset.version)));
  }
  whole.text(7, graph.bytes);
  result->text = whole.str();
  TENON_ASSIGN(result->own, onnx::readModel(result->bytes()));
  TENON_TRY(checkNodes(result->own.graph.nodes));
  return result;
}

} // namespace tenon::quant
