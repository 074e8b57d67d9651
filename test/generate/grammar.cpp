// Runs grammars for grammar.py. The first line of the standard input is a vocabulary as an engine
// carries it; each other is {"schema": ..., "walks": ..., "seed": ..., "texts": [...]}, and has its
// line of results: texts of random walks under the masks, whether each of the texts is of the
// schema, and in how many places masks differ from what each token does by itself.
#include "generate/grammar/Automaton.h"
#include "generate/grammar/Schema.h"
#include "generate/tokenizer/VocabularyJson.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>
#include <iostream>
#include <random>

namespace {

using namespace tenon::generate;
using namespace tenon::generate::grammar;
using tenon::Json;
using tenon::Result;

std::vector<int32_t> tokensOf(const Mask &mask, size_t vocabulary) {
  std::vector<int32_t> tokens;
  for (int32_t token = 0; static_cast<size_t>(token) < vocabulary; ++token) {
    if (mask.has(token)) {
      tokens.push_back(token);
    }
  }
  return tokens;
}

class Walker {
public:
  Walker(const TokenTrie &theTrie, Automaton &theAutomaton, uint64_t seed)
      : trie(theTrie), automaton(theAutomaton), chance(seed) {}

  /// A text of the grammar; "error" or "unfinished" otherwise.
  Json walk(bool checksMasks) {
    constexpr int kTokens = 60, kMost = 3000;
    std::string text;
    Place place = automaton.start();
    for (int i = 0; i < kMost; ++i) {
      Result<std::shared_ptr<const Mask>> mask = automaton.mask(place, effort);
      if (!mask.isOk()) {
        return {{"error", mask.status().toString()}, {"text", text}};
      }
      std::vector<int32_t> allowed = tokensOf(**mask, trie.vocabulary());
      if (checksMasks && chance() % 8 == 0) {
        check(place, **mask);
      }
      int32_t token = i < kTokens ? allowed[chance() % allowed.size()] : nearestEnd(allowed);
      if (std::ranges::find(trie.ends(), token) != trie.ends().end()) {
        return {{"text", text}};
      }
      Result<Place> next = automaton.next(place, token, effort);
      if (!next.isOk()) {
        return {{"error", next.status().toString()}, {"text", text}};
      }
      text += trie.bytesOf(token);
      place = std::move(*next);
      if (place.isOver()) {
        return {{"text", text}};
      }
    }
    return {{"error", "unfinished"}, {"text", text}};
  }

  uint64_t wrong = 0, checked = 0;
  Effort effort = 0;
  bool isFaulty = false; ///< masks have a planted fault

private:
  int32_t nearestEnd(const std::vector<int32_t> &allowed) {
    for (int32_t token : allowed) {
      if (std::ranges::find(trie.ends(), token) != trie.ends().end()) {
        return token;
      }
    }
    for (std::string_view sign : {"}", "]", "\"", ":"}) {
      for (int32_t token : allowed) {
        if (trie.bytesOf(token) == sign && chance() % 8 != 0) {
          return token;
        }
      }
    }
    return allowed[chance() % allowed.size()];
  }

  /// Each token alone, byte by byte.
  void check(const Place &place, const Mask &mask) {
    for (size_t i = 0; i < trie.vocabulary(); ++i) {
      int32_t token = static_cast<int32_t>(i);
      bool isEnd = std::ranges::find(trie.ends(), token) != trie.ends().end();
      bool has = mask.has(token) != (isFaulty && token == 'A');
      bool may = isEnd
                     ? place.isWhole
                     : !trie.bytesOf(token).empty() && automaton.next(place, token, effort).isOk();
      wrong += may != has ? 1 : 0;
      ++checked;
    }
  }

