// Runs a grammar: where an answer stands in it, and which tokens may come next. What was found for
// one place is kept for all answers of the grammar.
#pragma once

#include "generate/grammar/Grammar.h"
#include "generate/grammar/TokenTrie.h"
#include "support/Result.h"

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon::generate::grammar {

/// A node that waits for the end of the one above it, and its count.
struct Frame {
  uint32_t node = 0, count = 0;
  bool operator==(const Frame &) const = default;
};
/// The last is the innermost, whose node takes a symbol.
using Stack = std::vector<Frame>;

/// All that an answer so far may be.
struct Place {
  std::vector<Stack> stacks;
  bool isWhole = false; ///< the text may end here
  bool operator==(const Place &) const = default;

  /// Whether nothing may follow.
  bool isOver() const { return stacks.empty(); }
};

/// Tokens that may come next.
struct Mask {
  TokenBits bits;              ///< of most; empty where there are few
  std::vector<int32_t> tokens; ///< the few

  bool has(int32_t token) const;
  /// Replaces the logits of all others.
  void keep(std::span<float> logits, float never) const;
  uint64_t bytes() const { return bits.size() * 8 + tokens.size() * 4; }
};

/// What was computed, in units of about a nanosecond: stacks that were copied, edges and nodes of
/// the vocabulary that were looked at.
using Effort = uint64_t;

struct AutomatonCounts {
  uint64_t masks = 0;  ///< that were asked for
  uint64_t made = 0;   ///< of those, that were not there
  uint64_t steps = 0;  ///< of the grammar: places that a byte was tried in for the first time
  uint64_t walked = 0; ///< nodes of the vocabulary that were looked at
  uint64_t bytes = 0;  ///< held, about
};

/// Any thread.
class Automaton {
public:
  /// The grammar is measured, and its root ends somewhere.
  Automaton(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie);

  Place start() const;
  /// Where the bytes of a token, or a marker, lead; TN0625 where the place is as large as no schema
  /// should need, or the token may not come.
  /// This and the next two add to the effort.
  Result<Place> next(const Place &place, int32_t token, Effort &effort) const;
  /// The same for one symbol; nothing where it may not come.
  Result<Place> nextSymbol(const Place &place, unsigned symbol, Effort &effort) const;
  /// TN0625 where no token may come, or finding them takes too many steps.
  Result<std::shared_ptr<const Mask>> mask(const Place &place, Effort &effort);

  const Grammar &rules() const { return *grammar; }
  AutomatonCounts counts() const;

  /// Calls of rules in each other, and stacks of a place.
  static constexpr size_t kMaxDepth = 400, kMaxStacks = 1000;
  static constexpr uint64_t kMaxHeldBytes = uint64_t(64) << 20;
  static constexpr uint64_t kMaxMaskSteps = 300'000;

private:
  static constexpr uint32_t kUnknown = 0xFFFFFFFF, kDead = 0xFFFFFFFE, kFailed = 0xFFFFFFFD;
  struct Known {
    Place place;
    std::unique_ptr<std::array<uint32_t, 256>> next;
    std::shared_ptr<const Mask> mask;
  };
  class Closing;

  /// The place that stands for it, and for others that tokens do not tell from it.
  Place reduced(const Place &place) const;
  uint32_t idOf(Place place);
  uint32_t step(uint32_t id, uint8_t byte, uint64_t &work, Effort &effort);
  bool walk(const TokenTrie::Tree &tree, uint32_t id, TokenBits &bits, uint64_t &work,
            Effort &effort);
  Result<std::shared_ptr<const Mask>> make(uint32_t id, Effort &effort);
  std::optional<uint32_t> plainRoom(const Place &place) const;

  const std::shared_ptr<const Grammar> grammar;
  const std::shared_ptr<const TokenTrie> trie;
  mutable std::mutex lock;
  std::vector<Known> known;
  std::unordered_multimap<uint64_t, uint32_t> ids; ///< by hash
  AutomatonCounts counted;
};

/// One answer's.
class Matcher {
public:
  explicit Matcher(std::shared_ptr<Automaton> theAutomaton)
      : automaton(std::move(theAutomaton)), place(automaton->start()) {}

  /// Errors are those of Automaton; TN0625 where the whole answer takes more than kMaxEffort, and
  /// kEffortPerToken for each token: no schema holds up the answers of others for long.
  Result<std::shared_ptr<const Mask>> mask();
  /// Takes a token of the mask that ends no text.
  Status take(int32_t token);
  /// Whether the text is whole and nothing may follow.
  bool isOver() const { return place.isOver(); }

private:
  /// Half a second, and half a millisecond.
  static constexpr Effort kMaxEffort = 500'000'000, kEffortPerToken = 500'000;

  std::shared_ptr<Automaton> automaton;
  Place place;
  Effort effort = 0, allowed = kMaxEffort;
};

} // namespace tenon::generate::grammar
