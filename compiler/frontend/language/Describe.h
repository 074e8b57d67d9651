// What a model's file says of it, for people and programs: what its family does otherwise than
// another, and what its tensors are stored in.
#pragma once

#include "compiler/frontend/language/Model.h"
#include "support/json/Json.h"

namespace tenon::language {

/// Members of the record "language" (docs/reference/engine-format.md): `switches`, `tensors`,
/// `pre_tokenizer`, `cache_bytes` and `table_bytes`, the last two for each position.
Json describe(const Model &model);

} // namespace tenon::language
