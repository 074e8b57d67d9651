// Implements rules per schema: equal schemas are one rule, so that recursion ends. What is still to
// be compiled waits in a list.
//
// One file: a rule's kinds of values share the compiler's rules, budget and references.
#include "generate/grammar/Schema.h"

#include "generate/grammar/ContainerWriter.h"
#include "generate/grammar/OneOf.h"
#include "generate/grammar/Regex.h"
#include "generate/grammar/SchemaParts.h"
#include "generate/grammar/Texts.h"
#include "generate/text/Utf8.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <unordered_map>
#include <utility>

namespace tenon::generate::grammar {
namespace {

/// Steps of all automata of a schema.
constexpr uint64_t kBudget = 3'000'000;
constexpr uint64_t kMaxCount = 1'000'000'000;
constexpr size_t kMaxPatterns = 4;

class SchemaCompiler : ContainerWriter {
public:
  SchemaCompiler(Grammar &theGrammar, const JsonRules &theRules, const Json &root)
      : ContainerWriter(theGrammar, theRules), reader(root) {}

  Result<uint32_t> compile(const Json &schema, const std::string &path) {
    uint32_t first = ruleOf(schema, path);
    while (!pending.empty()) {
      Pending next = std::move(pending.back());
      pending.pop_back();
      TENON_ASSIGN(Conditions conditions, reader.read(next.schema, next.path));
      TENON_TRY(addValues(std::move(conditions), next.rule, next.path));
    }
    return first;
  }

private:
  struct Pending {
    Json schema;
    std::string path;
    uint32_t rule;
  };

  uint32_t ruleOf(const Json &schema, const std::string &path) {
    if (isAnything(schema)) {
      return rules.any;
    }
    auto [found, isNew] = known.try_emplace(schema.dump(), 0);
    if (isNew) {
      found->second = grammar.add();
      pending.push_back({schema, path, found->second});
    }
    return found->second;
  }

  Status checkSize(const std::string &path) const {
    return grammar.isFull() ? refuseSchema(path, "makes the schema's automaton too large")
                            : Status::ok();
  }

  Status addValues(Conditions conditions, uint32_t rule, const std::string &path) {
    TENON_TRY(checkSize(path));
    if (conditions.choices.empty()) {
      return addFlat(conditions, rule, path);
    }
    if (hasNoValue(reader, conditions)) {
      return Status::ok();
    }
    Conditions::Choice choice = std::move(conditions.choices.back());
    conditions.choices.pop_back();
    bool isAlone = conditions.isFree() && conditions.choices.empty();
    if (choice.isExact) {
      TENON_TRY(makeExact(conditions, choice));
    }
    for (const Conditions::Alternative &alternative : choice.alternatives) {
      const Conditions::Term &only = alternative[0];
      if (isAlone && alternative.size() == 1 && !only.isNegated) {
        grammar.call(rule, ruleOf(only.schema, only.path), end);
        continue;
      }
      Conditions both = conditions;
      TENON_TRY(reader.addTo(both, alternative));
      uint32_t each = grammar.add();
      grammar.call(rule, each, end);
      TENON_TRY(addValues(std::move(both), each, only.path));
    }
    return Status::ok();
  }

  /// Where alternatives of a oneOf overlap, each is to hold without the others.
  Status makeExact(const Conditions &base, Conditions::Choice &choice) {
    TENON_ASSIGN(auto overlap, firstOverlap(reader, base, choice));
    if (!overlap) {
      return Status::ok();
    }
    std::vector<Conditions::Alternative> alone = choice.alternatives;
    for (size_t i = 0; i < alone.size(); ++i) {
      for (size_t j = 0; j < alone.size(); ++j) {
        if (i != j) {
          Conditions::Term other = choice.alternatives[j][0];
          other.isNegated = true;
          Conditions probe;
          if (!reader.addTo(probe, {other}).isOk()) {
            return refuseSchema(
                choice.path, strCat("has alternatives ", overlap->first, " and ", overlap->second,
                                    ", which may both hold of one value: use anyOf"));
          }
          alone[i].push_back(std::move(other));
        }
      }
    }
    choice.alternatives = std::move(alone);
    return Status::ok();
  }

