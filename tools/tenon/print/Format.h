// Sizes and JSON as text.

#pragma once

#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::tool {

/// "12.3 MiB".
std::string formatBytes(uint64_t bytes);
/// A whole result: JSON with "schema": "tenon.<name>/1" as its first key.
std::string jsonText(std::string_view schema, Json value);

} // namespace tenon::tool
