// Every named value of a model: what the reference gives for it on some inputs, and its dims as an
// input of a part of the model can state them.
#pragma once

#include "compiler/frontend/onnx/wire/Pieces.h"
#include "tools/debug/Trial.h"

#include <map>

namespace tenon::debug {

struct RecordedValue {
  onnx::Port port;
  reference::Tensor tensor;
  bool isKnown = false; ///< without running the model
  bool isInput = false; ///< of the model
};

/// The symbols of the model with their ranges.
struct Recording {
  std::map<std::string, RecordedValue, std::less<>> values;
  std::map<std::string, std::pair<int64_t, int64_t>> ranges;
};

/// Values that are no tensors of numbers, or that the reference does not reach, are left out.
Result<Recording> recordValues(const Trial &trial);

/// The arguments of --shape for such inputs; none for inputs whose dims are all constants.
std::vector<ShapeArgument> shapesOf(const std::vector<onnx::Port> &inputs,
                                    const Recording &recording);

} // namespace tenon::debug
