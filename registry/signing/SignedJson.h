// JSON of signatures, read strictly, and access to its members.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace tenon::signing {

/// TN1016 where the text is no JSON object, or one that can be read in two ways; `what` begins the
/// message.
Status parseSignedJson(std::string_view text, std::string_view what, Json &value);

/// A value of an object; null where it is not there, or `object` is none.
const Json &member(const Json &object, const char *name);
/// The text of a value; empty where it is none.
std::string textOf(const Json &object, const char *name);

} // namespace tenon::signing