  // One kind of value after the other.

  Status addFlat(const Conditions &conditions, uint32_t rule, const std::string &path) {
    if (conditions.values) {
      return addListed(conditions, rule, path);
    }
    JsonTypes types = writtenTypes(conditions);
    if (types == kAllTypes && conditions.isFree()) {
      grammar.call(rule, rules.any, end);
      return Status::ok();
    }
    auto has = [&](JsonType type) { return (types & bitOf(type)) != 0; };
    auto isExcluded = [&](const Json &value) {
      return std::ranges::find(conditions.excluded, value) != conditions.excluded.end();
    };
    if (has(JsonType::Null) && !isExcluded(nullptr)) {
      grammar.call(rule, rules.null, end);
    }
    for (bool value : {true, false}) {
      if (has(JsonType::Boolean) && !isExcluded(value)) {
        grammar.text(rule, value ? "true" : "false", end);
      }
    }
    if (has(JsonType::Number) || has(JsonType::Integer)) {
      TENON_TRY(addNumbers(conditions, !has(JsonType::Number), rule, path));
    }
    if (has(JsonType::String)) {
      TENON_TRY(addString(conditions, rule, path));
    }
    for (const Json &value : conditions.excluded) {
      if (value.is_structured() && (typesOf(value) & types) != 0) {
        return refuseSchema(path, "excludes an object or an array, which is not held");
      }
    }
    if (has(JsonType::Array)) {
      TENON_TRY(addArray(conditions, rule, path));
    }
    return has(JsonType::Object) ? addObject(conditions, rule, path) : Status::ok();
  }

  static Status placed(const std::string &path, const Status &status) {
    return status.isOk() ? Status::ok()
                         : refuseSchema(path, strCat("is refused: ", status.message()));
  }

  static NumberRange rangeOf(const Conditions &conditions, bool isInteger) {
    NumberRange range{.isInteger = isInteger, .multiple = conditions.multiple};
    for (const auto &[value, isExclusive] : conditions.least) {
      range.least.push_back({value, isExclusive});
    }
    for (const auto &[value, isExclusive] : conditions.most) {
      range.most.push_back({value, isExclusive});
    }
    return range;
  }

  Status addNumbers(const Conditions &conditions, bool isInteger, uint32_t rule,
                    const std::string &path) {
    NumberRange range = rangeOf(conditions, isInteger);
    std::ranges::copy_if(conditions.excluded, std::back_inserter(range.excluded),
                         [](const Json &value) { return value.is_number(); });
    if (range.isFree()) {
      grammar.call(rule, isInteger ? rules.integer : rules.number, end);
      return Status::ok();
    }
    Result<Dfa> numbers = numbersOf(range, budget);
    TENON_TRY(placed(path, numbers.status()));
    addTexts(grammar, rule, *numbers, end);
    return checkSize(path);
  }

  /// A pattern says it where no text has both: programs write patterns that they call by the name
  /// of a format.
  Status narrowToFormat(const Conditions &conditions, std::optional<Dfa> &text, const Dfa &format,
                        const std::string &path) {
    std::optional<Dfa> both = text ? intersection(*text, format, budget) : std::optional(format);
    if (!both) {
      return refuseSchema(path, "makes the schema's automaton too large");
    }
    if (!both->isEmpty() || conditions.patterns.empty()) {
      text = std::move(both);
    }
    return Status::ok();
  }

