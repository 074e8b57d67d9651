// Implements the kept ones as a list in the order of their use: there are few.
#include "generate/grammar/Formats.h"

#include "generate/grammar/Schema.h"
#include "support/json/StrictJson.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace tenon::generate::grammar {

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
    constexpr JsonLimits kLimits = {.maxDepth = 64, .maxValues = 100'000};
    Json value;
    if (std::optional<JsonFault> fault = parseStrict(text, kLimits, value)) {
      return Status::error(ErrorId::BadArgument,
                           strCat("the schema is not valid JSON: ", fault->text));
    }
    return compileSchema(value);
  });
}

} // namespace tenon::generate::grammar
