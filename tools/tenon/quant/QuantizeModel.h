// A model and samples become a model in 8 bits, with a reason for each layer that stays wide.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"
#include "tools/tenon/quant/QuantizeRequest.h"
#include "tools/tenon/task/TaskListener.h"

#include <nlohmann/json.hpp>

#include <string>

namespace tenon::tool {

struct QuantizedModel {
  Json json;        ///< tenon.quantize/1 without its schema
  std::string text; ///< the same for people
  Status verdict;   ///< of a search: why it chose nothing; ok where the output was written
};

/// Writes the output, and the page where one is asked for. An empty output is defaultOutput's.
Result<QuantizedModel> quantizeModel(QuantizeRequest request, TaskListener &listener);

} // namespace tenon::tool
