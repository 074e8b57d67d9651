// The part of plan validation that concerns library calls: the form of their descriptors. Private
// to engine/.

#pragma once

#include "engine/Plan.h"

#include <optional>
#include <span>
#include <string>

namespace tenon::engine {

/// What is wrong with a Call instruction, none when it is a descriptor of LibraryAbi.h with the
/// buffers and sizes that it takes.
std::optional<std::string> faultOfCall(const Instruction &instruction);

} // namespace tenon::engine
