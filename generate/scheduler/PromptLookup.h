// Guesses how a text goes on by what it said before.
//
// Source: Saxena, "Prompt lookup decoding" (2023).
#pragma once

#include <cstdint>
#include <span>

namespace tenon::generate {

/// What followed the last place where the text's last tokens stood before, at most `count` tokens;
/// nothing where they did not.
std::span<const int32_t> lookUp(std::span<const int32_t> text, int64_t count);

} // namespace tenon::generate
