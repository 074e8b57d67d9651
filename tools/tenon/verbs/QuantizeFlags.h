// What the user asks of `tenon quantize`, and what of that cannot be or says nothing.

#pragma once

#include "tools/tenon/quant/Calibrate.h"
#include "tools/tenon/verbs/SearchFlags.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

struct QuantizeFlags {
  CalibrationRequest request;
  std::string output, ranges = "mse";
  uint64_t samples = 0;
  std::string weightsOnly; ///< "8", "4", or empty
  std::string precision = "int8", int4Form = "nbits";
  bool dynamic = false, perTensor = false;
  std::optional<double> percentile;
  std::vector<std::string> keep, narrow;
  bool noCache = false, reduceRange = false, noSmoothing = false, noBiasCorrection = false;
  SearchFlags search;
};

/// "model.int8.onnx" beside "model.onnx", or "model.w4.onnx" for weights alone.
std::string defaultOutput(const QuantizeFlags &flags);
/// Options that would do nothing, or say two things of a layer.
Status checkFlags(const QuantizeFlags &flags);
/// An error for an archive of torch.export that tells the way to ONNX.
Status checkIsOnnx(const std::string &model);
quant::Settings settingsOf(const QuantizeFlags &flags);

} // namespace tenon::tool
