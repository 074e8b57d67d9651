// What `accuracy` prints: JSON, and the tables of the same.

#pragma once

#include "support/json/Json.h"

#include <string>

namespace tenon::tool {

/// A number, or null where it is none: JSON has no other.
Json finiteOrNull(double value);
/// The tables of tenon.accuracy/1.
std::string accuracyText(const Json &result);

} // namespace tenon::tool
