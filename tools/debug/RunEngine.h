// One run of an engine file on tensors of the reference.
#pragma once

#include "tools/debug/ReferenceModel.h"

namespace tenon::debug {

/// The outputs in the engine's order. `variant` is empty for the best that this machine runs.
Result<std::vector<NamedTensor>> runEngine(const std::string &path, const std::string &variant,
                                           unsigned threads,
                                           const std::vector<NamedTensor> &inputs);

} // namespace tenon::debug
