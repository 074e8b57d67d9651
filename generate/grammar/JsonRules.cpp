// Implements the rules of RFC 8259, and sets of code points as what JSON strings write.
#include "generate/grammar/Grammar.h"
#include "generate/text/Utf8.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tenon::generate::grammar {

JsonRules::JsonRules(Grammar &grammar) {
  addSpace(grammar);
  addMultibyte(grammar);
  addEscapes(grammar);
  uint32_t end = grammar.addEnd();
  string = grammar.add();
  uint32_t inside = grammar.add();
  grammar.bytes(string, '"', '"', inside);
  addCharacters(grammar, *this, inside, 0, kUnbounded, end);
  addNumbers(grammar);
  boolean = grammar.add();
  grammar.text(boolean, "true", end);
  grammar.text(boolean, "false", end);
  null = grammar.add();
  grammar.text(null, "null", end);
  addContainers(grammar);
}

/// Nothing, a space, or a line end and an indentation: bounded, so that no answer is lost in white
/// space.
void JsonRules::addSpace(Grammar &grammar) {
  constexpr uint32_t kMaxIndent = 32, kMaxTabs = 8;
  space = grammar.add();
  uint32_t end = grammar.addEnd(), spaces = grammar.addCounted(0, kMaxIndent),
           tabs = grammar.addCounted(0, kMaxTabs);
  grammar.empty(space, end);
  grammar.bytes(space, ' ', ' ', end);
  grammar.bytes(space, '\n', '\n', spaces);
  grammar.bytes(space, '\n', '\n', tabs);
  for (auto [node, sign] : {std::pair(spaces, ' '), std::pair(tabs, '\t')}) {
    Edge &again = grammar.bytes(node, sign, sign, node);
    again.count = Count::Add;
    again.guard = Guard::BelowMost;
    grammar.nodes[node].accepts = true;
  }
}

void JsonRules::addMultibyte(Grammar &grammar) {
  multibyte = grammar.add();
  uint32_t end = grammar.addEnd(), one = grammar.add(), two = grammar.add(), three = grammar.add();
  grammar.bytes(one, 0x80, 0xBF, end);
  grammar.bytes(two, 0x80, 0xBF, one);
  grammar.bytes(three, 0x80, 0xBF, two);
  grammar.bytes(multibyte, 0xC2, 0xDF, one);
  grammar.bytes(multibyte, 0xE1, 0xEC, two);
  grammar.bytes(multibyte, 0xEE, 0xEF, two);
  grammar.bytes(multibyte, 0xF1, 0xF3, three);
  constexpr std::array<std::array<unsigned, 3>, 4> kNarrow = {
      {{0xE0, 0xA0, 0xBF}, {0xED, 0x80, 0x9F}, {0xF0, 0x90, 0xBF}, {0xF4, 0x80, 0x8F}}};
  for (auto [lead, first, last] : kNarrow) {
    uint32_t second = grammar.add();
    grammar.bytes(multibyte, lead, lead, second);
    grammar.bytes(second, first, last, lead >= 0xF0 ? two : one);
  }
}

