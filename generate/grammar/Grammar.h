// A grammar over bytes: rules that take bytes, call each other and count. A JSON schema becomes
// one, and an automaton runs it.
#pragma once

#include "generate/grammar/Dfa.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::generate::grammar {

/// What an edge does to the count of the node that it leaves.
enum class Count : uint8_t { Reset, Keep, Add };
/// When it may be taken.
enum class Guard : uint8_t { None, BelowMost, FromLeast };

struct Edge {
  enum class Kind : uint8_t {
    Bytes, ///< from `first` to `last`; from kMarkers on, a marker's number
    Call,  ///< the rule that begins at node `rule`, then on to the target
    Empty,
  };
  Kind kind = Kind::Empty;
  Count count = Count::Reset;
  Guard guard = Guard::None;
  bool isLeaf = false; ///< a call of a rule that calls none, which no limit of depth stops
  uint16_t first = 0, last = 0;
  uint32_t target = 0, rule = 0;
};

inline constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();
/// Symbols from here on are tokens without bytes.
inline constexpr uint16_t kMarkers = 256;

struct Node {
  std::vector<Edge> edges;
  uint32_t least = 0, most = kUnbounded; ///< what guards compare the count with
  /// Calls in each other that are needed from here to the end of its rule.
  uint32_t height = kUnbounded;
  bool accepts = false; ///< ends its rule
  /// In a JSON string: each character that needs no escape comes back here and counts, and no
  /// other edge takes any.
  bool isPlain = false;
};

/// Nodes and their edges; a rule is its first node.
class Grammar {
public:
  std::vector<Node> nodes;
  uint32_t root = 0;
  std::vector<int32_t> markers; ///< tokens, by number

  static constexpr size_t kMaxNodes = 200'000;

  uint32_t add() {
    nodes.emplace_back();
    return static_cast<uint32_t>(nodes.size() - 1);
  }
  uint32_t addEnd() {
    uint32_t node = add();
    nodes[node].accepts = true;
    return node;
  }
  /// A node whose guards compare with these.
  uint32_t addCounted(uint32_t least, uint32_t most) {
    uint32_t node = add();
    nodes[node].least = least;
    nodes[node].most = most;
    return node;
  }
  bool isFull() const { return nodes.size() > kMaxNodes; }

  Edge &bytes(uint32_t from, unsigned first, unsigned last, uint32_t to);
  Edge &call(uint32_t from, uint32_t rule, uint32_t to);
  Edge &empty(uint32_t from, uint32_t to);
  /// The bytes of a text, one after the other.
  void text(uint32_t from, std::string_view text, uint32_t to);

  /// Finds `height` of all nodes; it is kUnbounded where no text ends the rule. Edges into such
  /// nodes are taken out.
  void measure();
};

/// The rules that all JSON is made of.
struct JsonRules {
  explicit JsonRules(Grammar &grammar);

  uint32_t space;     ///< nothing, or one of a few forms
  uint32_t multibyte; ///< a character of more than one byte
  uint32_t escape;    ///< what stands behind a backslash
  uint32_t escaped;   ///< a character that needs an escape, with its shortest
  uint32_t string, number, integer, boolean, null, any, object, array;

private:
  void addSpace(Grammar &grammar);
  void addMultibyte(Grammar &grammar);
  void addEscapes(Grammar &grammar);
  void addNumbers(Grammar &grammar);
  void addContainers(Grammar &grammar);
};

/// The inside of a JSON string of `least` to `most` characters and the quote that ends it.
void addCharacters(Grammar &grammar, const JsonRules &rules, uint32_t from, uint32_t least,
                   uint32_t most, uint32_t to);
/// The inside of a JSON string that an automaton accepts, and the quote.
void addCharacters(Grammar &grammar, const JsonRules &rules, uint32_t from, const Dfa &dfa,
                   uint32_t to);
/// The texts of an automaton as they are.
void addTexts(Grammar &grammar, uint32_t from, const Dfa &dfa, uint32_t to);

} // namespace tenon::generate::grammar
