// What turns a model's numbers into text: the tokenizer and the chat template of a file, as records
// that its engine carries. Relies on generate/ for what is understood of both.
#pragma once

#include "compiler/frontend/common/Import.h"
#include "compiler/frontend/language/Model.h"

#include <vector>

namespace tenon::language {

/// Positions of a page.
inline constexpr int64_t kPagePositions = 32;

/// The records "language", for an engine whose sessions have so many pages at most or none, and,
/// for a file with one, "tokenizer" (docs/reference/engine-format.md). What the tokenizer or the
/// template needs and Tenon lacks goes to `gaps`. TN0249 where the vocabulary contradicts itself or
/// the embedding.
Result<std::vector<frontend::Asset>> readText(const Model &model, int64_t positions, int64_t pages,
                                              std::vector<frontend::Gap> &gaps);

} // namespace tenon::language
