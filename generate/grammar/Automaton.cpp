// Implements places as sets of stacks, closed over what takes no symbol. A place's steps and mask
// are found when they are asked for.
#include "generate/grammar/Automaton.h"

#include "support/text/Text.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

namespace tenon::generate::grammar {
namespace {

Status stuck(std::string_view what) {
  return Status::error(ErrorId::AnswerStuck, what, "use a schema with fewer alternatives");
}

uint64_t hashOf(const Stack &stack) {
  uint64_t hash = stack.size();
  for (Frame frame : stack) {
    hash = (hash ^ frame.node) * 0x9E3779B97F4A7C15;
    hash = (hash ^ (hash >> 29) ^ frame.count) * 0xBF58476D1CE4E5B9;
  }
  return hash ^ (hash >> 32);
}

uint64_t hashOf(const Place &place) {
  uint64_t hash = place.isWhole ? 1 : 0;
  for (const Stack &stack : place.stacks) {
    hash = hash * 31 + hashOf(stack);
  }
  return hash;
}

bool mayTake(const Edge &edge, const Node &node, uint32_t count) {
  return edge.guard == Guard::None ||
         (edge.guard == Guard::BelowMost ? count < node.most : count >= node.least);
}

uint32_t countBehind(const Edge &edge, const Node &node, uint32_t count) {
  if (edge.count == Count::Reset) {
    return 0;
  }
  uint32_t next = count + (edge.count == Count::Add ? 1 : 0);
  return node.most == kUnbounded ? std::min(next, node.least) : next;
}

bool takesSymbols(const Node &node) {
  return std::ranges::any_of(node.edges,
                             [](const Edge &edge) { return edge.kind == Edge::Kind::Bytes; });
}

} // namespace

bool Mask::has(int32_t token) const {
  return bits.empty() ? std::ranges::binary_search(tokens, token)
                      : ((bits[static_cast<size_t>(token) / 64] >> (token % 64)) & 1) != 0;
}

void Mask::keep(std::span<float> logits, float never) const {
  if (bits.empty()) {
    std::vector<float> kept(tokens.size());
    std::ranges::transform(tokens, kept.begin(), [&](int32_t token) { return logits[token]; });
    std::ranges::fill(logits, never);
    for (size_t i = 0; i < tokens.size(); ++i) {
      logits[tokens[i]] = kept[i];
    }
    return;
  }
  for (size_t word = 0; word < bits.size(); ++word) {
    std::span<float> part =
        logits.subspan(word * 64, std::min<size_t>(64, logits.size() - word * 64));
    if (bits[word] == 0) {
      std::ranges::fill(part, never);
      continue;
    }
    for (size_t i = 0; ~bits[word] != 0 && i < part.size(); ++i) {
      part[i] = ((bits[word] >> i) & 1) != 0 ? part[i] : never;
    }
  }
}

/// Adds stacks to a place with all that they lead to without a symbol.
class Automaton::Closing {
public:
  Closing(const Grammar &theGrammar, Place &thePlace, Effort &theEffort)
      : grammar(theGrammar), place(thePlace), effort(theEffort) {}

  /// False where there are too many.
  bool add(Stack first) {
    std::vector<Stack> open;
    open.push_back(std::move(first));
    while (!open.empty()) {
      Stack stack = std::move(open.back());
      open.pop_back();
      if (stack.empty()) {
        place.isWhole = true;
        continue;
      }
      uint64_t hash = hashOf(stack);
      effort += kStack + stack.size() * kFrame + seen.size() / 4;
      if (std::ranges::find(seen, hash) != seen.end()) {
        continue;
      }
      seen.push_back(hash);
      if (seen.size() > kMaxStacks) {
        return false;
      }
      expand(stack, open);
      if (takesSymbols(grammar.nodes[stack.back().node])) {
        place.stacks.push_back(std::move(stack));
      }
    }
    return true;
  }

private:
  static constexpr Effort kStack = 50, kFrame = 4;

  void expand(const Stack &stack, std::vector<Stack> &open) {
    Frame top = stack.back();
    const Node &node = grammar.nodes[top.node];
    effort += node.edges.size() * 2;
    if (node.accepts) {
      open.emplace_back(stack.begin(), stack.end() - 1);
    }
    for (const Edge &edge : node.edges) {
      if (edge.kind == Edge::Kind::Bytes || !mayTake(edge, node, top.count)) {
        continue;
      }
      const Node &target = grammar.nodes[edge.target];
      Stack next = stack;
      effort += kStack + stack.size();
      next.back() = {edge.target, countBehind(edge, node, top.count)};
      if (edge.kind == Edge::Kind::Call) {
        bool isLast = target.accepts && target.edges.empty();
        if (isLast) {
          next.pop_back();
        }
        next.push_back({edge.rule, 0});
        bool fits =
            edge.isLeaf ||
            next.size() + std::max(grammar.nodes[edge.rule].height, target.height) <= kMaxDepth;
        if (!fits) {
          continue;
        }
      }
      open.push_back(std::move(next));
    }
  }

