// Patterns as programs of a machine that goes back to the last choice where it fails. Relies on
// sets deciding a code point at a time.
// One file: parser and matcher are two sides of one program.
#include "generate/tokenizer/Pattern.h"

#include "generate/text/Utf8.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <tuple>

namespace tenon::generate {
namespace {

/// Places to go back to, for each code point.
constexpr size_t kMostChoices = 16;
constexpr uint32_t kMostRepeats = 1000;
constexpr int kMostDepth = 50, kMostStacked = 4;
constexpr uint32_t kMostProgram = 1'000'000;

constexpr uint16_t bitOf(CodeClass kind) { return static_cast<uint16_t>(1u << int(kind)); }

struct ClassName {
  std::string_view name;
  uint16_t classes;
};

constexpr uint16_t kLetters = bitOf(CodeClass::Upper) | bitOf(CodeClass::Title) |
                              bitOf(CodeClass::Lower) | bitOf(CodeClass::Modifier) |
                              bitOf(CodeClass::Letter);
constexpr uint16_t kNumbers = bitOf(CodeClass::Digit) | bitOf(CodeClass::Number);
constexpr ClassName kClassNames[] = {
    {"L", kLetters},
    {"Lu", bitOf(CodeClass::Upper)},
    {"Lt", bitOf(CodeClass::Title)},
    {"Ll", bitOf(CodeClass::Lower)},
    {"Lm", bitOf(CodeClass::Modifier)},
    {"Lo", bitOf(CodeClass::Letter)},
    {"M", bitOf(CodeClass::Mark)},
    {"N", kNumbers},
    {"Nd", bitOf(CodeClass::Digit)},
    {"P", bitOf(CodeClass::Punctuation)},
    {"S", bitOf(CodeClass::Symbol)},
};

} // namespace

bool Pattern::Set::has(char32_t point) const {
  bool isIn =
      (classes & bitOf(classOf(point))) != 0 ||
      std::ranges::any_of(
          ranges, [&](auto &range) { return point >= range.first && point <= range.second; }) ||
      std::ranges::any_of(complements, [&](const Set &set) { return !set.has(point); });
  return isIn != isNegated;
}

/// Recursive descent over the text; each construct appends its steps.
class PatternParser {
public:
  PatternParser(std::u32string newText, std::string_view original)
      : text(std::move(newText)), whole(original) {}

  Result<Pattern> parse() {
    TENON_TRY(alternatives());
    if (at != text.size()) {
      return unknown("a ')' without '('");
    }
    emit(Pattern::Step::Kind::End);
    return std::move(pattern);
  }

private:
  using Kind = Pattern::Step::Kind;

  bool isAtEnd() const { return at == text.size(); }
  bool takeIf(std::u32string_view expected) {
    if (std::u32string_view(text).substr(at).starts_with(expected)) {
      at += expected.size();
      return true;
    }
    return false;
  }
  uint32_t here() const { return static_cast<uint32_t>(pattern.program.size()); }
  void emit(Kind kind, uint32_t first = 0, uint32_t second = 0) {
    pattern.program.push_back({kind, first, second});
  }
  Status unknown(std::string_view what) const {
    return Status::error(ErrorId::TokenizerUnsupported,
                         strCat("the pattern '", whole, "' has ", what, " at character ", at),
                         "report the pattern, with its model");
  }

  Status alternatives();
  Status sequence();
  Status repeated();
  Status atom();
  Status group();
  Status repeat(uint32_t begin, uint32_t least, std::optional<uint32_t> most);
  Result<Pattern::Set> set();
  Result<Pattern::Set> escape();
  Result<std::optional<std::pair<uint32_t, std::optional<uint32_t>>>> counts();
  void take(Pattern::Set set) {
    foldCases(set);
    emit(Kind::Take, static_cast<uint32_t>(pattern.sets.size()));
    pattern.sets.push_back(std::move(set));
  }
  void foldCases(Pattern::Set &set) const;

