// What a GPU's kernel is predicted to spend its time on, for people.

#pragma once

#include "support/json/Json.h"

#include <string>

namespace tenon::tool {

/// An indented line of a candidate of the record "fusion"; empty where its family does not say.
std::string partsText(const Json &candidate);

} // namespace tenon::tool