  /// What patterns, formats and lengths leave of all texts; none where only lengths do.
  Result<std::optional<Dfa>> textOf(const Conditions &conditions, const std::string &path) {
    std::optional<Dfa> result;
    auto narrow = [&](const Dfa &dfa) {
      std::optional<Dfa> both = result ? intersection(*result, dfa, budget) : std::optional(dfa);
      result = both ? std::move(*both) : Dfa();
      return both ? Status::ok() : refuseSchema(path, "makes the schema's automaton too large");
    };
    for (const std::string &pattern : conditions.patterns) {
      Result<Dfa> dfa = compileRegex(pattern, budget);
      TENON_TRY(placed(path + "/pattern", dfa.status()));
      TENON_TRY(narrow(*dfa));
    }
    for (const std::string &pattern : conditions.notPatterns) {
      Result<Dfa> dfa = compileRegex(pattern, budget);
      TENON_TRY(placed(path + "/not/pattern", dfa.status()));
      TENON_TRY(narrow(complementOf(*dfa)));
    }
    std::vector<std::u32string> excluded;
    for (const Json &value : conditions.excluded) {
      if (value.is_string()) {
        TENON_ASSIGN(excluded.emplace_back(), decodeUtf8(value.get_ref<const std::string &>()));
      }
    }
    if (!excluded.empty()) {
      TENON_TRY(narrow(complementOf(textsOf(excluded))));
    }
    for (const std::string &format : conditions.formats) {
      std::optional<std::string_view> regex = regexOfFormat(format);
      if (!regex && conditions.patterns.empty()) {
        return refuseSchema(path + "/format",
                            strCat("is '", format.substr(0, 32), "', which is not held"));
      }
      if (regex && !regex->empty()) {
        Result<Dfa> dfa = compileRegex(*regex, budget);
        TENON_TRY(placed(path + "/format", dfa.status()));
        TENON_TRY(narrowToFormat(conditions, result, *dfa, path));
      }
    }
    bool hasLengths = conditions.minLength > 0 || conditions.maxLength;
    if (result && hasLengths) {
      uint64_t longest = conditions.maxLength.value_or(conditions.minLength);
      if (longest > Grammar::kMaxNodes || conditions.minLength > Grammar::kMaxNodes) {
        return refuseSchema(path, "makes the schema's automaton too large");
      }
      TENON_TRY(narrow(textsOfLength(conditions.minLength, conditions.maxLength)));
    }
    return std::move(result);
  }

  Status addString(const Conditions &conditions, uint32_t rule, const std::string &path) {
    TENON_ASSIGN(std::optional<Dfa> dfa, textOf(conditions, path));
    uint32_t inside = grammar.add();
    if (dfa) {
      grammar.bytes(rule, '"', '"', inside);
      addCharacters(grammar, rules, inside, *dfa, end);
      return checkSize(path);
    }
    if (conditions.minLength == 0 && !conditions.maxLength) {
      grammar.call(rule, rules.string, end);
      return Status::ok();
    }
    uint64_t most = conditions.maxLength.value_or(kUnbounded);
    if (conditions.minLength > kMaxCount || (conditions.maxLength && most > kMaxCount)) {
      return refuseSchema(path, strCat("has a length above ", kMaxCount));
    }
    if (conditions.minLength <= most) {
      grammar.bytes(rule, '"', '"', inside);
      addCharacters(grammar, rules, inside, static_cast<uint32_t>(conditions.minLength),
                    static_cast<uint32_t>(most), end);
    }
    return Status::ok();
  }

  // Of enum and const.

  /// Whether a value that is no container satisfies what stands beside its list.
  Result<bool> holds(const Conditions &conditions, const Json &value, const std::string &path) {
    if ((typesOf(value) & conditions.types) == 0 ||
        std::ranges::find(conditions.excluded, value) != conditions.excluded.end()) {
      return false;
    }
    JsonTypes about = conditions.keywordTypes();
    if (about == kAllTypes || (typesOf(value) & about) == 0) {
      return true;
    }
    if (value.is_structured()) {
      return refuseSchema(path, "lists objects or arrays beside keywords about them");
    }
    if (value.is_number()) {
      return isInRange(conditions, value.get<double>());
    }
    TENON_ASSIGN(std::u32string text, decodeUtf8(value.get_ref<const std::string &>()));
    TENON_ASSIGN(std::optional<Dfa> dfa, textOf(conditions, path));
    return (!dfa || dfa->accepts(text)) && text.size() >= conditions.minLength &&
           text.size() <= conditions.maxLength.value_or(text.size());
  }

