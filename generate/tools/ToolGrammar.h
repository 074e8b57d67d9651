// What an answer with tools is held to: calls as the template writes them, with arguments of each
// tool's schema.
#pragma once

#include "generate/grammar/Grammar.h"
#include "generate/tools/ToolFormat.h"
#include "support/Result.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>

namespace tenon::generate {

struct ToolRules {
  Json tools;                  ///< an array, as templates read it
  bool mustCall = false;       ///< the answer is calls and nothing else
  std::string name;            ///< of the only tool that may be called; empty for all
  bool isParallel = true;      ///< it may have several calls
  std::optional<Json> content; ///< a schema of the answer where it calls nothing
};

/// Whether an answer of these has to be held to anything.
bool needGrammar(const ToolRules &rules);

/// The grammar, measured. TN0256 for a schema of a strict tool that cannot be held; arguments of
/// one that is not strict are any object then.
Result<std::shared_ptr<const grammar::Grammar>>
toolGrammar(const ToolRules &rules, const ToolFormat &format, const Tokenizer &tokenizer);

} // namespace tenon::generate
