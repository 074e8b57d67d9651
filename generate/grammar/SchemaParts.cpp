// Implements the keywords of JSON Schema 2020-12, and items and definitions as older drafts have
// them.
//
// One file: what is not to hold is read by the same keywords as what is.
#include "generate/grammar/SchemaParts.h"

#include "support/text/Text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace tenon::generate::grammar {
namespace {

constexpr std::array<std::string_view, 7> kTypeNames = {"null",   "boolean", "integer", "number",
                                                        "string", "array",   "object"};
/// They say something of the schema, and nothing of the value.
constexpr std::string_view kNotes[] = {"title",         "description",     "default",
                                       "examples",      "example",         "$schema",
                                       "$id",           "$comment",        "deprecated",
                                       "readOnly",      "writeOnly",       "definitions",
                                       "discriminator", "$defs",           "contentEncoding",
                                       "contentSchema", "contentMediaType"};
/// They count with others of the same schema.
constexpr std::string_view kJoined[] = {"if",
                                        "then",
                                        "else",
                                        "contains",
                                        "minContains",
                                        "maxContains",
                                        "dependentSchemas",
                                        "dependentRequired"};
constexpr std::string_view kObjectKeys[] = {"properties", "patternProperties",
                                            "additionalProperties"};
constexpr std::string_view kArrayKeys[] = {"prefixItems", "items", "additionalItems"};
/// Bounds of a count, and the type that has it.
struct Counted {
  std::string_view least, most, type;
};
constexpr Counted kCounted[] = {{"minLength", "maxLength", "string"},
                                {"minItems", "maxItems", "array"},
                                {"minProperties", "maxProperties", "object"}};
/// Bounds of numbers and their opposites.
constexpr std::pair<std::string_view, std::string_view> kBounds[] = {
    {"minimum", "exclusiveMaximum"},
    {"maximum", "exclusiveMinimum"},
    {"exclusiveMinimum", "maximum"},
    {"exclusiveMaximum", "minimum"}};
/// Formats of OpenAPI that bound numbers; all integers that are written fit into 64 bits.
struct NumberFormat {
  std::string_view name;
  int64_t least, most;
};
constexpr NumberFormat kNumberFormats[] = {
    {"int32", std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()},
    {"uint32", 0, std::numeric_limits<uint32_t>::max()}};
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

/// Of a token of a pointer that stands in a URI.
std::string unescaped(std::string_view token) {
  std::string text;
  for (size_t i = 0; i < token.size(); ++i) {
    unsigned code = 0;
    std::string_view digits = token.substr(i + 1, 2);
    bool isCode =
        token[i] == '%' && digits.size() == 2 &&
        std::from_chars(digits.data(), digits.data() + 2, code, 16).ptr == digits.data() + 2;
    text += isCode ? static_cast<char>(code) : token[i];
    i += isCode ? 2 : 0;
  }
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    char next = i + 1 < text.size() ? text[i + 1] : '\0';
    bool isSign = text[i] == '~' && (next == '0' || next == '1');
    result += !isSign ? text[i] : next == '0' ? '~' : '/';
    i += isSign ? 1 : 0;
  }
  return result;
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

/// A schema of values without a property, which need not be objects.
Json withoutName(const std::string &name) {
  return {{"propertyNames", {{"not", {{"const", name}}}}}};
}

/// The types beside these. What is a number and no integer is not written as such.
Json otherTypes(JsonTypes types) {
  Json names = Json::array();
  for (size_t i = 0; i < kTypeNames.size(); ++i) {
    JsonType type = static_cast<JsonType>(i);
    bool isPartly = type == JsonType::Number && (types & bitOf(JsonType::Integer)) != 0;
    if ((types & bitOf(type)) == 0 && !isPartly) {
      names.push_back(kTypeNames[i]);
    }
  }
  return names;
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

const Json &membersOf(const Json &of, const std::string &key) {
  static const Json kNone = Json::object();
  return of.contains(key) ? of[key] : kNone;
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
  return types == kAllTypes && !values && keywordTypes() == kAllTypes && names.empty() &&
         excluded.empty();
}

JsonTypes Conditions::keywordTypes() const {
  JsonTypes about = 0;
  bool isOfStrings =
      !patterns.empty() || !notPatterns.empty() || !formats.empty() || minLength > 0 || maxLength;
  bool isOfNumbers = !least.empty() || !most.empty() || multiple != 1;
  bool isOfArrays = !arrays.empty() || minItems > 0 || maxItems || areUnique || !contained.empty();
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

Status SchemaReader::addTo(Conditions &to, const Conditions::Alternative &alternative) {
  for (const auto &[schema, path, isNegated] : alternative) {
    TENON_TRY(isNegated ? addNot(to, schema, path, 0) : add(to, schema, path, 0));
  }
  return Status::ok();
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
  TENON_TRY(addContained(to, schema, path));
  TENON_TRY(addConditionals(to, schema, path));
  return addParts(to, schema, path);
}

Result<const Json *> SchemaReader::targetOf(const Json &reference, const std::string &path) const {
  std::string target = reference.is_string() ? reference.get<std::string>() : std::string();
  const Json *found =
      target.starts_with('#') ? resolve(root, std::string_view(target).substr(1)) : nullptr;
  if (!found) {
    return refuseSchema(path, strCat("refers to '", target.substr(0, 64),
                                     "', which is not a place of the same schema"));
  }
  return found;
}

Status SchemaReader::addReference(Conditions &to, const Json &value, const std::string &path,
                                  int depth) {
  TENON_ASSIGN(const Json *found, targetOf(value, path));
  return add(to, *found, value.get<std::string>(), depth + 1);
}

Status SchemaReader::addKeyword(Conditions &to, const std::string &name, const Json &value,
                                const std::string &path, int depth) {
  if (isOneOf(kNotes, name) || name.starts_with("x-") || isOneOf(kObjectKeys, name) ||
      isOneOf(kArrayKeys, name) || isOneOf(kJoined, name)) {
    return Status::ok();
  }
  if (name == "not") {
    return addNot(to, value, path, depth + 1);
  }
  if (name == "uniqueItems") {
    to.areUnique = to.areUnique || value == true;
    return value.is_boolean() ? Status::ok() : refuseSchema(path, "must be true or false");
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
      Conditions::Choice choice{{}, name == "oneOf", path};
      for (size_t i = 0; i < value.size(); ++i) {
        choice.alternatives.push_back({{value[i], strCat(path, '/', i)}});
      }
      to.choices.push_back(std::move(choice));
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
    for (const auto &[format, first, last] : kNumberFormats) {
      if (value == format) {
        to.least.emplace_back(first, false);
        to.most.emplace_back(last, false);
        return Status::ok();
      }
    }
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

Status SchemaReader::addContained(Conditions &to, const Json &schema, const std::string &path) {
  if (!schema.contains("contains")) {
    return Status::ok();
  }
  Conditions::Contained contained{schema["contains"], 1, {}, path + "/contains"};
  if (schema.contains("minContains")) {
    contained.least = 0;
    TENON_TRY(raise(path + "/minContains", schema["minContains"], contained.least));
  }
  if (schema.contains("maxContains")) {
    TENON_TRY(lower(path + "/maxContains", schema["maxContains"], contained.most));
  }
  if (contained.least > 0 || contained.most) {
    to.contained.push_back(std::move(contained));
  }
  return Status::ok();
}

/// What holds where something else holds: alternatives of both and of neither.
Status SchemaReader::addConditionals(Conditions &to, const Json &schema, const std::string &path) {
  if (schema.contains("if") && (schema.contains("then") || schema.contains("else"))) {
    Conditions::Term given{schema["if"], path + "/if"}, missing = given;
    missing.isNegated = true;
    Conditions::Choice choice{{{given}, {missing}}, false, path + "/if"};
    for (auto [name, number] : {std::pair("then", 0), std::pair("else", 1)}) {
      if (schema.contains(name)) {
        choice.alternatives[number].push_back({schema[name], strCat(path, '/', name)});
      }
    }
    to.choices.push_back(std::move(choice));
  }
  for (std::string_view name : {"dependentRequired", "dependentSchemas"}) {
    std::string where = strCat(path, '/', name);
    if (schema.contains(name) && !schema[std::string(name)].is_object()) {
      return refuseSchema(where, "must be an object");
    }
    for (const auto &[property, asked] : membersOf(schema, std::string(name)).items()) {
      std::string place = strCat(where, '/', property.substr(0, 64));
      Json has = {{"required", Json::array({property})}};
      Json then = name == "dependentSchemas" ? asked : Json{{"required", asked}};
      to.choices.push_back(
          {{{{has, place}, {std::move(then), place}}, {{withoutName(property), place}}},
           false,
           place});
    }
  }
  return Status::ok();
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

// What is not to hold is a choice of its keywords' opposites. One of them that cannot be held is
// left out where others can: answers are a part of a schema's values.

Status SchemaReader::addNot(Conditions &to, const Json &schema, const std::string &path,
                            int depth) {
  if (depth > kMaxJoined) {
    return refuseSchema(path, "refers to itself without an end");
  }
  if (++joined > kMaxRead) {
    return refuseSchema(path, "joins too many schemas");
  }
  if (!schema.is_boolean() && !schema.is_object()) {
    return refuseSchema(path, "must be a schema: an object, true or false");
  }
  std::vector<Json> asked;
  for (const auto &[name, value] : schema.items()) {
    bool isNote = isOneOf(kNotes, name) || name.starts_with("x-");
    if (schema.is_object() && !isNote) {
      asked.push_back({{name, value}});
    }
  }
  if (asked.empty()) {
    to.types = schema == false ? to.types : 0;
    return Status::ok();
  }
  if (asked.size() == 1) {
    return addNotKeyword(to, asked[0].begin().key(), asked[0].begin().value(), path, depth);
  }
  // These count otherwise beside the others.
  bool isCounted = schema.contains("minContains") || schema.contains("maxContains");
  Conditions::Choice choice{{}, false, path};
  Status refused;
  for (Json &each : asked) {
    const std::string &name = each.begin().key();
    bool isApart =
        !(name == "contains" && isCounted) && !(name == "items" && schema.contains("prefixItems"));
    Conditions alone;
    Status status = isApart ? addNot(alone, each, path, depth + 1)
                            : refuseSchema(strCat(path, '/', name), "is not held under 'not'");
    if (status.isOk()) {
      choice.alternatives.push_back({{std::move(each), path, true}});
    } else {
      refused = std::move(status);
    }
  }
  if (choice.alternatives.empty()) {
    return refused;
  }
  to.choices.push_back(std::move(choice));
  return Status::ok();
}

Status SchemaReader::addNotKeyword(Conditions &to, const std::string &name, const Json &value,
                                   const std::string &path, int depth) {
  std::string where = strCat(path, '/', name.substr(0, 64));
  auto instead = [&](Json schema) { return add(to, schema, where, depth + 1); };
  auto notEach = [&](const auto &schemaOf) { // one of the parts does not hold
    Conditions::Choice choice{{}, false, where};
    for (const auto &[key, part] : value.items()) {
      choice.alternatives.push_back({schemaOf(key, part)});
    }
    to.choices.push_back(std::move(choice));
    return Status::ok();
  };
  if (name == "not") {
    return instead(value);
  }
  if (name == "$ref") {
    TENON_ASSIGN(const Json *found, targetOf(value, where));
    return addNot(to, *found, value.get<std::string>(), depth + 1);
  }
  if (name == "enum" || name == "const") {
    bool isList = name == "enum" && value.is_array();
    const Json values = isList ? value : Json::array({value});
    to.excluded.insert(to.excluded.end(), values.begin(), values.end());
    return Status::ok();
  }
  if (name == "type") {
    TENON_ASSIGN(JsonTypes types, readTypes(where, value));
    return instead({{"type", otherTypes(types)}});
  }
  if (name == "pattern") {
    TENON_TRY(readText(where, value, to.notPatterns));
    return instead({{"type", "string"}});
  }
  if (name == "allOf" && value.is_array()) {
    return notEach([&](const std::string &key, const Json &part) {
      return Conditions::Term{part, strCat(where, '/', key), true};
    });
  }
  if (name == "anyOf" && value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      TENON_TRY(addNot(to, value[i], strCat(where, '/', i), depth + 1));
    }
    return Status::ok();
  }
  if (name == "properties" && value.is_object()) {
    return notEach([&](const std::string &key, const Json &part) {
      Json other = {{"type", "object"}, {"required", Json::array({key})}};
      other["properties"][key] = {{"not", part}};
      return Conditions::Term{std::move(other), where};
    });
  }
  if (name == "required" && value.is_array()) {
    std::vector<std::string> names;
    TENON_TRY(readRequired(where, value, names));
    return notEach([&](const std::string &, const Json &property) {
      Json other = withoutName(property.get<std::string>());
      other["type"] = "object";
      return Conditions::Term{std::move(other), where};
    });
  }
  if (name == "items" && !value.is_array()) {
    return instead({{"type", "array"}, {"contains", {{"not", value}}}});
  }
  if (name == "contains") {
    return instead({{"type", "array"}, {"items", {{"not", value}}}});
  }
  for (const auto &[least, most, type] : kCounted) {
    if (name == least) {
      uint64_t count = 0;
      TENON_TRY(readCount(where, value, count));
      return count == 0 ? instead(false)
                        : instead({{"type", type}, {std::string(most), count - 1}});
    }
    if (name == most) {
      uint64_t count = 0;
      TENON_TRY(readCount(where, value, count));
      return instead({{"type", type}, {std::string(least), count + 1}});
    }
  }
  for (const auto &[bound, other] : kBounds) {
    if (name == bound) {
      return instead({{"type", "number"}, {std::string(other), value}});
    }
  }
  return refuseSchema(where, "is not held under 'not'");
}

} // namespace tenon::generate::grammar
