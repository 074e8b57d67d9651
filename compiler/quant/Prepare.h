// A model in the form that quantization and pruning look at: of an opset that they know, without
// nodes that compute constants.
#pragma once

#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <string>

namespace tenon::quant {

/// The file of that model, for the same folder of external data; empty if `file` is one. An error
/// for what opset `least` has no equal for. With `keepsNames` stored tensors that nodes give dims
/// of 1 stay what they are, so that they are found by their names.
Result<std::string> prepareModel(Bytes file, const std::string &folder, int64_t least,
                                 bool keepsNames);

} // namespace tenon::quant