  static bool isInRange(const Conditions &conditions, double number) {
    auto isAbove = [&](const std::pair<Json, bool> &bound) {
      double least = bound.first.get<double>();
      return number > least || (number == least && !bound.second);
    };
    auto isBelow = [&](const std::pair<Json, bool> &bound) {
      double most = bound.first.get<double>();
      return number < most || (number == most && !bound.second);
    };
    double quotient = number / static_cast<double>(conditions.multiple);
    return std::ranges::all_of(conditions.least, isAbove) &&
           std::ranges::all_of(conditions.most, isBelow) &&
           (conditions.multiple == 1 || quotient == std::trunc(quotient));
  }

  Status addListed(const Conditions &conditions, uint32_t rule, const std::string &path) {
    std::vector<std::u32string> texts;
    size_t size = 0;
    for (const Json &value : *conditions.values) {
      TENON_ASSIGN(bool is, holds(conditions, value, path));
      if (!is) {
        continue;
      }
      if (value.is_structured()) {
        addLiteral(value, rule, end);
      } else {
        TENON_ASSIGN(std::u32string text, decodeUtf8(dumpJson(value)));
        size += text.size();
        texts.push_back(std::move(text));
      }
      if (size > Grammar::kMaxNodes || grammar.isFull()) {
        return refuseSchema(path, strCat("lists more than ", Grammar::kMaxNodes, " characters"));
      }
    }
    addTexts(grammar, rule, textsOf(texts), end);
    return checkSize(path);
  }

  // Containers.

  /// What the schemas of an array say of the item at an index; behind all listed ones for -1.
  Json itemOf(const Conditions &conditions, std::ptrdiff_t index, bool &isSaid) const {
    std::vector<Json> schemas;
    for (const Part &part : conditions.arrays) {
      Json first = part.value("prefixItems", Json::array());
      bool isListed = index >= 0 && index < static_cast<std::ptrdiff_t>(first.size());
      if (isListed || part.contains("items")) {
        schemas.push_back(isListed ? first[static_cast<size_t>(index)] : part["items"]);
        isSaid = true;
      }
    }
    return joined(std::move(schemas));
  }

  Status addArray(const Conditions &conditions, uint32_t rule, const std::string &path) {
    size_t listed = 0;
    for (const Part &part : conditions.arrays) {
      listed = std::max(listed, part.value("prefixItems", Json::array()).size());
    }
    uint64_t least = conditions.minItems, most = conditions.maxItems.value_or(kUnbounded);
    if (least > kMaxCount || (conditions.maxItems && most > kMaxCount)) {
      return refuseSchema(path, strCat("has a number of items above ", kMaxCount));
    }
    if (least > most) {
      return Status::ok();
    }
    uint32_t open = grammar.add();
    grammar.bytes(rule, '[', '[', open);
    uint32_t at = spaceBehind(open);
    if (conditions.areUnique && most > 1) {
      return addUnique(conditions, at, path);
    }
    Items items;
    TENON_TRY(readContained(conditions, items, path));
    bool isFirst = true;
    for (size_t i = 0; i < listed && i < most; ++i) {
      bool isSaid = false;
      Json schema = itemOf(conditions, static_cast<std::ptrdiff_t>(i), isSaid);
      closeAt(at, i >= least && items.leastOf == 0, ']');
      uint32_t behind = grammar.add();
      grammar.call(afterComma(at, isFirst), ruleOf(schema, path + "/prefixItems"), behind);
      at = spaceBehind(behind);
      isFirst = false;
    }
    closeAt(at, items.leastOf == 0 && (listed >= least || most <= listed), ']');
    bool isSaid = false;
    Json schema = itemOf(conditions, -1, isSaid);
    bool isOpen = isSaid || listed == 0 || least > listed || items.leastOf > 0;
    if (most > listed && isOpen) {
      auto rest = [&](uint64_t count) {
        return static_cast<uint32_t>(
            count == kUnbounded ? kUnbounded : count - std::min<uint64_t>(count, listed));
      };
      items.least = std::max(rest(least), items.leastOf);
      items.most = rest(most);
      if (items.contained) {
        items.both = ruleOf(joined({schema, items.contained->schema}), items.contained->path);
      }
      if (items.mostOf) {
        schema = joined({schema, Json{{"not", items.contained->schema}}});
      }
      items.rule = ruleOf(schema, path + "/items");
      addItems(afterComma(at, isFirst), items);
    }
    return checkSize(path);
  }

