// What a search says: the reason of each choice, the record in the model, text and JSON for people.

#pragma once

#include "support/json/Json.h"
#include "tools/tenon/quant/Evaluator.h"
#include "tools/tenon/quant/Search.h"

#include <string>

namespace tenon::tool {

/// Why the candidate is as it was chosen: "int8 takes 5.1 us, wide 8.3 us; error 0.12 %".
std::string ruleOf(const SearchedCandidate &own);
/// Why there is no answer.
Status refusalOf(const Searched &searched, const SearchRequest &request,
                 const Evaluator &evaluator);

/// The layer that loses most, then the front; a line each.
std::string searchText(const Searched &searched);
Json searchJson(const Searched &searched);

} // namespace tenon::tool