namespace {

void hexDigits(Grammar &grammar, uint32_t from, unsigned first, unsigned last, uint32_t to) {
  for (unsigned digit = first; digit <= last; ++digit) {
    constexpr std::string_view kLower = "0123456789abcdef", kUpper = "0123456789ABCDEF";
    grammar.bytes(from, kLower[digit], kLower[digit], to);
    if (digit >= 10) {
      grammar.bytes(from, kUpper[digit], kUpper[digit], to);
    }
  }
}

/// How JSON writes what it escapes, behind the backslash.
std::string escapeOf(char32_t point) {
  constexpr std::pair<char32_t, char> kShort[] = {{'"', '"'}, {'\\', '\\'}, {8, 'b'}, {9, 't'},
                                                  {10, 'n'},  {12, 'f'},    {13, 'r'}};
  for (auto [from, to] : kShort) {
    if (point == from) {
      return {to};
    }
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string("u00") + kDigits[point >> 4] + kDigits[point & 15];
}

bool needsEscape(char32_t point) { return point < 0x20 || point == '"' || point == '\\'; }

struct ByteRanges {
  std::vector<std::pair<unsigned char, unsigned char>> bytes;
};

/// The code points of one length in UTF-8, as sequences of ranges of bytes.
void splitUtf8(char32_t first, char32_t last, std::vector<ByteRanges> &out) {
  std::string low = encodeUtf8(std::u32string(1, first)),
              high = encodeUtf8(std::u32string(1, last));
  for (size_t i = 1; i < low.size(); ++i) {
    char32_t below = (char32_t(1) << (6 * i)) - 1; // what the last i bytes count
    if ((first & ~below) != (last & ~below)) {
      if ((first & below) != 0) {
        splitUtf8(first, first | below, out);
        splitUtf8((first | below) + 1, last, out);
        return;
      }
      if ((last & below) != below) {
        splitUtf8(first, (last & ~below) - 1, out);
        splitUtf8(last & ~below, last, out);
        return;
      }
    }
  }
  ByteRanges ranges;
  for (size_t i = 0; i < low.size(); ++i) {
    ranges.bytes.emplace_back(low[i], high[i]);
  }
  out.push_back(std::move(ranges));
}

void addPoints(Grammar &grammar, uint32_t from, char32_t first, char32_t last, uint32_t to) {
  constexpr char32_t kLengths[] = {0x7F, 0x7FF, 0xFFFF, kMaxPoint};
  std::vector<ByteRanges> sequences;
  for (char32_t end : kLengths) {
    if (first <= end && first <= last) {
      splitUtf8(first, std::min(last, end), sequences);
      first = end + 1;
    }
  }
  for (const ByteRanges &sequence : sequences) {
    uint32_t at = from;
    for (size_t i = 0; i < sequence.bytes.size(); ++i) {
      uint32_t next = i + 1 < sequence.bytes.size() ? grammar.add() : to;
      grammar.bytes(at, sequence.bytes[i].first, sequence.bytes[i].second, next);
      at = next;
    }
  }
}

/// The characters of a JSON string that lead from one state to one other.
void addSet(Grammar &grammar, const JsonRules &rules, uint32_t from, const CodeSet &set,
            uint32_t to) {
  constexpr char32_t kFirstLong = 0x80, kLastBefore = 0xD7FF;
  constexpr CodeRange kBehind = {0xE000, kMaxPoint}; // surrogates
  // All characters of more than one byte, which are two ranges, are one rule.
  bool hasBehind = std::ranges::find(set, kBehind) != set.end();
  bool isWhole = hasBehind && std::ranges::any_of(set, [](CodeRange range) {
                   return range.first <= kFirstLong && range.last == kLastBefore;
                 });
  if (isWhole) {
    grammar.call(from, rules.multibyte, to).isLeaf = true;
  }
  std::vector<char32_t> escaped;
  for (CodeRange range : set) {
    char32_t end = isWhole ? std::min<char32_t>(range.last, kFirstLong - 1) : range.last;
    for (char32_t first = range.first; first <= end;) {
      if (needsEscape(first)) {
        escaped.push_back(first++);
        continue;
      }
      char32_t last = end;
      for (char32_t limit : {char32_t('"'), char32_t('\\')}) {
        last = limit > first && limit <= last ? limit - 1 : last;
      }
      addPoints(grammar, from, first, last, to);
      first = last + 1;
    }
  }
  constexpr size_t kAllEscaped = 34;
  if (escaped.size() == kAllEscaped) {
    grammar.call(from, rules.escaped, to).isLeaf = true;
  } else if (!escaped.empty()) {
    uint32_t behind = grammar.add();
    grammar.bytes(from, '\\', '\\', behind);
    for (char32_t point : escaped) {
      grammar.text(behind, escapeOf(point), to);
    }
  }
}

} // namespace

void JsonRules::addEscapes(Grammar &grammar) {
  uint32_t end = grammar.addEnd();
  escape = grammar.add();
  for (char sign : std::string_view("\"\\/bfnrt")) {
    grammar.bytes(escape, sign, sign, end);
  }
  // \uXXXX: no half of a surrogate pair stands alone.
  uint32_t digits = grammar.add(), one = grammar.add(), two = grammar.add(), three = grammar.add(),
           ofD = grammar.add();
  grammar.bytes(escape, 'u', 'u', digits);
  hexDigits(grammar, digits, 0, 12, three);
  hexDigits(grammar, digits, 14, 15, three);
  hexDigits(grammar, digits, 13, 13, ofD);
  hexDigits(grammar, three, 0, 15, two);
  hexDigits(grammar, two, 0, 15, one);
  hexDigits(grammar, one, 0, 15, end);
  hexDigits(grammar, ofD, 0, 7, two);
  uint32_t high = grammar.add(), last = grammar.add(), slash = grammar.add(), u = grammar.add(),
           lowD = grammar.add(), low = grammar.add();
  hexDigits(grammar, ofD, 8, 11, high);
  hexDigits(grammar, high, 0, 15, last);
  hexDigits(grammar, last, 0, 15, slash);
  grammar.text(slash, "\\u", u);
  hexDigits(grammar, u, 13, 13, lowD);
  hexDigits(grammar, lowD, 12, 15, low);
  hexDigits(grammar, low, 0, 15, one);

  escaped = grammar.add();
  uint32_t behind = grammar.add();
  grammar.bytes(escaped, '\\', '\\', behind);
  for (char32_t point = 0; point < 0x80; ++point) {
    if (needsEscape(point)) {
      grammar.text(behind, escapeOf(point), end);
    }
  }
}

/// With as many digits as programs read exactly: no answer is lost in digits.
void JsonRules::addNumbers(Grammar &grammar) {
  constexpr uint32_t kMaxDigits = 15, kMaxExponent = 2;
  uint32_t end = grammar.addEnd();
  auto wholePart = [&](uint32_t first, uint32_t behind) {
    uint32_t sign = grammar.add(), digits = grammar.addCounted(0, kMaxDigits - 1);
    grammar.empty(first, sign);
    grammar.bytes(first, '-', '-', sign);
    grammar.bytes(sign, '0', '0', behind);
    grammar.bytes(sign, '1', '9', digits);
    Edge &more = grammar.bytes(digits, '0', '9', digits);
    more.count = Count::Add;
    more.guard = Guard::BelowMost;
    grammar.empty(digits, behind);
  };
  auto digitsUpTo = [&](uint32_t from, uint32_t most, uint32_t behind) {
    uint32_t digits = grammar.addCounted(0, most - 1);
    grammar.bytes(from, '0', '9', digits);
    Edge &more = grammar.bytes(digits, '0', '9', digits);
    more.count = Count::Add;
    more.guard = Guard::BelowMost;
    grammar.empty(digits, behind);
  };
  integer = grammar.add();
  wholePart(integer, end);
  number = grammar.add();
  uint32_t whole = grammar.add(), point = grammar.add(), scaled = grammar.add(),
           sign = grammar.add(), exponent = grammar.add();
  wholePart(number, whole);
  grammar.empty(whole, scaled);
  grammar.bytes(whole, '.', '.', point);
  digitsUpTo(point, kMaxDigits, scaled);
  grammar.empty(scaled, end);
  for (char e : {'e', 'E'}) {
    grammar.bytes(scaled, e, e, sign);
  }
  grammar.empty(sign, exponent);
  grammar.bytes(sign, '+', '+', exponent);
  grammar.bytes(sign, '-', '-', exponent);
  digitsUpTo(exponent, kMaxExponent, end);
}

void JsonRules::addContainers(Grammar &grammar) {
  uint32_t end = grammar.addEnd();
  any = grammar.add();
  object = grammar.add();
  array = grammar.add();
  for (uint32_t rule : {string, number, boolean, null, object, array}) {
    grammar.call(any, rule, end);
  }
  auto list = [&](uint32_t first, char open, char close, auto &&addItem) {
    uint32_t begin = grammar.add(), empty = grammar.add(), item = grammar.add(),
             behind = grammar.add(), next = grammar.add(), comma = grammar.add();
    grammar.bytes(first, open, open, begin);
    grammar.call(begin, space, empty).isLeaf = true;
    grammar.bytes(empty, close, close, end);
    grammar.empty(empty, item);
    addItem(item, behind);
    grammar.call(behind, space, next).isLeaf = true;
    grammar.bytes(next, close, close, end);
    grammar.bytes(next, ',', ',', comma);
    grammar.call(comma, space, item).isLeaf = true;
  };
  list(array, '[', ']', [&](uint32_t from, uint32_t to) { grammar.call(from, any, to); });
  list(object, '{', '}', [&](uint32_t from, uint32_t to) {
    uint32_t name = grammar.add(), colon = grammar.add(), behind = grammar.add();
    grammar.call(from, string, name);
    uint32_t value = grammar.add();
    grammar.call(name, space, colon).isLeaf = true;
    grammar.bytes(colon, ':', ':', behind);
    grammar.call(behind, space, value).isLeaf = true;
    grammar.call(value, any, to);
  });
}

void addCharacters(Grammar &grammar, const JsonRules &rules, uint32_t from, uint32_t least,
                   uint32_t most, uint32_t to) {
  uint32_t body = grammar.addCounted(least, most);
  grammar.nodes[body].isPlain = true;
  grammar.empty(from, body);
  auto counts = [](Edge &edge) {
    edge.count = Count::Add;
    edge.guard = Guard::BelowMost;
  };
  counts(grammar.bytes(body, 0x20, 0x21, body));
  counts(grammar.bytes(body, 0x23, 0x5B, body));
  counts(grammar.bytes(body, 0x5D, 0x7F, body));
  uint32_t escape = grammar.addCounted(least, most);
  Edge &slash = grammar.bytes(body, '\\', '\\', escape);
  slash.count = Count::Keep;
  slash.guard = Guard::BelowMost;
  for (auto [at, rule] : {std::pair(body, rules.multibyte), std::pair(escape, rules.escape)}) {
    Edge &edge = grammar.call(at, rule, body);
    counts(edge);
    edge.isLeaf = true;
  }
  grammar.bytes(body, '"', '"', to).guard = Guard::FromLeast;
}

void addCharacters(Grammar &grammar, const JsonRules &rules, uint32_t from, const Dfa &dfa,
                   uint32_t to) {
  std::vector<uint32_t> numbers;
  for (size_t i = 0; i < dfa.states.size() && !grammar.isFull(); ++i) {
    numbers.push_back(grammar.add());
  }
  for (size_t i = 0; i < dfa.states.size() && !grammar.isFull(); ++i) {
    const Dfa::State &state = dfa.states[i];
    std::vector<std::pair<uint32_t, CodeSet>> sets;
    for (const Dfa::Edge &edge : state.edges) {
      auto found = std::ranges::find(sets, edge.target, &std::pair<uint32_t, CodeSet>::first);
      if (found == sets.end()) {
        sets.push_back({edge.target, {}});
        found = std::prev(sets.end());
      }
      found->second.push_back({edge.first, edge.last});
    }
    for (auto &[target, set] : sets) {
      addSet(grammar, rules, numbers[i], normalized(std::move(set)), numbers[target]);
    }
    if (state.accepts) {
      grammar.bytes(numbers[i], '"', '"', to);
    }
  }
  if (!numbers.empty()) {
    grammar.empty(from, numbers[0]);
  }
}

void addTexts(Grammar &grammar, uint32_t from, const Dfa &dfa, uint32_t to) {
  std::vector<uint32_t> numbers;
  for (size_t i = 0; i < dfa.states.size() && !grammar.isFull(); ++i) {
    numbers.push_back(grammar.add());
  }
  for (size_t i = 0; i < dfa.states.size() && !grammar.isFull(); ++i) {
    for (const Dfa::Edge &edge : dfa.states[i].edges) {
      addPoints(grammar, numbers[i], edge.first, edge.last, numbers[edge.target]);
    }
    if (dfa.states[i].accepts) {
      grammar.empty(numbers[i], to);
    }
  }
  if (!numbers.empty()) {
    grammar.empty(from, numbers[0]);
  }
}

} // namespace tenon::generate::grammar
