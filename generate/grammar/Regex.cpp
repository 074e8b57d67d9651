// A tree, Thompson's automaton, and its subsets. The ends of a text are two symbols of their own
// around it, which `^` and `$` take.
//
// One file: the tree is nobody else's, and each of its kinds is read and built once.
#include "generate/grammar/Regex.h"

#include "generate/text/Utf8.h"
#include "generate/tokenizer/CodeClass.h"
#include "support/text/Text.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <utility>

namespace tenon::generate::grammar {
namespace {

constexpr char32_t kBegin = kMaxPoint + 1, kEnd = kMaxPoint + 2;
constexpr uint32_t kMaxRepeat = 10'000;
constexpr int kMaxNesting = 100;

struct Node;
using NodePtr = std::unique_ptr<Node>;
struct Node {
  enum class Kind : uint8_t { Set, Sequence, Choice, Repeat };
  Kind kind = Kind::Sequence;
  CodeSet set = {};
  std::vector<NodePtr> parts = {};
  uint32_t least = 0;
  std::optional<uint32_t> most = {};
};

NodePtr makeNode(Node::Kind kind) {
  NodePtr node = std::make_unique<Node>();
  node->kind = kind;
  return node;
}

NodePtr setOf(CodeSet set) {
  NodePtr node = makeNode(Node::Kind::Set);
  node->set = std::move(set);
  return node;
}

Status unknownPart(std::string_view what) {
  return Status::error(ErrorId::SchemaUnsupported, strCat("the pattern has ", what));
}

const CodeSet kDigits = {{'0', '9'}};
const CodeSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CodeSet kSpaces = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                         {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                         {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CodeSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

CodeSet ofClasses(std::initializer_list<CodeClass> classes) {
  CodeSet set;
  for (char32_t point = 0; point <= kMaxPoint; ++point) {
    if (std::ranges::find(classes, classOf(point)) != classes.end()) {
      if (!set.empty() && set.back().last + 1 == point) {
        set.back().last = point;
      } else {
        set.push_back({point, point});
      }
    }
  }
  return normalized(std::move(set));
}

class RegexParser {
public:
  explicit RegexParser(std::u32string_view theText) : text(theText) {}

  Result<NodePtr> parse() {
    TENON_TRY(parseLookaheads());
    TENON_ASSIGN(NodePtr node, parseChoice());
    if (at < text.size()) {
      return unknownPart("a ')' without its '('");
    }
    if (!lookaheads.empty()) {
      if (node->parts.size() > 1) {
        return unknownPart("a lookahead before one of several alternatives");
      }
      std::vector<NodePtr> &parts = node->parts[0]->parts;
      parts.insert(parts.begin(), setOf({{kBegin, kBegin}}));
    }
    return std::move(node);
  }

  /// What the beginning of the text must match, or must not.
  struct Lookahead {
    NodePtr node;
    bool isNegated;
  };
  std::vector<Lookahead> lookaheads;

private:
  bool take(char32_t point) {
    bool is = at < text.size() && text[at] == point;
    at += is ? 1 : 0;
    return is;
  }
  bool takeAll(std::u32string_view what) {
    bool is = text.substr(at).starts_with(what);
    at += is ? what.size() : 0;
    return is;
  }

  /// Those behind the first `^`: what else an automaton takes is narrowed by them.
  Status parseLookaheads() {
    if (!text.starts_with(U"^(?=") && !text.starts_with(U"^(?!")) {
      return Status::ok();
    }
    at = 1;
    for (;;) {
      bool isNegated = takeAll(U"(?!");
      if (!isNegated && !takeAll(U"(?=")) {
        return Status::ok();
      }
      TENON_ASSIGN(NodePtr inside, parseChoice());
      if (!take(')')) {
        return unknownPart("a '(' without its ')'");
      }
      lookaheads.push_back({std::move(inside), isNegated});
    }
  }

  Result<NodePtr> parseChoice() {
    if (++nesting > kMaxNesting) {
      return unknownPart(strCat("more than ", kMaxNesting, " groups in each other"));
    }
    NodePtr choice = makeNode(Node::Kind::Choice);
    do {
      NodePtr sequence = makeNode(Node::Kind::Sequence);
      while (at < text.size() && text[at] != '|' && text[at] != ')') {
        TENON_ASSIGN(NodePtr part, parseRepeated());
        sequence->parts.push_back(std::move(part));
      }
      choice->parts.push_back(std::move(sequence));
    } while (take('|'));
    --nesting;
    return std::move(choice);
  }

  Result<NodePtr> parseRepeated() {
    TENON_ASSIGN(NodePtr part, parseOne());
    for (;;) {
      uint32_t least = 0;
      std::optional<uint32_t> most;
      if (take('*')) {
      } else if (take('+')) {
        least = 1;
      } else if (take('?')) {
        most = 1;
      } else if (at < text.size() && text[at] == '{' && isCount()) {
        TENON_TRY(parseCount(least, most));
      } else {
        return std::move(part);
      }
      take('?'); // the fewest or the most: the texts are the same
      NodePtr repeat = makeNode(Node::Kind::Repeat);
      repeat->least = least;
      repeat->most = most;
      repeat->parts.push_back(std::move(part));
      part = std::move(repeat);
    }
  }

  bool isCount() const {
    size_t i = at + 1;
    while (i < text.size() && ((text[i] >= '0' && text[i] <= '9') || text[i] == ',')) {
      ++i;
    }
    return i < text.size() && text[i] == '}' && i > at + 1 && text[at + 1] != ',';
  }

  Status parseCount(uint32_t &least, std::optional<uint32_t> &most) {
    ++at;
    least = parseNumber();
    most = least;
    if (take(',')) {
      most = text[at] == '}' ? std::nullopt : std::optional(parseNumber());
    }
    bool isWhole = take('}');
    if (!isWhole || least > kMaxRepeat || most.value_or(0) > kMaxRepeat ||
        most.value_or(least) < least) {
      return unknownPart(strCat("a repetition that is not {m,n} with numbers up to ", kMaxRepeat));
    }
    return Status::ok();
  }

  uint32_t parseNumber() {
    uint32_t number = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      number = std::min<uint32_t>(number * 10 + (text[at] - '0'), kMaxRepeat + 1);
    }
    return number;
  }

  Result<NodePtr> parseOne() {
    char32_t point = text[at++];
    switch (point) {
    case '(':
      return parseGroup();
    case '[':
      return parseClass();
    case '.':
      return setOf(complementOf(kLineEnds));
    case '^':
      return setOf({{kBegin, kBegin}});
    case '$':
      return setOf({{kEnd, kEnd}});
    case '*':
    case '+':
    case '?':
      return unknownPart("a repetition of nothing");
    case '\\': {
      TENON_ASSIGN(CodeSet set, parseEscape(false));
      return setOf(std::move(set));
    }
    default:
      return setOf({{point, point}});
    }
  }

  Result<NodePtr> parseGroup() {
    if (takeAll(U"?:")) {
    } else if (takeAll(U"?<") && at < text.size() && text[at] != '=' && text[at] != '!') {
      while (at < text.size() && text[at] != '>') {
        ++at;
      }
      take('>');
    } else if (at < text.size() && (text[at] == '?' || text[at - 1] == '<')) {
      return unknownPart("a lookahead, a lookbehind or a flag, which automata do not hold");
    }
    TENON_ASSIGN(NodePtr inside, parseChoice());
    if (!take(')')) {
      return unknownPart("a '(' without its ')'");
    }
    return std::move(inside);
  }

  Result<NodePtr> parseClass() {
    bool isNegated = take('^');
    CodeSet set;
    while (at < text.size() && text[at] != ']') {
      TENON_ASSIGN(CodeSet part, parseClassPart());
      bool isRange = at + 1 < text.size() && text[at] == '-' && text[at + 1] != ']';
      if (isRange && part.size() == 1 && part[0].first == part[0].last) {
        ++at;
        TENON_ASSIGN(CodeSet last, parseClassPart());
        if (last.size() != 1 || last[0].first != last[0].last || last[0].first < part[0].first) {
          return unknownPart("a range whose ends are out of order");
        }
        part[0].last = last[0].last;
      }
      set.insert(set.end(), part.begin(), part.end());
    }
    if (!take(']')) {
      return unknownPart("a '[' without its ']'");
    }
    return setOf(isNegated ? complementOf(set) : normalized(std::move(set)));
  }

  Result<CodeSet> parseClassPart() {
    char32_t point = text[at++];
    if (point == '\\') {
      return parseEscape(true);
    }
    return CodeSet{{point, point}};
  }

  Result<CodeSet> parseEscape(bool isInClass) {
    if (at == text.size()) {
      return unknownPart("a '\\' at its end");
    }
    char32_t point = text[at++];
    auto one = [](char32_t what) { return CodeSet{{what, what}}; };
    switch (point) {
    case 'd':
      return kDigits;
    case 'D':
      return complementOf(kDigits);
    case 'w':
      return kWord;
    case 'W':
      return complementOf(kWord);
    case 's':
      return kSpaces;
    case 'S':
      return complementOf(kSpaces);
    case 't':
      return one('\t');
    case 'n':
      return one('\n');
    case 'r':
      return one('\r');
    case 'f':
      return one('\f');
    case 'v':
      return one('\v');
    case '0':
      return one(0);
    case 'x':
      return parseHex(2);
    case 'u':
      return parseUnicode();
    case 'p':
    case 'P':
      return parseProperty(point == 'P');
    case 'c':
      if (at < text.size()) {
        return one(text[at++] % 32);
      }
      break;
    case 'b':
      if (isInClass) {
        return one('\b');
      }
      break;
    default:
      break;
    }
    bool isLetter = (point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z') ||
                    (point >= '0' && point <= '9');
    if (isLetter) {
      return unknownPart(
          strCat("'\\", encodeUtf8(std::u32string(1, point)), "', which is not held"));
    }
    return one(point);
  }

  Result<CodeSet> parseHex(size_t digits) {
    char32_t value = 0;
    for (size_t i = 0; i < digits; ++i, ++at) {
      std::u32string_view hex = U"0123456789abcdef";
      size_t digit = at < text.size() && text[at] < 128
                         ? hex.find(text[at] | (text[at] >= 'A' ? 32 : 0))
                         : hex.npos;
      if (digit == hex.npos) {
        return unknownPart("an escape without its hexadecimal digits");
      }
      value = value * 16 + static_cast<char32_t>(digit);
    }
    return CodeSet{{value, value}};
  }

  Result<CodeSet> parseUnicode() {
    if (take('{')) {
      size_t end = text.find('}', at);
      if (end == text.npos || end == at || end - at > 6) {
        return unknownPart("an escape without its hexadecimal digits");
      }
      TENON_ASSIGN(CodeSet set, parseHex(end - at));
      ++at;
      return set[0].first <= kMaxPoint ? Result<CodeSet>(std::move(set))
                                       : unknownPart("a code point above U+10FFFF");
    }
    TENON_ASSIGN(CodeSet high, parseHex(4));
    if (high[0].first < 0xD800 || high[0].first > 0xDFFF) {
      return high;
    }
    if (!takeAll(U"\\u")) {
      return unknownPart("half of a surrogate pair");
    }
    TENON_ASSIGN(CodeSet low, parseHex(4));
    char32_t point = 0x10000 + ((high[0].first & 0x3FF) << 10) + (low[0].first & 0x3FF);
    return CodeSet{{point, point}};
  }

  Result<CodeSet> parseProperty(bool isNegated) {
    size_t end = text.find('}', at);
    if (!take('{') || end == text.npos) {
      return unknownPart("a property without its name");
    }
    std::string name = encodeUtf8(text.substr(at, end - at));
    at = end + 1;
    using enum CodeClass;
    const std::pair<std::string_view, std::initializer_list<CodeClass>> known[] = {
        {"L", {Upper, Title, Lower, Modifier, Letter}},
        {"Lu", {Upper}},
        {"Ll", {Lower}},
        {"Lt", {Title}},
        {"Lm", {Modifier}},
        {"Lo", {Letter}},
        {"M", {Mark}},
        {"N", {Digit, Number}},
        {"Nd", {Digit}},
        {"P", {Punctuation}},
        {"S", {Symbol}}};
    for (const auto &[each, classes] : known) {
      if (name == each) {
        CodeSet set = ofClasses(classes);
        return isNegated ? complementOf(set) : set;
      }
    }
    return unknownPart(strCat("the property '", name.substr(0, 32), "', which is not known"));
  }

  std::u32string_view text;
  size_t at = 0;
  int nesting = 0;
};

/// Thompson's automaton: a state takes a set, or goes on to others for nothing.
class Nfa {
public:
  explicit Nfa(Budget &theBudget) : budget(theBudget) {}

  /// False where the budget is spent.
  bool add(const Node &node, uint32_t from, uint32_t to) {
    if (!budget.spend(1)) {
      return false;
    }
    switch (node.kind) {
    case Node::Kind::Set:
      states[from].takes.push_back({node.set, to});
      return true;
    case Node::Kind::Sequence:
      for (size_t i = 0; i < node.parts.size(); ++i) {
        uint32_t next = i + 1 < node.parts.size() ? make() : to;
        if (!add(*node.parts[i], from, next)) {
          return false;
        }
        from = next;
      }
      if (node.parts.empty()) {
        states[from].goesOn.push_back(to);
      }
      return true;
    case Node::Kind::Choice:
      for (const NodePtr &part : node.parts) {
        uint32_t first = make();
        states[from].goesOn.push_back(first);
        if (!add(*part, first, to)) {
          return false;
        }
      }
      return true;
    case Node::Kind::Repeat:
      return addRepeat(node, from, to);
    }
    return false;
  }

  /// `isAtBegin`: it matches at the beginning, with and without a `^`.
  std::optional<Dfa> determinize(uint32_t start, uint32_t end, bool isAtBegin) {
    uint32_t before = make();
    states[before].goesOn.push_back(start);
    states[before].takes.push_back({{{isAtBegin ? kBegin : 0, isAtBegin ? kBegin : kEnd}}, before});
    states[end].takes.push_back({{{0, kEnd}}, end});
    std::map<std::vector<uint32_t>, uint32_t> numbers;
    std::vector<std::vector<uint32_t>> subsets;
    auto numberOf = [&](std::vector<uint32_t> subset) {
      auto [found, isNew] = numbers.try_emplace(subset, static_cast<uint32_t>(subsets.size()));
      if (isNew) {
        subsets.push_back(std::move(subset));
      }
      return found->second;
    };
    numberOf(step(closed({before}), kBegin));
    Dfa dfa;
    for (size_t at = 0; at < subsets.size(); ++at) {
      std::vector<uint32_t> subset = subsets[at];
      std::vector<uint32_t> last = step(subset, kEnd);
      Dfa::State state{{}, std::ranges::find(last, end) != last.end()};
      for (CodeRange range : piecesOf(subset)) {
        std::vector<uint32_t> next = step(subset, range.first);
        if (!budget.spend(1 + next.size() + states.size() / 64)) {
          return std::nullopt;
        }
        uint32_t target = numberOf(std::move(next));
        if (!state.edges.empty() && state.edges.back().target == target &&
            state.edges.back().last + 1 == range.first) {
          state.edges.back().last = range.last;
        } else {
          state.edges.push_back({range.first, range.last, target});
        }
      }
      dfa.states.push_back(std::move(state));
    }
    dfa.trim();
    return dfa;
  }

  uint32_t make() {
    states.emplace_back();
    return static_cast<uint32_t>(states.size() - 1);
  }

private:
  struct Take {
    CodeSet set;
    uint32_t target;
  };
  struct State {
    std::vector<Take> takes;
    std::vector<uint32_t> goesOn;
  };

  bool addRepeat(const Node &node, uint32_t from, uint32_t to) {
    const Node &part = *node.parts[0];
    for (uint32_t i = 0; i < node.least; ++i) {
      uint32_t next = make();
      if (!add(part, from, next)) {
        return false;
      }
      from = next;
    }
    states[from].goesOn.push_back(to);
    if (!node.most) {
      uint32_t loop = make(), back = make();
      states[from].goesOn.push_back(loop);
      states[back].goesOn.push_back(loop);
      states[back].goesOn.push_back(to);
      return add(part, loop, back);
    }
    for (uint32_t i = node.least; i < *node.most; ++i) {
      uint32_t next = make();
      if (!add(part, from, next)) {
        return false;
      }
      states[next].goesOn.push_back(to);
      from = next;
    }
    return true;
  }

  std::vector<uint32_t> closed(std::vector<uint32_t> open) const {
    std::vector<uint32_t> all;
    std::vector<bool> isIn(states.size());
    while (!open.empty()) {
      uint32_t state = open.back();
      open.pop_back();
      if (!isIn[state]) {
        isIn[state] = true;
        all.push_back(state);
        open.insert(open.end(), states[state].goesOn.begin(), states[state].goesOn.end());
      }
    }
    std::ranges::sort(all);
    return all;
  }

  std::vector<uint32_t> step(const std::vector<uint32_t> &subset, char32_t point) const {
    std::vector<uint32_t> next;
    for (uint32_t state : subset) {
      for (const Take &take : states[state].takes) {
        bool has = std::ranges::any_of(
            take.set, [&](CodeRange range) { return point >= range.first && point <= range.last; });
        if (has) {
          next.push_back(take.target);
        }
      }
    }
    return closed(std::move(next));
  }

  /// Ranges of code points that all of a subset's sets take alike, in order.
  CodeSet piecesOf(const std::vector<uint32_t> &subset) const {
    std::vector<char32_t> cuts = {0, 0xD800, 0xE000, kMaxPoint + 1};
    for (uint32_t state : subset) {
      for (const Take &take : states[state].takes) {
        for (CodeRange range : take.set) {
          cuts.push_back(std::min<char32_t>(range.first, kMaxPoint + 1));
          cuts.push_back(std::min<char32_t>(range.last + 1, kMaxPoint + 1));
        }
      }
    }
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    CodeSet pieces;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (cuts[i] < 0xD800 || cuts[i] > 0xDFFF) {
        pieces.push_back({cuts[i], cuts[i + 1] - 1});
      }
    }
    return pieces;
  }

  Budget &budget;
  std::vector<State> states;
};

std::optional<Dfa> compileTree(const Node &tree, bool isAtBegin, Budget &budget) {
  Nfa nfa(budget);
  uint32_t start = nfa.make(), end = nfa.make();
  return nfa.add(tree, start, end) ? nfa.determinize(start, end, isAtBegin) : std::nullopt;
}

} // namespace

Result<Dfa> compileRegex(std::string_view text, Budget &budget) {
  TENON_ASSIGN(std::u32string points, decodeUtf8(text));
  RegexParser parser(points);
  TENON_ASSIGN(NodePtr tree, parser.parse());
  std::optional<Dfa> dfa = compileTree(*tree, false, budget);
  for (const RegexParser::Lookahead &lookahead : parser.lookaheads) {
    std::optional<Dfa> seen = compileTree(*lookahead.node, true, budget);
    dfa = dfa && seen
              ? intersection(*dfa, lookahead.isNegated ? complementOf(*seen) : *seen, budget)
              : std::nullopt;
  }
  if (!dfa) {
    return Status::error(ErrorId::SchemaUnsupported, "the pattern's automaton is too large");
  }
  return std::move(*dfa);
}

} // namespace tenon::generate::grammar
