// Finds how templates write calls of tools, for tools.py. The first line of the standard input is a
// vocabulary as an engine carries it; each other is {"template", "names", "texts", "tools",
// "must", "one", "walks"}, and has its line of results: the format, the calls in each text, whole
// and cut into pieces, and texts of random walks under the grammar of the tools.
#include "generate/grammar/Automaton.h"
#include "generate/tokenizer/VocabularyJson.h"
#include "generate/tools/ToolGrammar.h"
#include "generate/tools/ToolParser.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <random>

namespace {

using namespace tenon::generate;
using tenon::Json;
using tenon::Result;

Json jsonOf(const ToolText &text) {
  Json calls = Json::array();
  for (const CallPart &part : text.parts) {
    if (part.index == calls.size()) {
      calls.push_back({{"name", part.name}, {"arguments", ""}, {"id", part.id}});
    }
    calls[part.index]["arguments"] =
        calls[part.index]["arguments"].get<std::string>() + part.arguments;
  }
  return {{"content", text.content}, {"calls", std::move(calls)}};
}

/// In pieces of at most `size` bytes.
Json parsed(const ToolFormat &format, const Json &test, const std::string &text, size_t size) {
  ToolParser parser(format, test.at("names").get<std::vector<std::string>>(),
                    !test.value("one", false), 7);
  ToolText all;
  size_t parts = 0;
  for (size_t at = 0; at < text.size(); at += size) {
    ToolText some = parser.add(std::string_view(text).substr(at, size));
    parts += some.parts.size();
    all.append(std::move(some));
  }
  all.append(parser.finish());
  Json result = jsonOf(all);
  result["parts"] = parts;
  return result;
}

ToolRules rulesOf(const Json &test) {
  ToolRules rules;
  rules.tools = test.at("tools");
  rules.mustCall = test.value("must", false);
  rules.isParallel = !test.value("one", false);
  return rules;
}

Json walked(const Json &test, const ToolFormat &format, const Tokenizer &tokenizer) {
  ToolRules rules = rulesOf(test);
  rules.name = test.value("name", std::string());
  if (test.contains("content")) {
    rules.content = test.at("content");
  }
  Result<std::shared_ptr<const grammar::Grammar>> made = toolGrammar(rules, format, tokenizer);
  if (!made.isOk()) {
    return made.status().toString();
  }
  int64_t size = static_cast<int64_t>(tokenizer.size());
  auto trie = std::make_shared<const grammar::TokenTrie>(tokenizer, size);
  grammar::Automaton automaton(*made, trie);
  std::mt19937_64 chance(test.value("seed", uint64_t(1)));
  Json texts = Json::array();
  for (uint64_t i = 0; i < test.at("walks"); ++i) {
    grammar::Place place = automaton.start();
    grammar::Effort effort = 0;
    std::string text;
    bool isWhole = false;
    for (int step = 0; step < 2000 && !isWhole; ++step) {
      Result<std::shared_ptr<const grammar::Mask>> mask = automaton.mask(place, effort);
      if (!mask.isOk()) {
        return mask.status().toString();
      }
      std::vector<int32_t> allowed, ending;
      for (int32_t token = 0; token < size; ++token) {
        std::string_view bytes = trie->bytesOf(token);
        bool ends = bytes == "\"" || bytes == "}" || bytes == "]" || bytes == "`" ||
                    std::ranges::find(trie->ends(), token) != trie->ends().end();
        if ((*mask)->has(token)) {
          allowed.push_back(token);
          if (ends && step > 30) {
            ending.push_back(token);
          }
        }
      }
      const std::vector<int32_t> &from = ending.empty() || chance() % 8 == 0 ? allowed : ending;
      int32_t token = from[chance() % from.size()];
      isWhole = std::ranges::find(trie->ends(), token) != trie->ends().end();
      if (!isWhole) {
        Result<grammar::Place> next = automaton.next(place, token, effort);
        if (!next.isOk()) {
          return next.status().toString();
        }
        place = std::move(*next);
        text += tokenizer.isControl(token) ? tokenizer.vocabulary().tokens[token]
                                           : std::string(trie->bytesOf(token));
        isWhole = place.isOver();
      }
    }
    texts.push_back(
        {{"text", text}, {"whole", isWhole}, {"parsed", parsed(format, test, text, 3)}});
  }
  return texts;
}

/// Whether each text is one of the grammar.
Json checked(const Json &test, const ToolFormat &format, const Tokenizer &tokenizer) {
  ToolRules rules = rulesOf(test);
  Result<std::shared_ptr<const grammar::Grammar>> made = toolGrammar(rules, format, tokenizer);
  if (!made.isOk()) {
    return made.status().toString();
  }
  auto trie = std::make_shared<const grammar::TokenTrie>(tokenizer, tokenizer.size());
  grammar::Automaton automaton(*made, trie);
  Json results = Json::array();
  grammar::Effort effort = 0;
  for (const Json &text : test.at("checks")) {
    grammar::Place place = automaton.start();
    for (auto &[token, part] :
         cutAtTokens(text.get_ref<const std::string &>(), format.markers, tokenizer)) {
      Result<grammar::Place> next =
          token >= 0 ? automaton.next(place, token, effort) : Result(place);
      for (size_t i = 0; i < part.size() && next.isOk(); ++i) {
        next = automaton.nextSymbol(*next, static_cast<unsigned char>(part[i]), effort);
      }
      place = next.isOk() ? std::move(*next) : grammar::Place();
    }
    results.push_back(place.isWhole);
  }
  return results;
}

Json run(const Json &test, const Tokenizer &tokenizer) {
  Result<ToolFormat> format = findToolFormat(test.at("template").get<std::string>(), tokenizer);
  if (!format.isOk()) {
    return {{"refused", format.status().toString()}};
  }
  Json result = {{"before", format->before},    {"middle", format->middle},
                 {"behind", format->behind},    {"between", format->between},
                 {"opener", format->opener},    {"closer", format->closer},
                 {"shows", format->showsCalls}, {"asText", format->givesArgumentsAsText},
                 {"markers", format->markers}};
  for (const Json &text : test.value("texts", Json::array())) {
    Json each = Json::array();
    for (size_t size : {size_t(100000), size_t(1), size_t(3), size_t(7)}) {
      each.push_back(parsed(*format, test, text.get<std::string>(), size));
    }
    result["parsed"].push_back(std::move(each));
  }
  if (test.contains("checks")) {
    result["checks"] = checked(test, *format, tokenizer);
  }
  if (test.contains("walks")) {
    result["walks"] = walked(test, *format, tokenizer);
  }
  return result;
}

} // namespace

int main() {
  std::string line;
  std::getline(std::cin, line);
  Result<Vocabulary> vocabulary = vocabularyOf(Json::parse(line));
  Result<Tokenizer> tokenizer = vocabulary.isOk() ? Tokenizer::create(std::move(*vocabulary))
                                                  : Result<Tokenizer>(vocabulary.status());
  if (!tokenizer.isOk()) {
    std::cerr << tokenizer.status().toString() << '\n';
    return 1;
  }
  while (std::getline(std::cin, line)) {
    std::cout
        << run(Json::parse(line), *tokenizer).dump(-1, ' ', false, Json::error_handler_t::replace)
        << std::endl;
  }
}
