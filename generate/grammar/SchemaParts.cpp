// Implements the keywords of JSON Schema 2020-12, and items and definitions as older drafts have
// them.
#include "generate/grammar/SchemaParts.h"

#include "support/text/Text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

namespace tenon::generate::grammar {
namespace {

constexpr std::array<std::string_view, 7> kTypeNames = {"null",   "boolean", "integer", "number",
                                                        "string", "array",   "object"};
/// They say something of the schema, and nothing of the value.
constexpr std::string_view kNotes[] = {
    "title",    "description", "default",  "examples",  "example",     "$schema",       "$id",
    "$comment", "deprecated",  "readOnly", "writeOnly", "definitions", "discriminator", "$defs"};
constexpr std::string_view kObjectKeys[] = {"properties", "patternProperties",
                                            "additionalProperties"};
constexpr std::string_view kArrayKeys[] = {"prefixItems", "items", "additionalItems"};
constexpr int kMaxJoined = 64;
constexpr uint64_t kMaxRead = 100'000;

bool isOneOf(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// The value of a text of digits; none for others.
std::optional<size_t> indexOf(std::string_view text) {
  size_t index = 0;
  for (char c : text) {
    if (c < '0' || c > '9' || index > 1'000'000) {
      return std::nullopt;
    }
    index = index * 10 + static_cast<size_t>(c - '0');
  }
  return text.empty() ? std::nullopt : std::optional(index);
}

std::string unescaped(std::string_view token) {
  std::string text;
  for (size_t i = 0; i < token.size(); ++i) {
    char next = i + 1 < token.size() ? token[i + 1] : '\0';
    bool isSign = token[i] == '~' && (next == '0' || next == '1');
    text += !isSign ? token[i] : next == '0' ? '~' : '/';
    i += isSign ? 1 : 0;
  }
  return text;
}

/// What a JSON pointer names; null for nothing.
const Json *resolve(const Json &root, std::string_view pointer) {
  const Json *at = &root;
  while (!pointer.empty()) {
    if (pointer[0] != '/') {
      return nullptr;
    }
    size_t end = std::min(pointer.find('/', 1), pointer.size());
    std::string token = unescaped(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    if (at->is_object() && at->contains(token)) {
      at = &(*at)[token];
    } else if (std::optional<size_t> index = indexOf(token);
               at->is_array() && index && *index < at->size()) {
      at = &(*at)[*index];
    } else {
      return nullptr;
    }
  }
  return at;
}

Status readCount(const std::string &path, const Json &value, uint64_t &count) {
  bool isWhole = value.is_number_float() && value.get<double>() >= 0 && value.get<double>() < 1e9 &&
                 value.get<double>() == static_cast<double>(value.get<int64_t>());
  if (!value.is_number_unsigned() && !isWhole) {
    return refuseSchema(path, "must be a count");
  }
  count = value.get<uint64_t>();
  return Status::ok();
}

Status raise(const std::string &path, const Json &value, uint64_t &least) {
  uint64_t count = 0;
  TENON_TRY(readCount(path, value, count));
  least = std::max(least, count);
  return Status::ok();
}

Status lower(const std::string &path, const Json &value, std::optional<uint64_t> &most) {
  uint64_t count = 0;
  TENON_TRY(readCount(path, value, count));
  most = std::min(most.value_or(count), count);
  return Status::ok();
}

Result<JsonTypes> readTypes(const std::string &path, const Json &value) {
  Json list = value.is_array() ? value : Json::array({value});
  JsonTypes types = 0;
  for (const Json &name : list) {
    auto found = name.is_string() ? std::ranges::find(kTypeNames, name.get<std::string>())
                                  : kTypeNames.end();
    if (found == kTypeNames.end()) {
      return refuseSchema(path, "must be the name of a type of JSON, or a list of them");
    }
    types |= bitOf(static_cast<JsonType>(found - kTypeNames.begin()));
  }
  types |= types & bitOf(JsonType::Number) ? bitOf(JsonType::Integer) : 0;
  return types;
}

Status readBound(const std::string &path, const Json &value, bool isExclusive,
                 std::vector<std::pair<Json, bool>> &bounds) {
  if (!value.is_number()) {
    return refuseSchema(path, "must be a number");
  }
  bounds.emplace_back(value, isExclusive);
  return Status::ok();
}

Status readText(const std::string &path, const Json &value, std::vector<std::string> &texts) {
  if (!value.is_string()) {
    return refuseSchema(path, "must be a string");
  }
  texts.push_back(value.get<std::string>());
  return Status::ok();
}

Status readMultiple(const std::string &path, const Json &value, uint64_t &multiple) {
  constexpr double kMaxMultiple = 10'000;
  double number = value.is_number() ? value.get<double>() : 0;
  if (!(number >= 1 && number <= kMaxMultiple) ||
      number != static_cast<double>(static_cast<uint64_t>(number))) {
    return refuseSchema(path, "is held for integers from 1 to 10000 only");
  }
  multiple = std::lcm(multiple, static_cast<uint64_t>(number));
  return multiple <= static_cast<uint64_t>(kMaxMultiple)
             ? Status::ok()
             : refuseSchema(path, "is held up to a common multiple of 10000 only");
}

Status readValues(const std::string &path, const Json &value, Conditions &to) {
  if (!value.is_array()) {
    return refuseSchema(path, "must be a list of values");
  }
  std::vector<Json> values(value.begin(), value.end());
  if (to.values) {
    std::erase_if(values, [&](const Json &each) {
      return std::ranges::find(*to.values, each) == to.values->end();
    });
  }
  to.values = std::move(values);
  return Status::ok();
}

Status readRequired(const std::string &path, const Json &value, std::vector<std::string> &names) {
  if (!value.is_array()) {
    return refuseSchema(path, "must be a list of names");
  }
  for (const Json &name : value) {
    if (!name.is_string()) {
      return refuseSchema(path, "must be a list of names");
    }
    if (std::ranges::find(names, name.get_ref<const std::string &>()) == names.end()) {
      names.push_back(name.get<std::string>());
    }
  }
  return Status::ok();
}

} // namespace

JsonTypes typesOf(const Json &value) {
  JsonType type = value.is_null()      ? JsonType::Null
                  : value.is_boolean() ? JsonType::Boolean
                  : value.is_string()  ? JsonType::String
                  : value.is_array()   ? JsonType::Array
                  : value.is_object()  ? JsonType::Object
                                       : JsonType::Number;
  bool isInteger =
      value.is_number_integer() ||
      (value.is_number_float() && value.get<double>() == std::trunc(value.get<double>()));
  return bitOf(isInteger ? JsonType::Integer : type);
}

bool isAnything(const Json &schema) {
  return schema == true || (schema.is_object() && schema.empty());
}

Json joined(std::vector<Json> schemas) {
  std::erase_if(schemas, isAnything);
  return schemas.empty()       ? Json(true)
         : schemas.size() == 1 ? schemas[0]
                               : Json{{"allOf", std::move(schemas)}};
}

Status refuseSchema(const std::string &path, std::string_view what) {
  return Status::error(ErrorId::SchemaUnsupported, strCat("the schema's '", path, "' ", what),
                       "change it, or describe it in the prompt instead");
}

bool Conditions::isFree() const {
  return types == kAllTypes && !values && keywordTypes() == kAllTypes && names.empty();
}

JsonTypes Conditions::keywordTypes() const {
  JsonTypes about = 0;
  bool isOfStrings = !patterns.empty() || !formats.empty() || minLength > 0 || maxLength;
  bool isOfNumbers = !least.empty() || !most.empty() || multiple != 1;
  bool isOfArrays = !arrays.empty() || minItems > 0 || maxItems;
  bool isOfObjects =
      !objects.empty() || !required.empty() || !names.empty() || minProperties > 0 || maxProperties;
  about |= isOfStrings ? bitOf(JsonType::String) : 0;
  about |= isOfNumbers ? bitOf(JsonType::Number) | bitOf(JsonType::Integer) : 0;
  about |= isOfArrays ? bitOf(JsonType::Array) : 0;
  about |= isOfObjects ? bitOf(JsonType::Object) : 0;
  return about == 0 ? kAllTypes : about;
}

Result<Conditions> SchemaReader::read(const Json &schema, const std::string &path) {
  Conditions conditions;
  TENON_TRY(add(conditions, schema, path, 0));
  return conditions;
}

Status SchemaReader::add(Conditions &to, const Json &schema, const std::string &path, int depth) {
  if (depth > kMaxJoined) {
    return refuseSchema(path, "refers to itself without an end");
  }
  if (++joined > kMaxRead) {
    return refuseSchema(path, "joins too many schemas");
  }
  if (schema.is_boolean()) {
    to.types = schema.get<bool>() ? to.types : 0;
    return Status::ok();
  }
  if (!schema.is_object()) {
    return refuseSchema(path, "must be a schema: an object, true or false");
  }
  for (const auto &[name, value] : schema.items()) {
    TENON_TRY(addKeyword(to, name, value, strCat(path, '/', name.substr(0, 64)), depth));
  }
  return addParts(to, schema, path);
}

Status SchemaReader::addReference(Conditions &to, const Json &value, const std::string &path,
                                  int depth) {
  std::string target = value.is_string() ? value.get<std::string>() : std::string();
  const Json *found =
      target.starts_with('#') ? resolve(root, std::string_view(target).substr(1)) : nullptr;
  if (!found) {
    return refuseSchema(path, strCat("refers to '", target.substr(0, 64),
                                     "', which is not a place of the same schema"));
  }
  return add(to, *found, target, depth + 1);
}

Status SchemaReader::addKeyword(Conditions &to, const std::string &name, const Json &value,
                                const std::string &path, int depth) {
  if (isOneOf(kNotes, name) || name.starts_with("x-") || isOneOf(kObjectKeys, name) ||
      isOneOf(kArrayKeys, name) || (name == "uniqueItems" && value == false)) {
    return Status::ok();
  }
  if (name == "$ref") {
    return addReference(to, value, path, depth);
  }
  if (name == "type") {
    TENON_ASSIGN(JsonTypes types, readTypes(path, value));
    to.types &= types;
    to.hasType = true;
    return Status::ok();
  }
  if (name == "allOf" || name == "anyOf" || name == "oneOf") {
    if (!value.is_array() || value.empty()) {
      return refuseSchema(path, "must be a list of schemas");
    }
    if (name != "allOf") {
      to.choices.push_back({{value.begin(), value.end()}, name == "oneOf", path});
      return Status::ok();
    }
    for (size_t i = 0; i < value.size(); ++i) {
      TENON_TRY(add(to, value[i], strCat(path, '/', i), depth + 1));
    }
    return Status::ok();
  }
  if (name == "enum") {
    return readValues(path, value, to);
  }
  if (name == "const") {
    return readValues(path, Json::array({value}), to);
  }
  if (name == "minLength") {
    return raise(path, value, to.minLength);
  }
  if (name == "maxLength") {
    return lower(path, value, to.maxLength);
  }
  if (name == "minItems") {
    return raise(path, value, to.minItems);
  }
  if (name == "maxItems") {
    return lower(path, value, to.maxItems);
  }
  if (name == "minProperties") {
    return raise(path, value, to.minProperties);
  }
  if (name == "maxProperties") {
    return lower(path, value, to.maxProperties);
  }
  if (name == "pattern") {
    return readText(path, value, to.patterns);
  }
  if (name == "format") {
    return readText(path, value, to.formats);
  }
  if (name == "minimum" || name == "exclusiveMinimum") {
    return readBound(path, value, name != "minimum", to.least);
  }
  if (name == "maximum" || name == "exclusiveMaximum") {
    return readBound(path, value, name != "maximum", to.most);
  }
  if (name == "multipleOf") {
    return readMultiple(path, value, to.multiple);
  }
  if (name == "required") {
    return readRequired(path, value, to.required);
  }
  if (name == "propertyNames") {
    to.names.push_back(value);
    return Status::ok();
  }
  return refuseSchema(path, "is a keyword that is not supported");
}

/// What depends on other keywords of the same schema.
Status SchemaReader::addParts(Conditions &to, const Json &schema, const std::string &path) {
  for (std::string_view name : {"properties", "patternProperties"}) {
    if (schema.contains(name) && !schema[std::string(name)].is_object()) {
      return refuseSchema(strCat(path, '/', name), "must be an object of schemas");
    }
  }
  auto partOf = [&](std::span<const std::string_view> names) {
    Json part = Json::object();
    for (std::string_view name : names) {
      if (schema.contains(name)) {
        part[std::string(name)] = schema[std::string(name)];
      }
    }
    return part;
  };
  if (Json part = partOf(kObjectKeys); !part.empty()) {
    part["path"] = path;
    to.objects.push_back(std::move(part));
  }
  Json part = partOf(kArrayKeys);
  if (part.empty()) {
    return Status::ok();
  }
  if (part.contains("items") && part["items"].is_array()) { // before 2020-12
    part["prefixItems"] = part["items"];
    part.erase("items");
    if (part.contains("additionalItems")) {
      part["items"] = part["additionalItems"];
    }
  }
  if (part.contains("prefixItems") && !part["prefixItems"].is_array()) {
    return refuseSchema(path + "/prefixItems", "must be a list of schemas");
  }
  part["path"] = path;
  to.arrays.push_back(std::move(part));
  return Status::ok();
}

} // namespace tenon::generate::grammar
