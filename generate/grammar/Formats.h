// What the answers of one model are held to: grammars with the tokens of its vocabulary, those
// asked for last kept for the next request.
#pragma once

#include "generate/grammar/Automaton.h"
#include "generate/tokenizer/Tokenizer.h"
#include "support/Result.h"

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::generate::grammar {

/// Any thread.
class Formats {
public:
  using Make = std::function<Result<std::shared_ptr<const Grammar>>()>;

  /// The tokenizer outlives it; `vocabulary` is the number of logits.
  Formats(const Tokenizer &theTokenizer, int64_t theVocabulary)
      : tokenizer(theTokenizer), vocabulary(theVocabulary) {}

  /// A text that is any JSON object.
  Result<std::shared_ptr<Automaton>> object();
  /// A JSON value of a schema, which is text of JSON. TN0105 where it is none; TN0256.
  Result<std::shared_ptr<Automaton>> schema(std::string_view text);
  /// What OpenAI's interface calls a response_format, as JSON: an object whose type is text, which
  /// gives null, json_object or json_schema. TN0105 where it is none; TN0256.
  Result<std::shared_ptr<Automaton>> response(std::string_view format);
  /// What `make` gives, where the name is not known yet.
  Result<std::shared_ptr<Automaton>> named(const std::string &name, const Make &make);

private:
  static constexpr size_t kMaxKept = 16;

  const Tokenizer &tokenizer;
  const int64_t vocabulary;
  std::mutex lock;
  std::shared_ptr<const TokenTrie> trie;                              ///< made for the first format
  std::list<std::pair<std::string, std::shared_ptr<Automaton>>> kept; ///< the last used first
};

} // namespace tenon::generate::grammar
