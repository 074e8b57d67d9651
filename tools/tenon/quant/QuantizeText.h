// What quantizing says of its work: for programs and for people.

#pragma once

#include "compiler/quant/Quantize.h"
#include "support/json/Json.h"
#include "tools/tenon/quant/QuantizeRequest.h"

#include <cstdint>
#include <string>

namespace tenon::tool {

struct Quantized {
  const quant::QuantizationInfo &info;
  const Calibration &calibration;
  uint64_t before = 0, after = 0; ///< bytes of the model
};

/// tenon.quantize/1 without its schema.
Json quantizedJson(const QuantizeRequest &request, const Quantized &outcome);
std::string quantizedText(const QuantizeRequest &request, const Quantized &outcome);

} // namespace tenon::tool