  static Status readContained(const Conditions &conditions, Items &items, const std::string &path) {
    constexpr uint64_t kMaxContained = 1000;
    if (conditions.contained.empty()) {
      return Status::ok();
    }
    const Conditions::Contained &contained = conditions.contained[0];
    if (conditions.contained.size() > 1) {
      return refuseSchema(path, "has several 'contains', of which one is held");
    }
    if (contained.least > kMaxContained || contained.most.value_or(0) > kMaxContained) {
      return refuseSchema(contained.path, strCat("counts above ", kMaxContained));
    }
    items.leastOf = static_cast<uint32_t>(contained.least);
    if (contained.most) {
      items.mostOf = static_cast<uint32_t>(*contained.most);
    }
    items.contained = &contained;
    return Status::ok();
  }

  /// The values that conditions leave, where they are few and scalar.
  Status listValues(Conditions conditions, std::vector<Json> &values, bool &isListed,
                    const std::string &path) {
    if (!conditions.choices.empty()) {
      Conditions::Choice choice = std::move(conditions.choices.back());
      conditions.choices.pop_back();
      isListed = isListed && !choice.isExact;
      for (const Conditions::Alternative &alternative : choice.alternatives) {
        Conditions both = conditions;
        TENON_TRY(reader.addTo(both, alternative));
        TENON_TRY(listValues(std::move(both), values, isListed, path));
      }
      return Status::ok();
    }
    JsonTypes types = writtenTypes(conditions);
    isListed = isListed && (conditions.values ||
                            (types & ~(bitOf(JsonType::Null) | bitOf(JsonType::Boolean))) == 0);
    for (const Json &value : conditions.values.value_or(std::vector<Json>{nullptr, false, true})) {
      TENON_ASSIGN(bool is, holds(conditions, value, path));
      isListed = isListed && !(is && value.is_structured());
      if (is && std::ranges::find(values, value) == values.end()) {
        values.push_back(value);
      }
    }
    return Status::ok();
  }

  /// Items of which no two are equal.
  Status addUnique(const Conditions &conditions, uint32_t at, const std::string &path) {

    bool isSaid = false, isListed = conditions.contained.empty();
    std::vector<Json> values;
    Json schema = itemOf(conditions, -1, isSaid);
    for (const Part &part : conditions.arrays) {
      isListed = isListed && !part.contains("prefixItems");
    }
    TENON_ASSIGN(Conditions items, reader.read(schema, path + "/items"));
    TENON_TRY(listValues(std::move(items), values, isListed, path + "/items"));
    if (!isListed || values.size() > kMaxUnique) {
      return refuseSchema(path + "/uniqueItems",
                          strCat("is held for up to ", kMaxUnique,
                                 " items of an enum, a const, booleans and null only"));
    }
    writeUnique(at, values, conditions.minItems, conditions.maxItems.value_or(values.size()));
    return checkSize(path);
  }

