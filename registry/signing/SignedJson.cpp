#include "registry/signing/SignedJson.h"

#include "support/json/StrictJson.h"

#include <fmt/format.h>

namespace tenon::signing {

Status parseSignedJson(std::string_view text, std::string_view what, Json &value) {
  constexpr JsonLimits kLimits = {.maxDepth = 16, .isObject = true, .acceptsByteOrderMark = false};
  std::optional<JsonFault> fault = parseStrict(text, kLimits, value);
  if (!fault) {
    return Status::ok();
  }
  std::string_view why = fault->kind == JsonFault::Kind::Depth       ? "is nested too deeply"
                         : fault->kind == JsonFault::Kind::EqualKeys ? "has a duplicate key"
                                                                     : "is not a JSON object";
  return Status::error(ErrorId::SignatureWrong, fmt::format("{} {}", what, why),
                       "sign the model again with `tenon sign`");
}

const Json &member(const Json &object, const char *name) {
  static const Json kNone;
  Json::const_iterator found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : kNone;
}

std::string textOf(const Json &object, const char *name) {
  const Json &value = member(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

} // namespace tenon::signing
