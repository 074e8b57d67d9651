// Calibration: the model, compiled with observers in place of its outputs, runs once over the
// samples. No activation leaves the engine, so that memory does not grow with samples or layers.

#pragma once

#include "compiler/quant/Quantize.h"
#include "tools/tenon/data/Dataset.h"

#include <string>
#include <vector>

namespace tenon::tool {

class TaskListener;

struct CalibrationRequest {
  std::string model;
  std::string data;
  size_t mostSamples = 0; ///< 0 for all
  unsigned threads = 0;
  bool useCache = true;
};

struct Calibration {
  std::vector<quant::Observed> seen; ///< by the quantizer's observations
  quant::Grams grams;                ///< of its gramTensors
  size_t runs = 0;
  size_t samples = 0;
  std::string fingerprint; ///< of the samples
  std::vector<std::string> warnings;
  double compileSeconds = 0, runSeconds = 0;
};

/// The inputs of the model, which a data set has to fill.
Result<std::vector<WantedInput>> wantedInputs(const quant::Quantizer &quantizer);

Result<Calibration> calibrate(const quant::Quantizer &quantizer, const CalibrationRequest &request,
                              TaskListener &listener);

} // namespace tenon::tool