  Status addObject(const Conditions &conditions, uint32_t rule, const std::string &path) {
    std::vector<std::string> names = listedNames(conditions);
    TENON_ASSIGN(std::vector<NameGroup> groups, groupsOf(conditions, names, path));
    auto isRequired = [&](const std::string &name) {
      return std::ranges::find(conditions.required, name) != conditions.required.end();
    };
    // Names that are not listed may be equal, and equal ones are one property.
    constexpr uint64_t kMaxCounted = 10'000;
    uint64_t least = conditions.minProperties, listed = names.size();
    uint64_t most = conditions.maxProperties.value_or(kUnbounded);
    bool isBelowAll = most < listed;
    // How many came is known up to here; where not all may come, never more do.
    uint64_t last = isBelowAll ? most : std::max<uint64_t>(std::min(least, listed + 1), 1);
    if (last * listed > kMaxCounted) {
      return refuseSchema(path, "counts too many properties");
    }
    if (!groups.empty() && least > listed + 1 && least <= most) {
      return refuseSchema(path, "counts properties whose names are not listed, which is held for "
                                "one of them");
    }
    uint32_t open = grammar.add();
    grammar.bytes(rule, '{', '{', open);
    std::vector<uint32_t> at = {spaceBehind(open)}; // behind each number of properties
    at.resize(last + 1);
    std::generate(at.begin() + 1, at.end(), [&] { return grammar.add(); });
    for (const std::string &name : names) {
      TENON_ASSIGN(Json schema, namedSchema(conditions, name, path));
      uint32_t value = ruleOf(schema, strCat(path, "/properties/", name.substr(0, 64)));
      std::vector<uint32_t> next(at.size());
      std::ranges::generate(next, [&] { return grammar.add(); });
      for (uint64_t count = 0; count <= last && !grammar.isFull(); ++count) {
        if (count > 0) {
          uint32_t key = grammar.add(), behind = grammar.add();
          grammar.text(key, dumpJson(Json(name)), behind);
          grammar.empty(afterComma(at[count - 1], count == 1), key);
          if (count == last && !isBelowAll) {
            grammar.empty(afterComma(at[count], false), key);
          }
          grammar.empty(addValue(behind, value), next[count]);
        }
        if (!isRequired(name)) {
          grammar.empty(at[count], next[count]);
        }
      }
      at = std::move(next);
    }
    std::vector<uint32_t> first; // where a name that is not listed may stand
    for (uint64_t count = 0; count <= last; ++count) {
      closeAt(at[count], count >= least, '}');
      if (count + 1 >= least && count < most) {
        first.push_back(afterComma(at[count], count == 0));
      }
      if (isBelowAll) {
        addNamed(groups, std::exchange(first, {}), static_cast<uint32_t>(most - count));
      }
    }
    bool isBounded = most <= kMaxCount;
    addNamed(groups, first, isBounded ? static_cast<uint32_t>(most - listed) : kUnbounded);
    return checkSize(path);
  }

  static std::vector<std::string> listedNames(const Conditions &conditions) {
    std::vector<std::string> names;
    std::set<std::string_view> have;
    for (const Part &part : conditions.objects) {
      if (part.contains("properties")) {
        for (const auto &[name, schema] : part["properties"].items()) {
          if (have.insert(name).second) {
            names.push_back(name);
          }
        }
      }
    }
    for (const std::string &name : conditions.required) {
      if (have.insert(name).second) {
        names.push_back(name);
      }
    }
    return names;
  }

  Result<bool> matches(const std::string &pattern, const std::string &name,
                       const std::string &path) {
    Result<Dfa> dfa = compileRegex(pattern, budget);
    TENON_TRY(placed(path + "/patternProperties", dfa.status()));
    TENON_ASSIGN(std::u32string text, decodeUtf8(name));
    return dfa->accepts(text);
  }

