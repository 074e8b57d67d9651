// The regular expressions of pre-tokenizers: the part of Oniguruma's language that models use, over
// code points, with a limit on the steps of a match.
//
// Alternatives, groups `(..)`, `(?:..)` and `(?i:..)`, sets with ranges, negation and `\p{..}`,
// `\s`,
// `\d`, `\w` and their complements, `.`, greedy and possessive `? * + {m,n}`, and lookahead. The
// first alternative that leads to a match counts, as in Perl.
#pragma once

#include "generate/tokenizer/CodeClass.h"
#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::generate {

class Pattern {
public:
  /// TN0246 where the text has something of the language that is not known, which it names.
  static Result<Pattern> parse(std::string_view text);

  /// The end of the match that begins at `at`, or kNone.
  /// TN0247 where it takes more steps than any pattern of a tokenizer does.
  Result<size_t> match(std::u32string_view text, size_t at, uint64_t &steps) const;

  /// What `steps` begins with for all matches of a text; they count it down.
  static uint64_t stepsFor(size_t points) { return kSteps + kStepsOfPoint * points; }

  static constexpr size_t kNone = static_cast<size_t>(-1);

  /// Code points: classes, single ones and ranges.
  struct Set {
    uint16_t classes = 0; ///< a bit for each CodeClass
    std::vector<std::pair<char32_t, char32_t>> ranges;
    /// Sets of which it has all that they have not.
    std::vector<Set> complements;
    bool isNegated = false;

    bool has(char32_t point) const;
  };
  struct Step {
    enum class Kind : uint8_t { Take, Split, Jump, Ahead, NotAhead, Atomic, End };
    Kind kind;
    uint32_t first = 0;  ///< a set; where to go on; the end of a part
    uint32_t second = 0; ///< where to go on otherwise
  };

private:
  friend class PatternParser;

  /// Those of models take some tens a code point.
  static constexpr uint64_t kSteps = 1'000'000, kStepsOfPoint = 1000;

  size_t run(std::u32string_view text, size_t at, uint32_t step, uint64_t &steps) const;

  std::vector<Set> sets;
  std::vector<Step> program;
};

} // namespace tenon::generate
