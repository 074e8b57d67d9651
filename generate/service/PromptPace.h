// How many tokens of prompts a step may compute beside answers that it continues: so many that the
// answers wait little longer than without, by what the steps before took; but some in any case.
#pragma once

#include <cstdint>

namespace tenon::generate {

/// One thread at a time. A step's time is that of one without prompts, and a time for each of their
/// tokens; both are followed as they change with the requests and their lengths.
class PromptPace {
public:
  /// Tokens of prompts in a step that also continues answers, at most so many. 0 where such a step
  /// is to be without them, so that its time is known.
  int64_t tokens(int64_t most) const;
  /// A step took so long in seconds, with so many tokens of prompts, and continued answers or not.
  void ran(double seconds, int64_t promptTokens, bool continues);

private:
  double plain = -1;    ///< seconds of a step without prompts; below 0 until one ran
  double perToken = -1; ///< seconds; below 0 until a step had some
  int64_t mixed = 0;    ///< steps with prompts since the last without
};

} // namespace tenon::generate