  std::u32string text;
  std::string_view whole;
  size_t at = 0;
  int depth = 0;
  bool ignoresCase = false;
  Pattern pattern;
};

void PatternParser::foldCases(Pattern::Set &set) const {
  if (!ignoresCase) {
    return;
  }
  // Single letters only, as contractions have them.
  std::vector<std::pair<char32_t, char32_t>> more;
  for (auto [first, last] : set.ranges) {
    for (char32_t point = first; point <= last && point < 128; ++point) {
      char32_t lower = point | 0x20;
      if (lower >= 'a' && lower <= 'z') {
        more.insert(more.end(), {{lower, lower}, {lower - 0x20, lower - 0x20}});
      }
      if (lower == 's' || lower == 'k') {
        char32_t other = lower == 's' ? 0x17f : 0x212a; // long s, the sign of kelvin
        more.emplace_back(other, other);
      }
    }
  }
  set.ranges.insert(set.ranges.end(), more.begin(), more.end());
}

/// a|b|c: each choice goes to the end of all.
Status PatternParser::alternatives() {
  if (++depth > kMostDepth) {
    return unknown("groups nested too deeply");
  }
  std::vector<uint32_t> jumps;
  while (true) {
    uint32_t begin = here();
    TENON_TRY(sequence());
    if (!takeIf(U"|")) {
      break;
    }
    pattern.program.insert(pattern.program.begin() + begin, {Kind::Split, 0, 0});
    // What jumps within the alternative moved by one.
    for (uint32_t i = begin + 1; i < here(); ++i) {
      Pattern::Step &step = pattern.program[i];
      if (step.kind != Kind::Take && step.kind != Kind::End) {
        ++step.first;
        step.second += step.kind == Kind::Split ? 1 : 0;
      }
    }
    jumps.push_back(here());
    emit(Kind::Jump);
    pattern.program[begin].first = begin + 1;
    pattern.program[begin].second = here();
  }
  for (uint32_t jump : jumps) {
    pattern.program[jump].first = here();
  }
  --depth;
  return Status::ok();
}

Status PatternParser::sequence() {
  while (!isAtEnd() && text[at] != '|' && text[at] != ')') {
    TENON_TRY(repeated());
  }
  return Status::ok();
}

/// {m}, {m,} or {m,n}; none where a brace begins nothing of the kind.
Result<std::optional<std::pair<uint32_t, std::optional<uint32_t>>>> PatternParser::counts() {
  using Counts = std::optional<std::pair<uint32_t, std::optional<uint32_t>>>;
  if (takeIf(U"?")) {
    return Counts({0, 1});
  }
  if (takeIf(U"*")) {
    return Counts({0, std::nullopt});
  }
  if (takeIf(U"+")) {
    return Counts({1, std::nullopt});
  }
  if (isAtEnd() || text[at] != '{') {
    return Counts();
  }
  ++at;
  auto number = [&]() -> std::optional<uint32_t> {
    std::optional<uint32_t> value;
    while (!isAtEnd() && text[at] >= '0' && text[at] <= '9' && value.value_or(0) <= kMostRepeats) {
      value = value.value_or(0) * 10 + (text[at++] - '0');
    }
    return value;
  };
  std::optional<uint32_t> least = number(), most = least;
  if (takeIf(U",")) {
    most = number();
  }
  if (!least || !takeIf(U"}") || *least > kMostRepeats || most.value_or(*least) < *least ||
      most.value_or(0) > kMostRepeats) {
    return unknown("counts that are not supported");
  }
  return Counts({*least, most});
}

Status PatternParser::repeated() {
  uint32_t begin = here();
  TENON_TRY(atom());
  TENON_ASSIGN(auto count, counts());
  for (int stacked = 0; count; ++stacked) {
    if (stacked > kMostStacked || here() > kMostProgram) {
      return unknown("more repetitions than are read");
    }
    TENON_TRY(repeat(begin, count->first, count->second));
    if (takeIf(U"?")) {
      return unknown("a lazy repetition");
    }
    if (takeIf(U"+")) { // possessive: what it took is not given back
      std::vector<Pattern::Step> part(pattern.program.begin() + begin, pattern.program.end());
      pattern.program.resize(begin);
      emit(Kind::Atomic);
      for (Pattern::Step step : part) {
        bool isJump = step.kind != Kind::Take && step.kind != Kind::End;
        step.first += isJump ? 1 : 0;
        step.second += step.kind == Kind::Split ? 1 : 0;
        pattern.program.push_back(step);
      }
      emit(Kind::End);
      pattern.program[begin].first = here();
    }
    TENON_ASSIGN(count, counts());
  }
  return Status::ok();
}

/// Repeats the steps from `begin` on.
Status PatternParser::repeat(uint32_t begin, uint32_t least, std::optional<uint32_t> most) {
  std::vector<Pattern::Step> part(pattern.program.begin() + begin, pattern.program.end());
  pattern.program.resize(begin);
  auto copy = [&] {
    uint32_t moved = here() - begin;
    for (Pattern::Step step : part) {
      bool isJump = step.kind != Kind::Take && step.kind != Kind::End;
      step.first += isJump ? moved : 0;
      step.second += step.kind == Kind::Split ? moved : 0;
      pattern.program.push_back(step);
    }
  };
  if (part.size() * (most.value_or(least) + 1) > 100'000) {
    return unknown("too many repetitions");
  }
  for (uint32_t i = 0; i < least; ++i) {
    copy();
  }
  if (!most) {
    uint32_t split = here();
    emit(Kind::Split);
    copy();
    emit(Kind::Jump, split);
    pattern.program[split].first = split + 1;
    pattern.program[split].second = here();
    return Status::ok();
  }
  std::vector<uint32_t> splits;
  for (uint32_t i = least; i < *most; ++i) {
    splits.push_back(here());
    emit(Kind::Split);
    copy();
  }
  for (uint32_t split : splits) {
    pattern.program[split].first = split + 1;
    pattern.program[split].second = here();
  }
  return Status::ok();
}

Status PatternParser::group() {
  bool before = ignoresCase;
  std::optional<Kind> look;
  if (takeIf(U"?:")) {
  } else if (takeIf(U"?i:")) {
    ignoresCase = true;
  } else if (takeIf(U"?!")) {
    look = Kind::NotAhead;
  } else if (takeIf(U"?=")) {
    look = Kind::Ahead;
  } else if (!isAtEnd() && text[at] == '?') {
    return unknown("an unsupported kind of group");
  }
  uint32_t begin = here();
  if (look) {
    emit(*look);
  }
  TENON_TRY(alternatives());
  if (!takeIf(U")")) {
    return unknown("a group that does not end");
  }
  ignoresCase = before;
  if (look) {
    emit(Kind::End);
    pattern.program[begin].first = here();
  }
  return Status::ok();
}

Status PatternParser::atom() {
  if (takeIf(U"(")) {
    return group();
  }
  if (takeIf(U"[")) {
    TENON_ASSIGN(Pattern::Set members, set());
    take(std::move(members));
    return Status::ok();
  }
  if (takeIf(U"\\")) {
    TENON_ASSIGN(Pattern::Set members, escape());
    take(std::move(members));
    return Status::ok();
  }
  if (takeIf(U".")) {
    Pattern::Set any;
    any.ranges = {{'\n', '\n'}};
    any.isNegated = true;
    take(std::move(any));
    return Status::ok();
  }
  if (text[at] == '^' || text[at] == '$' || text[at] == '*' || text[at] == '+' || text[at] == '?') {
    return unknown("an unsupported sign");
  }
  Pattern::Set single;
  single.ranges = {{text[at], text[at]}};
  ++at;
  take(std::move(single));
  return Status::ok();
}

/// Behind a backslash.
Result<Pattern::Set> PatternParser::escape() {
  if (isAtEnd()) {
    return unknown("a backslash at its end");
  }
  Pattern::Set members;
  char32_t sign = text[at++];
  switch (sign) {
  case 'r':
    members.ranges = {{'\r', '\r'}};
    return members;
  case 'n':
    members.ranges = {{'\n', '\n'}};
    return members;
  case 't':
    members.ranges = {{'\t', '\t'}};
    return members;
  case 's':
  case 'S':
    members.classes = bitOf(CodeClass::Space);
    members.isNegated = sign == 'S';
    return members;
  case 'd':
  case 'D':
    members.classes = bitOf(CodeClass::Digit);
    members.isNegated = sign == 'D';
    return members;
  case 'p':
  case 'P': {
    size_t end = text.find(U'}', at);
    if (!takeIf(U"{") || end == text.npos) {
      return unknown("a category without braces");
    }
    members.isNegated = takeIf(U"^") != (sign == 'P');
    std::string name(text.begin() + static_cast<std::ptrdiff_t>(at),
                     text.begin() + static_cast<std::ptrdiff_t>(end));
    for (const ClassName &known : kClassNames) {
      if (known.name == name) {
        members.classes = known.classes;
        at = end + 1;
        return members;
      }
    }
    return unknown(strCat("the category '", name, "', which is unknown,"));
  }
  default:
    if (sign < 128 && (std::isalnum(static_cast<int>(sign)) != 0)) {
      return unknown("an unsupported escape");
    }
    members.ranges = {{sign, sign}};
    return members;
  }
}

/// Behind a bracket.
Result<Pattern::Set> PatternParser::set() {
  Pattern::Set members;
  members.isNegated = takeIf(U"^");
  bool isFirst = true;
  while (isFirst || !takeIf(U"]")) {
    isFirst = false;
    if (isAtEnd()) {
      return unknown("a set that does not end");
    }
    if (text[at] == '[' || takeIf(U"&&")) {
      return unknown("a set within a set");
    }
    Pattern::Set single;
    if (takeIf(U"\\")) {
      TENON_ASSIGN(single, escape());
    } else {
      single.ranges = {{text[at], text[at]}};
      ++at;
    }
    bool isPoint = single.classes == 0 && !single.isNegated && single.ranges.size() == 1;
    if (isPoint && at + 1 < text.size() && text[at] == '-' && text[at + 1] != ']') {
      ++at;
      Pattern::Set last;
      if (takeIf(U"\\")) {
        TENON_ASSIGN(last, escape());
      } else {
        last.ranges = {{text[at], text[at]}};
        ++at;
      }
      if (last.ranges.size() != 1 || last.ranges[0].first < single.ranges[0].first) {
        return unknown("a range that ends before it begins");
      }
      single.ranges[0].second = last.ranges[0].first;
    }
    if (single.isNegated) {
      single.isNegated = false;
      members.complements.push_back(std::move(single));
    } else {
      members.classes |= single.classes;
      members.ranges.insert(members.ranges.end(), single.ranges.begin(), single.ranges.end());
    }
  }
  return members;
}

Result<Pattern> Pattern::parse(std::string_view text) {
  TENON_ASSIGN(std::u32string points, decodeUtf8(text));
  return PatternParser(std::move(points), text).parse();
}

/// The end of the match of the part of the program that begins at a step, or kNone.
size_t Pattern::run(std::u32string_view text, size_t at, uint32_t step, uint64_t &steps) const {
  std::vector<std::pair<uint32_t, size_t>> choices;
  size_t mostChoices = kMostChoices * (text.size() + program.size());
  while (steps > 0 && choices.size() <= mostChoices) {
    --steps;
    const Step &now = program[step];
    bool holds = true;
    switch (now.kind) {
    case Step::Kind::End:
      return at;
    case Step::Kind::Take:
      holds = at < text.size() && sets[now.first].has(text[at]);
      at += holds ? 1 : 0;
      ++step;
      break;
    case Step::Kind::Split:
      choices.emplace_back(now.second, at);
      step = now.first;
      break;
    case Step::Kind::Jump:
      step = now.first;
      break;
    case Step::Kind::Ahead:
    case Step::Kind::NotAhead:
      holds = (run(text, at, step + 1, steps) != kNone) == (now.kind == Step::Kind::Ahead);
      step = now.first;
      break;
    case Step::Kind::Atomic: {
      size_t end = run(text, at, step + 1, steps);
      holds = end != kNone;
      at = holds ? end : at;
      step = now.first;
      break;
    }
    }
    if (!holds) {
      if (choices.empty()) {
        return kNone;
      }
      std::tie(step, at) = choices.back();
      choices.pop_back();
    }
  }
  steps = 0;
  return kNone;
}

Result<size_t> Pattern::match(std::u32string_view text, size_t at, uint64_t &steps) const {
  size_t end = run(text, at, 0, steps);
  if (steps == 0) {
    return Status::error(ErrorId::TokenizerLimit,
                         "a pattern of the tokenizer needs too many steps on this text",
                         "give the text in shorter pieces");
  }
  return end;
}

} // namespace tenon::generate