  const Grammar &grammar;
  Place &place;
  Effort &effort;
  std::vector<uint64_t> seen; ///< hashes of stacks
};

Automaton::Automaton(std::shared_ptr<const Grammar> theGrammar,
                     std::shared_ptr<const TokenTrie> theTrie)
    : grammar(std::move(theGrammar)), trie(std::move(theTrie)) {}

Place Automaton::start() const {
  Place place;
  Effort effort = 0; // once for each answer
  Closing(*grammar, place, effort).add({{grammar->root, 0}});
  return place;
}

Result<Place> Automaton::nextSymbol(const Place &place, unsigned symbol, Effort &effort) const {
  Place next;
  Closing closing(*grammar, next, effort);
  for (const Stack &stack : place.stacks) {
    Frame top = stack.back();
    const Node &node = grammar->nodes[top.node];
    effort += node.edges.size() * 2;
    for (const Edge &edge : node.edges) {
      if (edge.kind != Edge::Kind::Bytes || symbol < edge.first || symbol > edge.last ||
          !mayTake(edge, node, top.count)) {
        continue;
      }
      Stack taken = stack;
      taken.back() = {edge.target, countBehind(edge, node, top.count)};
      if (!closing.add(std::move(taken))) {
        return stuck(
            strCat("the answer may be in more than ", kMaxStacks, " places of its format"));
      }
    }
  }
  return next;
}

Result<Place> Automaton::next(const Place &place, int32_t token, Effort &effort) const {
  auto marker = std::ranges::find(grammar->markers, token);
  if (marker != grammar->markers.end()) {
    return nextSymbol(place, kMarkers + static_cast<unsigned>(marker - grammar->markers.begin()),
                      effort);
  }
  Place at = place;
  for (char byte : trie->bytesOf(token)) {
    TENON_ASSIGN(at, nextSymbol(at, static_cast<unsigned char>(byte), effort));
  }
  return at.stacks.empty() && !at.isWhole ? Result<Place>(stuck("a token is not of the format"))
                                          : Result<Place>(std::move(at));
}

/// Counts far from their bounds are alike for one token.
Place Automaton::reduced(const Place &place) const {
  Place result = place;
  uint32_t reach = trie->maxBytes() + 1;
  for (Stack &stack : result.stacks) {
    for (Frame &frame : stack) {
      const Node &node = grammar->nodes[frame.node];
      bool isFarBelow = frame.count < node.least && node.least - frame.count > reach;
      bool isFree = frame.count >= node.least && node.most - frame.count > reach;
      frame.count = isFarBelow ? 0 : isFree ? node.least : frame.count;
    }
  }
  return result;
}

uint32_t Automaton::idOf(Place place) {
  if (place.stacks.empty() && !place.isWhole) {
    return kDead;
  }
  uint64_t hash = hashOf(place);
  auto [first, last] = ids.equal_range(hash);
  for (; first != last; ++first) {
    if (known[first->second].place == place) {
      return first->second;
    }
  }
  uint32_t id = static_cast<uint32_t>(known.size());
  counted.bytes += sizeof(Known) + 64;
  for (const Stack &stack : place.stacks) {
    counted.bytes += sizeof(Stack) + stack.size() * sizeof(Frame);
  }
  known.push_back({std::move(place), nullptr, nullptr});
  ids.emplace(hash, id);
  return id;
}

uint32_t Automaton::step(uint32_t id, uint8_t byte, uint64_t &work, Effort &effort) {
  if (!known[id].next) {
    known[id].next = std::make_unique<std::array<uint32_t, 256>>();
    known[id].next->fill(kUnknown);
    counted.bytes += sizeof(*known[id].next);
  }
  uint32_t next = (*known[id].next)[byte];
  if (next != kUnknown) {
    return next;
  }
  ++counted.steps;
  work += 1 + 2 * known[id].place.stacks.size();
  Result<Place> place = nextSymbol(known[id].place, byte, effort);
  if (!place.isOk()) {
    return kFailed;
  }
  next = idOf(reduced(*place));
  (*known[id].next)[byte] = next;
  return next;
}

/// False where it takes too many steps.
bool Automaton::walk(const TokenTrie::Tree &tree, uint32_t id, TokenBits &bits, uint64_t &work,
                     Effort &effort) {
  std::array<uint32_t, 256> path;
  path[0] = id;
  const std::vector<TokenTrie::Node> &nodes = tree.nodes;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node &node = nodes[i];
    ++counted.walked;
    effort += 4;
    uint32_t from = path[node.depth];
    uint32_t next = known[from].next ? (*known[from].next)[node.byte] : kUnknown;
    next = next == kUnknown ? step(from, node.byte, work, effort) : next;
    if (next == kFailed || work > kMaxMaskSteps || counted.bytes > 2 * kMaxHeldBytes) {
      return false;
    }
    if (next == kDead) {
      i = node.end;
      continue;
    }
    for (uint32_t t = node.firstToken; t < node.tokenEnd; ++t) {
      setBit(bits, tree.tokens[t]);
    }
    path[node.depth + 1] = next;
    ++i;
  }
  return true;
}

