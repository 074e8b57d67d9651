// Fields of records that an engine carries: a missing one, or one of another kind, reads as
// nothing.

#pragma once

#include "tools/tenon/print/Format.h"

#include <cstdint>
#include <string>

namespace tenon::tool {

inline Json fieldAt(const Json &json, const char *key) {
  return json.is_object() ? json.value(key, Json()) : Json();
}

/// What is no text as JSON.
inline std::string textAt(const Json &json, const char *key) {
  Json value = fieldAt(json, key);
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : dumpJson(value);
}

inline int64_t numberAt(const Json &json, const char *key) {
  Json value = fieldAt(json, key);
  return value.is_number() ? value.get<int64_t>() : 0;
}

inline Json listAt(const Json &json, const char *key) {
  Json value = fieldAt(json, key);
  return value.is_array() ? value : Json::array();
}

} // namespace tenon::tool