  const TokenTrie &trie;
  Automaton &automaton;
  std::mt19937_64 chance;
};

double secondsSince(std::clock_t began) {
  return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
}

/// What an answer of random tokens takes of the processor, as a service writes it.
Json answerOf(const TokenTrie &trie, const std::shared_ptr<Automaton> &automaton, uint64_t tokens) {
  Matcher matcher(automaton);
  std::mt19937_64 chance(7);
  double most = 0, all = 0;
  uint64_t written = 0;
  std::string error;
  for (; written < tokens && error.empty() && !matcher.isOver(); ++written) {
    std::clock_t began = std::clock();
    Result<std::shared_ptr<const Mask>> mask = matcher.mask();
    double seconds = secondsSince(began);
    if (!mask.isOk()) {
      error = mask.status().toString();
      all += seconds;
      break;
    }
    std::vector<int32_t> allowed = tokensOf(**mask, trie.vocabulary());
    std::erase_if(allowed, [&](int32_t token) {
      return std::ranges::find(trie.ends(), token) != trie.ends().end();
    });
    if (allowed.empty()) {
      break;
    }
    int32_t token = allowed[chance() % allowed.size()];
    began = std::clock();
    tenon::Status status = matcher.take(token);
    seconds += secondsSince(began);
    error = status.isOk() ? "" : status.toString();
    most = std::max(most, seconds);
    all += seconds;
  }
  return {{"tokens", written}, {"seconds", all}, {"most", most}, {"error", error}};
}

bool accepts(const Automaton &automaton, std::string_view text) {
  Place place = automaton.start();
  Effort effort = 0;
  for (char byte : text) {
    Result<Place> next = automaton.nextSymbol(place, static_cast<unsigned char>(byte), effort);
    if (!next.isOk()) {
      return false;
    }
    place = std::move(*next);
  }
  return place.isWhole;
}

Json run(const Json &test, const std::shared_ptr<const TokenTrie> &trie) {
  std::clock_t began = std::clock();
  const Json &schema = test.at("schema");
  Result<std::shared_ptr<const Grammar>> grammar =
      schema.is_null() ? Result<std::shared_ptr<const Grammar>>(anyObject())
                       : compileSchema(schema);
  // Of the processor: other programs run beside the tests.
  double seconds = secondsSince(began);
  if (!grammar.isOk()) {
    return {{"refused", grammar.status().toString()}, {"seconds", seconds}};
  }
  Automaton automaton(*grammar, trie);
  Walker walker(*trie, automaton, test.value("seed", uint64_t(0)));
  walker.isFaulty = test.value("fault", false);
  Json result = {{"walks", Json::array()}, {"accepts", Json::array()}, {"seconds", seconds}};
  for (uint64_t i = 0; i < test.value("walks", uint64_t(0)); ++i) {
    result["walks"].push_back(walker.walk(test.value("masks", false)));
  }
  for (const Json &text : test.value("texts", Json::array())) {
    result["accepts"].push_back(accepts(automaton, text.get_ref<const std::string &>()));
  }
  if (test.contains("answer")) {
    result["answer"] = answerOf(*trie, std::make_shared<Automaton>(*grammar, trie), test["answer"]);
  }
  AutomatonCounts counts = automaton.counts();
  result["wrong"] = walker.wrong;
  result["checked"] = walker.checked;
  result["nodes"] = (*grammar)->nodes.size();
  result["counts"] = {{"masks", counts.masks},
                      {"made", counts.made},
                      {"steps", counts.steps},
                      {"walked", counts.walked},
                      {"bytes", counts.bytes}};
  return result;
}

} // namespace

int main() {
  std::string line;
  std::getline(std::cin, line);
  Json source = Json::parse(line);
  Result<Vocabulary> vocabulary = vocabularyOf(source);
  Result<Tokenizer> tokenizer = vocabulary.isOk() ? Tokenizer::create(std::move(*vocabulary))
                                                  : Result<Tokenizer>(vocabulary.status());
  if (!tokenizer.isOk()) {
    std::cerr << tokenizer.status().toString() << '\n';
    return 1;
  }
  std::shared_ptr<const TokenTrie> trie =
      std::make_shared<TokenTrie>(*tokenizer, static_cast<int64_t>(tokenizer->size()));
  while (std::getline(std::cin, line)) {
    std::cout << run(Json::parse(line), trie).dump(-1, ' ', false, Json::error_handler_t::replace)
              << std::endl;
  }
}
