// What a weight of small numbers takes in the engine, where its type has more bits.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace tenon::tn {

/// On a tn.weight of ui8: how many bits of each number an engine stores, as an integer.
inline constexpr llvm::StringLiteral kStoredBits = "tn.stored_bits";

} // namespace tenon::tn
