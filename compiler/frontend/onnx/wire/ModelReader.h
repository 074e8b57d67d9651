// Reads an ONNX file into the structs of Model.h, with limits on depth, counts and sizes, so that a
// hostile file costs a bounded amount of memory and gets one documented error.
#pragma once

#include "compiler/frontend/onnx/wire/Model.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

namespace tenon::onnx {

/// What a model may hold at most.
struct Limits {
  uint64_t fileBytes = uint64_t{1} << 31; ///< exclusive: protobuf's own limit
  unsigned depth = 24;                    ///< graphs inside graphs
  uint64_t nodes = uint64_t{1} << 17;
  uint64_t values = uint64_t{1} << 20; ///< tensors, value infos, attributes
  size_t nameBytes = 65535;
  size_t rank = 32;
};

/// The views in the result point into `file`.
Result<Model> readModel(Bytes file, const Limits &limits = {});
/// A lone TensorProto, as the node test suites store inputs and outputs.
Result<Tensor> readTensor(Bytes file, const Limits &limits = {});

} // namespace tenon::onnx
