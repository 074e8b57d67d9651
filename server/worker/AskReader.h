// What a request for texts says of the model's prompt, and of what answers are held to.

#pragma once

#include "generate/grammar/Formats.h"
#include "generate/session/LanguageModel.h"
#include "generate/tools/ToolFormat.h"
#include "generate/tools/ToolParser.h"
#include "server/ipc/TextMessages.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tenon::server {

/// One thread.
class AskReader {
public:
  /// The model outlives it.
  explicit AskReader(const generate::LanguageModel &theModel)
      : model(theModel), formats(model.tokenizer(), model.facts().vocabulary) {}

  /// The prompt. TN0626 for tools where the template has none; otherwise as renderChat.
  Result<std::vector<int32_t>> tokensOf(const TextAsk &ask);
  /// What the answers are held to; null for any text. TN0256.
  Result<std::shared_ptr<generate::grammar::Automaton>> formatOf(const TextAsk &ask);
  /// How answers call tools; none where they call none.
  Result<std::optional<generate::ToolFormat>> toolsOf(const TextAsk &ask);
  /// Of one answer.
  std::unique_ptr<generate::ToolParser> parserOf(const TextAsk &ask,
                                                 const generate::ToolFormat &format) const;

private:
  Result<generate::ToolFormat> toolFormat();
  Result<std::shared_ptr<generate::grammar::Automaton>> toolsFormatOf(const TextAsk &ask);

  const generate::LanguageModel &model;
  generate::grammar::Formats formats;
  std::optional<Result<generate::ToolFormat>> foundTools;
};

} // namespace tenon::server
