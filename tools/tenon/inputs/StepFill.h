// Inputs of a language model's step that agree with each other. Relies on the record "language" for
// the ports' roles.
#pragma once

#include "runtime/core/Engine.h"
#include "runtime/tensors/Tensor.h"

#include <set>
#include <span>
#include <string>

namespace tenon::tool {

/// Sets the inputs that say where tokens stand (support/LanguageStep.h), but for those that the
/// caller gave; `pages` is what the session has. Nothing for an engine without such ports.
void fillStep(std::span<Tensor> inputs, const runtime::Engine &engine, int64_t pages,
              const std::set<std::string> &given);

} // namespace tenon::tool
