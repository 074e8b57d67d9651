// Implements the kept ones as a list in the order of their use: there are few.
#include "generate/grammar/Formats.h"

#include "generate/grammar/Schema.h"
#include "support/json/StrictJson.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace tenon::generate::grammar {

namespace {

Result<Json> readJson(std::string_view what, std::string_view text) {
  constexpr JsonLimits kLimits = {.maxDepth = 64, .maxValues = 100'000};
  Json value;
  if (std::optional<JsonFault> fault = parseStrict(text, kLimits, value)) {
    return Status::error(ErrorId::BadArgument, strCat(what, " is not valid JSON: ", fault->text));
  }
  return std::move(value);
}

} // namespace

Result<std::shared_ptr<Automaton>> Formats::named(const std::string &name, const Make &make) {
  std::lock_guard guard(lock);
  auto found = std::ranges::find(kept, name, [](const auto &each) { return each.first; });
  if (found != kept.end()) {
    kept.splice(kept.begin(), kept, found);
    return kept.front().second;
  }
  TENON_ASSIGN(std::shared_ptr<const Grammar> grammar, make());
  trie = trie ? trie : std::make_shared<const TokenTrie>(tokenizer, vocabulary);
  kept.emplace_front(name, std::make_shared<Automaton>(std::move(grammar), trie));
  if (kept.size() > kMaxKept) {
    kept.pop_back();
  }
  return kept.front().second;
}

Result<std::shared_ptr<Automaton>> Formats::object() {
  return named("object", [] { return Result(anyObject()); });
}

Result<std::shared_ptr<Automaton>> Formats::schema(std::string_view text) {
  return named(strCat("schema ", text), [&]() -> Result<std::shared_ptr<const Grammar>> {
    TENON_ASSIGN(Json value, readJson("the schema", text));
    return compileSchema(value);
  });
}

Result<std::shared_ptr<Automaton>> Formats::response(std::string_view format) {
  TENON_ASSIGN(Json value, readJson("the response_format", format));
  auto refused = [](std::string_view what) {
    return Status::error(
        ErrorId::BadArgument, strCat("the response_format ", what),
        "for example {\"type\": \"json_schema\", \"json_schema\": {\"schema\": {...}}}");
  };
  Json type = value.is_object() ? value.value("type", Json()) : Json();
  if (type == "text") {
    return std::shared_ptr<Automaton>();
  }
  if (type == "json_object") {
    return object();
  }
  if (type != "json_schema") {
    return refused("is not an object whose 'type' is text, json_object or json_schema");
  }
  Json given = value.value("json_schema", Json());
  if (!given.is_object() || !given.contains("schema")) {
    return refused("has no 'json_schema' with a 'schema'");
  }
  return schema(dumpJson(given["schema"]));
}

} // namespace tenon::generate::grammar
