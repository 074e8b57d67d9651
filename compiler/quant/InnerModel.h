// Graphs inside of nodes, as models that can be read and changed like others.
#pragma once

#include "compiler/frontend/onnx/wire/Model.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <memory>
#include <span>
#include <string>

namespace tenon::quant {

/// A graph inside of a node as a model of its own, which names no inputs for what it reads from
/// around it.
class InnerModel {
public:
  static Result<std::unique_ptr<InnerModel>> read(const onnx::Model &outer,
                                                  const onnx::Graph &graph);
  Bytes bytes() const { return std::as_bytes(std::span(text)); }
  const onnx::Model &model() const { return own; }

private:
  std::string text;
  onnx::Model own;
};

} // namespace tenon::quant
