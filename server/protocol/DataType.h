// The element types of KServe v2 ("FP32") and of config.pbtxt ("TYPE_FP32"), as those of Tenon.

#pragma once

#include "support/DType.h"

#include <optional>
#include <string_view>

namespace tenon::server {

/// "FP32"; empty for a type that the protocol has no name for.
std::string_view protocolName(DType type);
/// None for an unknown name, and for BYTES, which no engine has.
std::optional<DType> parseProtocolName(std::string_view name);

} // namespace tenon::server
