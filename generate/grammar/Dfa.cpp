// Implements the usual constructions over ranges of code points.
#include "generate/grammar/Dfa.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tenon::generate::grammar {
namespace {

constexpr CodeRange kSurrogates = {0xD800, 0xDFFF};

} // namespace

CodeSet normalized(CodeSet set) {
  CodeSet whole;
  for (CodeRange range : set) {
    if (range.first < kSurrogates.first) {
      whole.push_back({range.first, std::min<char32_t>(range.last, kSurrogates.first - 1)});
    }
    if (range.last > kSurrogates.last) {
      whole.push_back({std::max<char32_t>(range.first, kSurrogates.last + 1), range.last});
    }
  }
  std::ranges::sort(whole, {}, &CodeRange::first);
  CodeSet result;
  for (CodeRange range : whole) {
    if (range.first > range.last) {
      continue;
    }
    if (!result.empty() && range.first <= result.back().last + 1) {
      result.back().last = std::max(result.back().last, range.last);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

CodeSet complementOf(const CodeSet &set) {
  CodeSet result;
  char32_t next = 0;
  for (CodeRange range : normalized(set)) {
    if (range.first > next) {
      result.push_back({next, range.first - 1});
    }
    next = range.last + 1;
  }
  if (next <= kMaxPoint) {
    result.push_back({next, kMaxPoint});
  }
  return normalized(std::move(result));
}

void Dfa::trim() {
  std::vector<std::vector<uint32_t>> sources(states.size());
  std::vector<uint32_t> open;
  std::vector<bool> isAlive(states.size()), isReached(states.size());
  for (uint32_t i = 0; i < states.size(); ++i) {
    for (const Edge &edge : states[i].edges) {
      sources[edge.target].push_back(i);
    }
    if (states[i].accepts) {
      isAlive[i] = true;
      open.push_back(i);
    }
  }
  while (!open.empty()) {
    uint32_t state = open.back();
    open.pop_back();
    for (uint32_t source : sources[state]) {
      if (!isAlive[source]) {
        isAlive[source] = true;
        open.push_back(source);
      }
    }
  }
  if (states.empty() || !isAlive[0]) {
    states.clear();
    return;
  }
  isReached[0] = true;
  open.push_back(0);
  while (!open.empty()) {
    uint32_t state = open.back();
    open.pop_back();
    for (const Edge &edge : states[state].edges) {
      if (isAlive[edge.target] && !isReached[edge.target]) {
        isReached[edge.target] = true;
        open.push_back(edge.target);
      }
    }
  }
  std::vector<uint32_t> number(states.size());
  std::vector<State> kept;
  for (uint32_t i = 0; i < states.size(); ++i) {
    number[i] = static_cast<uint32_t>(kept.size());
    if (isAlive[i] && isReached[i]) {
      kept.push_back(std::move(states[i]));
    }
  }
  for (State &state : kept) {
    std::erase_if(state.edges, [&](const Edge &edge) { return !isAlive[edge.target]; });
    for (Edge &edge : state.edges) {
      edge.target = number[edge.target];
    }
  }
  states = std::move(kept);
}

bool Dfa::accepts(std::u32string_view text) const {
  uint32_t state = 0;
  for (char32_t point : text) {
    const Edge *taken = nullptr;
    for (const Edge &edge : isEmpty() ? std::vector<Edge>() : states[state].edges) {
      if (point >= edge.first && point <= edge.last) {
        state = edge.target;
        taken = &edge;
        break;
      }
    }
    if (!taken) {
      return false;
    }
  }
  return !isEmpty() && states[state].accepts;
}

Dfa textsOfLength(uint64_t least, std::optional<uint64_t> most) {
  Dfa dfa;
  uint64_t last = most.value_or(least);
  for (uint64_t i = 0; i <= last; ++i) {
    Dfa::State &state = dfa.states.emplace_back();
    state.accepts = i >= least;
    uint32_t target = static_cast<uint32_t>(i < last ? i + 1 : i);
    if (i < last || !most) {
      state.edges = {{0, 0xD7FF, target}, {0xE000, kMaxPoint, target}};
    }
  }
  dfa.trim();
  return dfa;
}

Dfa textsOf(const std::vector<std::u32string> &texts) {
  Dfa dfa;
  std::vector<std::map<char32_t, uint32_t>> children(1);
  dfa.states.emplace_back();
  for (const std::u32string &text : texts) {
    uint32_t state = 0;
    for (char32_t point : text) {
      auto [found, isNew] =
          children[state].try_emplace(point, static_cast<uint32_t>(dfa.states.size()));
      state = found->second;
      if (isNew) {
        dfa.states.emplace_back();
        children.emplace_back();
      }
    }
    dfa.states[state].accepts = true;
  }
  for (size_t i = 0; i < children.size(); ++i) {
    for (auto [point, target] : children[i]) {
      dfa.states[i].edges.push_back({point, point, target});
    }
  }
  dfa.trim();
  return dfa;
}

std::optional<Dfa> intersection(const Dfa &left, const Dfa &right, Budget &budget) {
  Dfa result;
  if (left.isEmpty() || right.isEmpty()) {
    return result;
  }
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers = {{{0, 0}, 0}};
  std::vector<std::pair<uint32_t, uint32_t>> pairs = {{0, 0}};
  for (size_t at = 0; at < pairs.size(); ++at) {
    auto [l, r] = pairs[at];
    Dfa::State state{{}, left.states[l].accepts && right.states[r].accepts};
    const std::vector<Dfa::Edge> &a = left.states[l].edges, &b = right.states[r].edges;
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
      char32_t first = std::max(a[i].first, b[j].first), last = std::min(a[i].last, b[j].last);
      if (first <= last) {
        std::pair<uint32_t, uint32_t> key(a[i].target, b[j].target);
        auto [found, isNew] = numbers.try_emplace(key, static_cast<uint32_t>(pairs.size()));
        if (isNew) {
          pairs.push_back(key);
        }
        state.edges.push_back({first, last, found->second});
      }
      (a[i].last < b[j].last ? i : j) += 1;
    }
    if (!budget.spend(1 + state.edges.size())) {
      return std::nullopt;
    }
    result.states.push_back(std::move(state));
  }
  result.trim();
  return result;
}

Dfa complementOf(const Dfa &dfa) {
  Dfa result = dfa;
  if (result.isEmpty()) {
    result.states.emplace_back();
  }
  uint32_t sink = static_cast<uint32_t>(result.states.size());
  result.states.emplace_back();
  for (Dfa::State &state : result.states) {
    CodeSet taken;
    for (const Dfa::Edge &edge : state.edges) {
      taken.push_back({edge.first, edge.last});
    }
    for (CodeRange range : complementOf(taken)) {
      state.edges.push_back({range.first, range.last, sink});
    }
    std::ranges::sort(state.edges, {}, &Dfa::Edge::first);
    state.accepts = !state.accepts;
  }
  result.trim();
  return result;
}

} // namespace tenon::generate::grammar
