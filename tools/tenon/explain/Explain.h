// The decisions that an engine carries: what the compiler did with the model, and why.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"

#include <string>
#include <vector>

namespace tenon::tool {

struct ExplainRequest {
  std::string topic; ///< one of explainTopics
  std::string engine;
  std::string node;                ///< of the model, or a region; empty for the whole
  std::vector<std::string> shapes; ///< sizes that estimates are for; the likely ones without
  std::string level;               ///< of a variant; empty for this machine's
};

std::vector<std::string> explainTopics();

/// tenon.explain-TOPIC/1 without its schema. TN0105 where there is no such topic or name.
Result<Json> explainEngine(const ExplainRequest &request);
/// The same for people: of the whole a screen, or with `all` everything.
std::string explanationText(const ExplainRequest &request, Json explained, bool all);

} // namespace tenon::tool
