// Implements the checked access over nlohmann's values, without its exceptions.
#include "compiler/frontend/pt2/wire/Json.h"

#include "support/json/StrictJson.h"
#include "support/text/Text.h"

#include <limits>

namespace tenon::pt2 {
namespace {

constexpr const char *kHint = "save the program again with torch.export.save";

const Json kNothing;

/// Of lists and objects in each other; those of a program are in each other about ten times for
/// each graph within a graph.
constexpr size_t kMaxDepth = 1000;

} // namespace

Result<Json> parseProgramJson(std::string_view text, std::string_view what) {
  Json value;
  std::optional<JsonFault> fault = parseStrict(text, {.maxDepth = kMaxDepth}, value);
  if (!fault) {
    return value;
  }
  std::string_view why = fault->kind == JsonFault::Kind::EqualKeys
                             ? "has an object with one key twice"
                         : fault->kind == JsonFault::Kind::Depth ? "is nested too deeply"
                                                                 : "is not valid JSON";
  return Status::error(ErrorId::Pt2BadGraph, strCat("'", what, "' ", why), kHint);
}

void JsonReader::fail(std::string_view where, std::string_view what) {
  if (!failed()) {
    failure = Status::error(ErrorId::Pt2BadGraph, strCat("'", where, "' ", what), kHint);
  }
}

const Json *JsonReader::optionalMember(const Json &object, const char *name) {
  if (!object.is_object()) {
    fail(name, "is requested from a value that is not an object");
    return nullptr;
  }
  Json::const_iterator found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json *JsonReader::member(const Json &object, const char *name) {
  const Json *found = optionalMember(object, name);
  if (!found) {
    fail(name, "is missing");
  }
  return found;
}

std::string JsonReader::text(const Json &object, const char *name) {
  const Json *found = member(object, name);
  if (found && !found->is_string()) {
    fail(name, "is not text");
  }
  return found && found->is_string() ? found->get<std::string>() : std::string();
}

int64_t JsonReader::integer(const Json &object, const char *name) {
  const Json *found = member(object, name);
  return found ? integerOf(*found, name) : 0;
}

int64_t JsonReader::integerOf(const Json &value, std::string_view where) {
  bool fits = value.is_number_integer() &&
              (!value.is_number_unsigned() ||
               value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) {
    fail(where, "is not a 64-bit integer");
    return 0;
  }
  return value.get<int64_t>();
}

const Json &JsonReader::array(const Json &object, const char *name) {
  const Json *found = member(object, name);
  if (found && !found->is_array()) {
    fail(name, "is not a list");
  }
  return found && found->is_array() ? *found : kNothing;
}

const Json &JsonReader::object(const Json &object, const char *name) {
  const Json *found = member(object, name);
  if (found && !found->is_object()) {
    fail(name, "is not an object");
  }
  return found && found->is_object() ? *found : kNothing;
}

std::pair<std::string, const Json *> JsonReader::tagged(const Json &value, std::string_view where) {
  if (!value.is_object() || value.size() != 1) {
    fail(where, "does not have exactly one kind");
    return {"", &kNothing};
  }
  return {value.begin().key(), &*value.begin()};
}

double JsonReader::real(const Json &value, std::string_view where) {
  if (value.is_number()) {
    return value.get<double>();
  }
  std::string text = value.is_string() ? value.get<std::string>() : std::string();
  if (text == "Infinity") {
    return std::numeric_limits<double>::infinity();
  }
  if (text == "-Infinity") {
    return -std::numeric_limits<double>::infinity();
  }
  if (text != "NaN") {
    fail(where, "is not a number");
  }
  return std::numeric_limits<double>::quiet_NaN();
}

} // namespace tenon::pt2
