// Sizes and JSON as text.

#pragma once

#include "support/json/Json.h"
#include "support/text/ByteCount.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace tenon::tool {

/// A whole result: JSON with "schema": "tenon.<name>/1" as its first key.
std::string jsonText(std::string_view schema, Json value);

} // namespace tenon::tool
