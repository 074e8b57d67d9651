// The parts of a program's JSON that archives and graphs share: descriptions of tensors, and names.
#pragma once

#include "compiler/frontend/pt2/wire/Json.h"
#include "compiler/frontend/pt2/wire/Program.h"

namespace tenon::pt2 {

Size sizeOf(JsonReader &json, const Json &value);
TensorMeta tensorMeta(JsonReader &json, const Json &value);

/// The path of the innermost module of a serialized nn_module_stack.
std::string innermostModule(std::string_view stack);

/// The names that the program's tree of outputs gives to its leaves: keys and positions, joined by
/// dots. Empty without one; single outputs are called "output".
std::vector<std::string> outputNames(const Json &moduleCalls);

} // namespace tenon::pt2
