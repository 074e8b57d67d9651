// Means with their intervals, as the verbs that measure language models show them.
#pragma once

#include "generate/session/Score.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <string>

namespace tenon::tool {

/// "0.941 (0.8 .. 1.08)"
std::string intervalText(double value, double low, double high);
std::string meanText(const generate::Mean &mean);
Json meanJson(const generate::Mean &mean);

} // namespace tenon::tool
