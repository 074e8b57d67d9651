// What a model and its quantized form are and cost, side by side: accuracy, latency, file, memory.

#pragma once

#include "support/files/AtomicFile.h"
#include "support/json/Json.h"
#include "tools/tenon/quant/Evaluator.h"
#include "tools/tenon/quant/Form.h"
#include "tools/tenon/task/TaskListener.h"

#include <optional>
#include <string>

namespace tenon::tool {

struct BeforeAfterRequest {
  std::string model, output; ///< ONNX
  std::string data, metric;  ///< as Evaluator takes them
  FormOptions options;
};

/// Compiles and measures both.
Result<Json> measureBeforeAfter(const BeforeAfterRequest &request, TaskListener &listener);

/// The page about tenon.quantize/1, where there is a file for it; both models are measured if the
/// output was written and there are data.
Status writeReport(const BeforeAfterRequest &request, std::optional<AtomicFile> &page, Json json,
                   TaskListener &listener);

} // namespace tenon::tool
