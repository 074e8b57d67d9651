// Implements containers as nodes behind each other; a count tells how many items or properties
// came.
#include "generate/grammar/ContainerWriter.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace tenon::generate::grammar {
namespace {

Edge &keep(Edge &edge) {
  edge.count = Count::Keep;
  return edge;
}

} // namespace

uint32_t ContainerWriter::spaceBehind(uint32_t from) {
  uint32_t next = grammar.add();
  grammar.call(from, rules.space, next).isLeaf = true;
  return next;
}

void ContainerWriter::addLiteral(const Json &value, uint32_t from, uint32_t to) {
  if (!value.is_structured() || value.empty()) {
    grammar.text(from, dumpJson(value), to);
    return;
  }
  auto sign = [&](char c) {
    uint32_t next = grammar.add();
    grammar.bytes(from, static_cast<unsigned char>(c), static_cast<unsigned char>(c), next);
    from = spaceBehind(next);
  };
  bool isFirst = true;
  for (const auto &[name, part] : value.items()) {
    sign(!std::exchange(isFirst, false) ? ',' : value.is_array() ? '[' : '{');
    uint32_t next = grammar.add();
    if (value.is_object()) {
      grammar.text(from, dumpJson(Json(name)), next);
      from = spaceBehind(next);
      sign(':');
      next = grammar.add();
    }
    addLiteral(part, from, next);
    from = spaceBehind(next);
  }
  char close = value.is_array() ? ']' : '}';
  grammar.bytes(from, static_cast<unsigned char>(close), static_cast<unsigned char>(close), to);
}

void ContainerWriter::closeAt(uint32_t at, bool may, char sign) {
  if (may) {
    grammar.bytes(at, static_cast<unsigned char>(sign), static_cast<unsigned char>(sign), end);
  }
}

uint32_t ContainerWriter::afterComma(uint32_t at, bool isFirst) {
  if (isFirst) {
    return at;
  }
  uint32_t comma = grammar.add();
  grammar.bytes(at, ',', ',', comma);
  return spaceBehind(comma);
}

void ContainerWriter::addItems(uint32_t from, const Items &items) {
  uint32_t last = items.mostOf.value_or(items.leastOf);
  auto neededIn = [&](uint32_t round) { return items.leastOf - std::min(items.leastOf, round); };
  if (items.most < items.leastOf) {
    return;
  }
  auto node = [&](uint32_t round) {
    uint32_t most = items.most == kUnbounded ? kUnbounded : items.most - neededIn(round);
    return grammar.addCounted(items.least, most);
  };
  uint32_t behind = node(0);
  for (uint32_t round = 0; round <= last && !grammar.isFull(); ++round) {
    bool isNeeded = neededIn(round) > 0;
    uint32_t item = node(round), next = node(round), comma = node(round);
    if (round == 0) {
      grammar.empty(from, item);
    }
    Edge &one = grammar.call(item, items.rule, behind);
    one.count = Count::Add;
    one.guard = Guard::BelowMost;
    keep(grammar.call(behind, rules.space, next)).isLeaf = true;
    if (!isNeeded) {
      grammar.bytes(next, ']', ']', end).guard = Guard::FromLeast;
    }
    Guard below = isNeeded ? Guard::None : Guard::BelowMost;
    keep(grammar.bytes(next, ',', ',', comma)).guard = below;
    keep(grammar.call(comma, rules.space, item)).isLeaf = true;
    if (round < last) {
      behind = node(round + 1);
      Edge &counted = grammar.call(item, items.both, behind);
      counted.count = Count::Add;
      counted.guard = below;
    }
  }
}

void ContainerWriter::writeUnique(uint32_t at, const std::vector<Json> &values, uint64_t least,
                                  uint64_t most) {
  constexpr size_t kMaxInAnyOrder = 6;
  std::vector<uint32_t> literals;
  for (const Json &value : values) {
    literals.push_back(grammar.add());
    grammar.text(literals.back(), dumpJson(value), end);
  }
  uint64_t all = values.size() == 64 ? ~uint64_t(0) : (uint64_t(1) << values.size()) - 1;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> states;
  std::vector<std::pair<uint64_t, uint64_t>> open;
  auto stateOf = [&](uint64_t left, uint64_t count) {
    auto [found, isNew] = states.try_emplace({left, count}, 0);
    if (isNew) {
      found->second = grammar.add();
      open.emplace_back(left, count);
    }
    return found->second;
  };
  grammar.empty(at, stateOf(all, 0));
  while (!open.empty() && !grammar.isFull()) {
    auto [left, count] = open.back();
    open.pop_back();
    uint32_t state = states[{left, count}];
    closeAt(state, count >= least, ']');
    uint32_t next = count < most && left != 0 ? afterComma(state, count == 0) : state;
    for (size_t i = 0; count < most && i < values.size(); ++i) {
      if ((left >> i & 1) == 0) {
        continue;
      }
      uint64_t taken = uint64_t(1) << i;
      uint64_t rest =
          values.size() <= kMaxInAnyOrder ? left & ~taken : left & ~(taken | (taken - 1));
      uint32_t behind = grammar.add();
      grammar.call(next, literals[i], behind);
      grammar.call(behind, rules.space, stateOf(rest, count + 1)).isLeaf = true;
    }
  }
}

uint32_t ContainerWriter::addValue(uint32_t at, uint32_t rule) {
  uint32_t colon = spaceBehind(at), behind = grammar.add(), value = grammar.add();
  grammar.bytes(colon, ':', ':', behind);
  grammar.call(spaceBehind(behind), rule, value);
  return spaceBehind(value);
}

void ContainerWriter::addNamed(const std::vector<NameGroup> &groups,
                               const std::vector<uint32_t> &first, uint32_t most) {
  if (groups.empty() || first.empty() || most == 0) {
    return;
  }
  auto node = [&] { return grammar.addCounted(0, most); };
  auto space = [&](uint32_t from, uint32_t to) {
    keep(grammar.call(from, rules.space, to)).isLeaf = true;
  };
  uint32_t name = node(), next = node(), comma = node();
  for (uint32_t each : first) {
    grammar.empty(each, name);
  }
  for (NameGroup group : groups) {
    uint32_t behind = node(), colon = node(), value = node(), item = node(), ended = node();
    keep(grammar.call(name, group.names, behind));
    space(behind, colon);
    keep(grammar.bytes(colon, ':', ':', value));
    space(value, item);
    grammar.call(item, group.values, ended).count = Count::Add;
    space(ended, next);
  }
  grammar.bytes(next, '}', '}', end);
  keep(grammar.bytes(next, ',', ',', comma)).guard = Guard::BelowMost;
  space(comma, name);
}

} // namespace tenon::generate::grammar
