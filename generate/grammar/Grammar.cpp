// Implements heights as the least of maxima.
#include "generate/grammar/Grammar.h"

#include <algorithm>
#include <vector>

namespace tenon::generate::grammar {

Edge &Grammar::bytes(uint32_t from, unsigned first, unsigned last, uint32_t to) {
  return nodes[from].edges.emplace_back(Edge{.kind = Edge::Kind::Bytes,
                                             .first = static_cast<uint16_t>(first),
                                             .last = static_cast<uint16_t>(last),
                                             .target = to});
}

Edge &Grammar::call(uint32_t from, uint32_t rule, uint32_t to) {
  return nodes[from].edges.emplace_back(Edge{.kind = Edge::Kind::Call, .target = to, .rule = rule});
}

Edge &Grammar::empty(uint32_t from, uint32_t to) {
  return nodes[from].edges.emplace_back(Edge{.kind = Edge::Kind::Empty, .target = to});
}

void Grammar::text(uint32_t from, std::string_view text, uint32_t to) {
  if (text.empty()) {
    empty(from, to);
    return;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t next = i + 1 < text.size() ? add() : to;
    unsigned byte = static_cast<unsigned char>(text[i]);
    bytes(from, byte, byte, next);
    from = next;
  }
}

namespace {

/// The heights of a grammar's nodes: first as if each count were reached, which is the least that
/// they can be, then raised to what going around for a count needs.
class Heights {
public:
  explicit Heights(Grammar &theGrammar) : grammar(theGrammar), sources(grammar.nodes.size()) {
    for (uint32_t i = 0; i < grammar.nodes.size(); ++i) {
      for (const Edge &edge : grammar.nodes[i].edges) {
        sources[edge.target].push_back(i);
        if (edge.kind == Edge::Kind::Call) {
          sources[edge.rule].push_back(i);
        }
      }
    }
  }

  void find() {
    std::vector<uint32_t> all;
    for (uint32_t i = 0; i < grammar.nodes.size(); ++i) {
      grammar.nodes[i].height = kUnbounded;
      all.push_back(i);
    }
    settle(all, false);
    settle(std::move(all), true);
  }

  uint32_t through(const Edge &edge) const {
    uint32_t height = grammar.nodes[edge.target].height;
    if (edge.kind == Edge::Kind::Call) {
      uint32_t inside = grammar.nodes[edge.rule].height;
      inside += inside == kUnbounded || edge.isLeaf ? 0 : 1;
      height = std::max(height, inside);
    }
    return height > kMaxHeight ? kUnbounded : height;
  }

private:
  /// No answer has so many calls in each other.
  static constexpr uint32_t kMaxHeight = 1000;

  uint32_t heightOf(const Node &node, bool countsRounds) const {
    uint32_t best = node.accepts ? 0 : kUnbounded, around = kUnbounded, exit = kUnbounded;
    for (const Edge &edge : node.edges) {
      uint32_t height = through(edge);
      if (edge.guard == Guard::FromLeast) {
        exit = std::min(exit, height);
      } else {
        around = std::min(around, height);
      }
    }
    bool needsRound = countsRounds && node.least > 0;
    return std::min({best, around, needsRound ? kUnbounded : exit,
                     needsRound ? std::max(around, exit) : kUnbounded});
  }

  void settle(std::vector<uint32_t> open, bool countsRounds) {
    while (!open.empty()) {
      uint32_t node = open.back();
      open.pop_back();
      uint32_t height = heightOf(grammar.nodes[node], countsRounds);
      uint32_t &known = grammar.nodes[node].height;
      bool isBetter = countsRounds ? height > known : height < known;
      if (isBetter) {
        known = height;
        open.insert(open.end(), sources[node].begin(), sources[node].end());
      }
    }
  }

  Grammar &grammar;
  std::vector<std::vector<uint32_t>> sources; ///< of each node, what depends on it
};

} // namespace

void Grammar::measure() {
  Heights heights(*this);
  heights.find();
  for (Node &node : nodes) {
    std::erase_if(node.edges,
                  [&](const Edge &edge) { return heights.through(edge) == kUnbounded; });
  }
}

} // namespace tenon::generate::grammar
