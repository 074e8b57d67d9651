// What the user asks of `tenon quantize`, and what of that cannot be or says nothing.

#pragma once

#include "tools/tenon/quant/Calibrate.h"
#include "tools/tenon/quant/SearchOptions.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

struct QuantizeRequest {
  CalibrationRequest calibration;
  std::string output, ranges = "mse";
  std::string weightsOnly; ///< "8", "4", or empty
  std::string text;        ///< of a language model: a file to measure the loss on, or empty
  std::string precision = "int8", int4Form = "nbits";
  bool dynamic = false, perTensor = false;
  std::optional<double> percentile;
  std::vector<std::string> keep, narrow;
  bool reduceRange = false, noSmoothing = false, noBiasCorrection = false;
  SearchOptions search;
};

/// "model.int8.onnx" beside "model.onnx", or "model.w4.onnx" for weights alone.
std::string defaultOutput(const QuantizeRequest &request);
/// Options that would do nothing, or say two things of a layer.
Status checkRequest(const QuantizeRequest &request);
/// An error for an archive of torch.export that tells the way to ONNX.
Status checkIsOnnx(const std::string &model);
quant::Settings settingsOf(const QuantizeRequest &request);

} // namespace tenon::tool