/// Characters that all of a place's stacks take as they are, where all stand in strings.
std::optional<uint32_t> Automaton::plainRoom(const Place &place) const {
  uint32_t room = 0;
  for (const Stack &stack : place.stacks) {
    const Node &node = grammar->nodes[stack.back().node];
    if (!node.isPlain) {
      return std::nullopt;
    }
    room = std::max(room, node.most == kUnbounded ? kUnbounded : node.most - stack.back().count);
  }
  return room;
}

Result<std::shared_ptr<const Mask>> Automaton::make(uint32_t id, Effort &effort) {
  TokenBits bits((trie->vocabulary() + 63) / 64);
  uint64_t work = 0;
  std::optional<uint32_t> room = plainRoom(known[id].place);
  if (room) {
    const TokenBits &plain = trie->plainUpTo(*room);
    bits.assign(plain.begin(), plain.end());
  }
  bool isDone = (room || walk(trie->plain(), id, bits, work, effort)) &&
                walk(trie->other(), id, bits, work, effort);
  if (!isDone) {
    return stuck("the tokens that may come next take too many steps to find");
  }
  const Place &place = known[id].place;
  for (size_t marker = 0; marker < grammar->markers.size(); ++marker) {
    TENON_ASSIGN(Place next, nextSymbol(place, kMarkers + static_cast<unsigned>(marker), effort));
    if (!next.stacks.empty() || next.isWhole) {
      setBit(bits, grammar->markers[marker]);
    }
  }
  if (place.isWhole) {
    for (int32_t token : trie->ends()) {
      setBit(bits, token);
    }
  }
  constexpr size_t kFew = 512;
  std::shared_ptr<Mask> mask = std::make_shared<Mask>();
  for (size_t i = 0; i < bits.size() && mask->tokens.size() <= kFew; ++i) {
    for (uint64_t rest = bits[i]; rest != 0; rest &= rest - 1) {
      mask->tokens.push_back(static_cast<int32_t>(i * 64) + std::countr_zero(rest));
    }
  }
  if (mask->tokens.size() > kFew) {
    mask->tokens = {};
    mask->bits = std::move(bits);
  }
  if (mask->bits.empty() && mask->tokens.empty()) {
    return Status::error(ErrorId::AnswerStuck,
                         "no token of the model's vocabulary goes on in the answer's format",
                         "use a format whose characters the vocabulary has");
  }
  return std::shared_ptr<const Mask>(std::move(mask));
}

Result<std::shared_ptr<const Mask>> Automaton::mask(const Place &place, Effort &effort) {
  std::lock_guard guard(lock);
  ++counted.masks;
  if (counted.bytes > kMaxHeldBytes) {
    known.clear();
    ids.clear();
    counted.bytes = 0;
  }
  uint32_t id = idOf(reduced(place));
  if (id == kDead) {
    return stuck("the answer is not of its format");
  }
  if (!known[id].mask) {
    ++counted.made;
    TENON_ASSIGN(known[id].mask, make(id, effort));
    counted.bytes += known[id].mask->bytes();
  }
  return known[id].mask;
}

Result<std::shared_ptr<const Mask>> Matcher::mask() {
  if (effort > allowed) {
    return stuck("holding the answer to its format takes too long");
  }
  return automaton->mask(place, effort);
}

Status Matcher::take(int32_t token) {
  allowed += kEffortPerToken;
  TENON_ASSIGN(place, automaton->next(place, token, effort));
  return Status::ok();
}

AutomatonCounts Automaton::counts() const {
  std::lock_guard guard(lock);
  return counted;
}

} // namespace tenon::generate::grammar