  /// What all parts say of a property that is listed or required.
  Result<Json> namedSchema(const Conditions &conditions, const std::string &name,
                           const std::string &path) {
    std::vector<Json> schemas;
    for (const Part &part : conditions.objects) {
      bool isSaid = part.contains("properties") && part["properties"].contains(name);
      if (isSaid) {
        schemas.push_back(part["properties"][name]);
      }
      for (const auto &[pattern, schema] : membersOf(part, "patternProperties").items()) {
        TENON_ASSIGN(bool is, matches(pattern, name, path));
        if (is) {
          schemas.push_back(schema);
          isSaid = true;
        }
      }
      if (!isSaid && part.contains("additionalProperties")) {
        schemas.push_back(part["additionalProperties"]);
      }
    }
    for (const Json &schema : conditions.names) {
      // The name itself is a value that this schema must have.
      Json both = {{"allOf", Json::array({schema, Json{{"const", name}}})}};
      TENON_ASSIGN(Conditions said, reader.read(both, path + "/propertyNames"));
      bool is = said.choices.empty();
      if (is) {
        TENON_ASSIGN(is, holds(said, Json(name), path + "/propertyNames"));
      }
      if (!is) {
        schemas.push_back(false);
      }
    }
    return joined(std::move(schemas));
  }

  /// The groups of names beside the listed ones: by which patterns they match.
  Result<std::vector<NameGroup>> groupsOf(const Conditions &conditions,
                                          const std::vector<std::string> &names,
                                          const std::string &path) {
    std::vector<std::pair<std::string, Dfa>> patterns;
    bool hasList = false;
    for (const Part &part : conditions.objects) {
      hasList = hasList || part.contains("properties");
      for (const auto &[pattern, schema] : membersOf(part, "patternProperties").items()) {
        Result<Dfa> dfa = compileRegex(pattern, budget);
        TENON_TRY(placed(path + "/patternProperties", dfa.status()));
        patterns.emplace_back(pattern, std::move(*dfa));
      }
    }
    bool saysMore = std::ranges::any_of(
        conditions.objects, [](const Part &part) { return part.contains("additionalProperties"); });
    bool isOpen = saysMore || (!hasList && patterns.empty() && conditions.required.empty());
    if (patterns.size() > kMaxPatterns) {
      return refuseSchema(path, strCat("has more than ", kMaxPatterns, " patterns of names"));
    }
    TENON_ASSIGN(std::optional<Dfa> allowed, namesOf(conditions, path));
    std::vector<NameGroup> groups;
    for (size_t subset = 0; subset < (size_t(1) << patterns.size()); ++subset) {
      Json schema = namedBySubset(conditions, patterns, subset);
      if (schema == false || (subset == 0 && !isOpen)) {
        continue;
      }
      std::optional<Dfa> dfa = allowed;
      std::vector<std::u32string> listed;
      for (const std::string &name : names) {
        TENON_ASSIGN(listed.emplace_back(), decodeUtf8(name));
      }
      auto narrow = [&](const Dfa &by) {
        dfa = dfa ? intersection(*dfa, by, budget) : std::optional(by);
        return dfa ? Status::ok() : refuseSchema(path, "makes the schema's automaton too large");
      };
      if (!listed.empty()) {
        TENON_TRY(narrow(complementOf(textsOf(listed))));
      }
      for (size_t i = 0; i < patterns.size(); ++i) {
        bool isIn = (subset >> i & 1) != 0;
        TENON_TRY(narrow(isIn ? patterns[i].second : complementOf(patterns[i].second)));
      }
      uint32_t rule = rules.string;
      if (dfa) {
        rule = grammar.add();
        uint32_t inside = grammar.add();
        grammar.bytes(rule, '"', '"', inside);
        addCharacters(grammar, rules, inside, *dfa, end);
      }
      groups.push_back({rule, ruleOf(schema, path + "/additionalProperties")});
    }
    return groups;
  }

