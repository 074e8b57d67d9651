// How a model's template writes the calls of tools, which is how the model was trained to write
// them. It is found by rendering calls: nothing here knows a model by its name.
#pragma once

#include "generate/session/Chat.h"
#include "generate/tokenizer/Tokenizer.h"
#include "generate/tools/ObjectScan.h"
#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::generate {

struct ToolFormat {
  /// Where an id stands in the texts below.
  static constexpr char kId = '\0';
  /// Characters of an id, which are letters and digits: some templates take no others.
  static constexpr size_t kIdSize = 9;

  // A call is `before`, its name, `middle`, its arguments as JSON, then `behind` at the end of all
  // calls or `between` before the name of the next.
  std::string before, middle, behind;
  std::string between;    ///< empty where there is one call at most
  std::string opener;     ///< how `before` begins, without its JSON; empty for JSON alone
  std::string closer;     ///< how `behind` ends, without its JSON
  bool showsCalls = true; ///< the template writes them; otherwise its text says how
  bool isObject = false;  ///< a call is a JSON object
  CallKeys keys;          ///< of that
  bool givesArgumentsAsText = false; ///< see ChatOptions
  std::vector<int32_t> markers;      ///< control tokens that are written with calls
};

/// TN0626 where the template shows no tools, or writes arguments of calls in a form that is no
/// JSON; otherwise as renderChat.
Result<ToolFormat> findToolFormat(std::string_view chatTemplate, const Tokenizer &tokenizer);

/// A text cut into control tokens of these and what is between them: tokens, or -1 with the text.
std::vector<std::pair<int32_t, std::string>>
cutAtTokens(std::string_view text, const std::vector<int32_t> &tokens, const Tokenizer &tokenizer);

} // namespace tenon::generate
