// What `--allow int8-activations` changes in the logits of a language model.

#pragma once

#include "tools/tenon/explain/Explain.h"

namespace tenon::tool {

/// Runs the variant that a request explains and one of the same engine without the permission on a
/// text that the model's file carries. Null where the variant rounds no activations, does not run
/// on this machine, or the engine holds no language model; without "beside" where this machine runs
/// no variant to compare it with.
Result<Json> activationCost(const ExplainRequest &request);

} // namespace tenon::tool
