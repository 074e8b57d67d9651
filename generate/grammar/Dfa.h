// Deterministic automata over code points: what the text of a JSON string may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon::generate::grammar {

inline constexpr char32_t kMaxPoint = 0x10FFFF;

/// Both ends are in it.
struct CodeRange {
  char32_t first = 0, last = 0;
  bool operator==(const CodeRange &) const = default;
};
/// Sorted and apart from each other, once normalized; never with surrogates.
using CodeSet = std::vector<CodeRange>;

CodeSet normalized(CodeSet set);
CodeSet complementOf(const CodeSet &set);

/// What building an automaton may cost; each step takes from it.
struct Budget {
  uint64_t left;

  bool spend(uint64_t count) {
    bool has = left >= count;
    left -= has ? count : left;
    return has;
  }
};

/// State 0 is the first; without states it takes no text.
struct Dfa {
  struct Edge {
    char32_t first = 0, last = 0;
    uint32_t target = 0;
  };
  struct State {
    std::vector<Edge> edges; ///< sorted, apart from each other
    bool accepts = false;
  };
  std::vector<State> states;

  bool isEmpty() const { return states.empty(); }
  /// Leaves out states from which nothing is accepted, and those that are never reached.
  void trim();
  bool accepts(std::u32string_view text) const;
};

/// All texts of `least` to `most` code points.
Dfa textsOfLength(uint64_t least, std::optional<uint64_t> most);
/// These texts.
Dfa textsOf(const std::vector<std::u32string> &texts);
/// None where the budget is spent, as with all that follow.
std::optional<Dfa> intersection(const Dfa &left, const Dfa &right, Budget &budget);
Dfa complementOf(const Dfa &dfa);

} // namespace tenon::generate::grammar
