// A vocabulary as JSON: how an engine carries it.
#pragma once

#include "generate/tokenizer/Vocabulary.h"
#include "support/Result.h"
#include "support/json/Json.h"

namespace tenon::generate {

Json toJson(const Vocabulary &vocabulary);
/// TN0249 where the value is no vocabulary. What is in it is for Tokenizer::create to check.
Result<Vocabulary> vocabularyOf(const Json &value);

} // namespace tenon::generate
