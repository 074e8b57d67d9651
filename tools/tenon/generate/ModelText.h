// What a language model says of its text: of a file that is not compiled yet, or of an engine.
#pragma once

#include "support/Result.h"
#include "support/json/Json.h"

#include <string>

namespace tenon::tool {

/// The record "language" or "tokenizer". TN0615 where there is none.
Result<Json> textRecord(const std::string &path, const std::string &name);

} // namespace tenon::tool
