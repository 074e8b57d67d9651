// A language model becomes one whose matrices are in blocks of few bits, with what that costs.
#pragma once

#include "tools/tenon/quant/QuantizeModel.h"

#include <string>

namespace tenon::tool {

/// Whether a path is that of a GGUF file or of a folder.
bool isLanguageModel(const std::string &path);

/// Writes GGUF. TN0105 for options that are those of other models, and for an output in another
/// format.
Result<QuantizedModel> quantizeLanguage(QuantizeRequest request, TaskListener &listener);

} // namespace tenon::tool
