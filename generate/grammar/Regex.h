// Regular expressions of JSON Schema as automata: those of ECMA-262 that are regular. Left out are
// lookaround, back references and word boundaries.
#pragma once

#include "generate/grammar/Dfa.h"
#include "support/Result.h"

#include <string_view>

namespace tenon::generate::grammar {

/// The texts in which the expression matches somewhere; `^` and `$` are the ends of the text.
/// TN0256 says what of the expression is not known, or that its automaton is too large.
Result<Dfa> compileRegex(std::string_view text, Budget &budget);

} // namespace tenon::generate::grammar