  /// What parts say of a name that matches these patterns and no others.
  static Json namedBySubset(const Conditions &conditions,
                            const std::vector<std::pair<std::string, Dfa>> &patterns,
                            size_t subset) {
    std::vector<Json> schemas;
    size_t number = 0;
    for (const Part &part : conditions.objects) {
      bool isSaid = false;
      for (const auto &[pattern, schema] : membersOf(part, "patternProperties").items()) {
        if ((subset >> number++ & 1) != 0) {
          schemas.push_back(schema);
          isSaid = true;
        }
      }
      if (!isSaid && part.contains("additionalProperties")) {
        schemas.push_back(part["additionalProperties"]);
      }
    }
    bool isNever = std::ranges::find(schemas, Json(false)) != schemas.end();
    return isNever ? Json(false) : joined(std::move(schemas));
  }

  /// Names that propertyNames allows; none where it says nothing.
  Result<std::optional<Dfa>> namesOf(const Conditions &conditions, const std::string &path) {
    if (conditions.names.empty()) {
      return std::optional<Dfa>();
    }
    std::string where = path + "/propertyNames";
    TENON_ASSIGN(Conditions said, reader.read(Json{{"allOf", conditions.names}}, where));
    if (!said.choices.empty() || (said.types & bitOf(JsonType::String)) == 0) {
      return refuseSchema(where, "is held for keywords of strings only");
    }
    if (said.values) {
      std::vector<std::u32string> texts;
      for (const Json &value : *said.values) {
        if (value.is_string()) {
          TENON_ASSIGN(texts.emplace_back(), decodeUtf8(value.get_ref<const std::string &>()));
        }
      }
      return std::optional(textsOf(texts));
    }
    said.patterns.emplace_back(""); // lengths alone are an automaton here too
    return textOf(said, where);
  }

  SchemaReader reader;
  Budget budget{kBudget};
  std::unordered_map<std::string, uint32_t> known; ///< rules, by schema
  std::vector<Pending> pending;
};

} // namespace

Result<uint32_t> addSchema(Grammar &grammar, const JsonRules &rules, const Json &schema,
                           const std::string &path) {
  return SchemaCompiler(grammar, rules, schema).compile(schema, path);
}

Status completeGrammar(Grammar &grammar) {
  grammar.measure();
  if (grammar.isFull()) {
    return Status::error(ErrorId::SchemaUnsupported, "the schema's automaton is too large",
                         "use a smaller schema");
  }
  return grammar.nodes[grammar.root].height == kUnbounded
             ? Status::error(ErrorId::SchemaUnsupported, "no value that ends satisfies the schema",
                             "look for required properties that contradict or contain themselves")
             : Status::ok();
}

Result<std::shared_ptr<const Grammar>> compileSchema(const Json &schema) {
  std::shared_ptr<Grammar> grammar = std::make_shared<Grammar>();
  JsonRules rules(*grammar);
  TENON_ASSIGN(uint32_t rule, addSchema(*grammar, rules, schema, "#"));
  uint32_t first = grammar->add();
  grammar->root = grammar->add();
  grammar->call(grammar->root, rules.space, first).isLeaf = true;
  grammar->call(first, rule, grammar->addEnd());
  TENON_TRY(completeGrammar(*grammar));
  return std::shared_ptr<const Grammar>(std::move(grammar));
}

std::shared_ptr<const Grammar> anyObject() {
  std::shared_ptr<Grammar> grammar = std::make_shared<Grammar>();
  JsonRules rules(*grammar);
  uint32_t first = grammar->add();
  grammar->root = grammar->add();
  grammar->call(grammar->root, rules.space, first).isLeaf = true;
  grammar->call(first, rules.object, grammar->addEnd());
  grammar->measure();
  return grammar;
}

} // namespace tenon::generate::grammar
