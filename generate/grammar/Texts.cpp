// Numbers are compared digit by digit, by expressions: a larger one has more digits, or a larger
// digit behind equal ones.
#include "generate/grammar/Texts.h"

#include "generate/grammar/Regex.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <charconv>
#include <cmath>
#include <string>
#include <utility>

namespace tenon::generate::grammar {
namespace {

#define TENON_YEAR "(\\d{3}[1-9]|\\d{2}[1-9]\\d|\\d[1-9]\\d{2}|[1-9]\\d{3})"
#define TENON_LEAP "(\\d\\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define TENON_DATE                                                                                 \
  "(" TENON_YEAR "-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|"      \
  "02-(0[1-9]|1\\d|2[0-8]))|" TENON_LEAP "-02-29)"
#define TENON_TIME                                                                                 \
  "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define TENON_LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define TENON_BYTE "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define TENON_GROUP "[0-9A-Fa-f]{1,4}"
#define TENON_COUNT "\\d{1,6}"

#define TENON_HEX "[0-9a-fA-F]"
#define TENON_UUID(VERSION, VARIANT)                                                               \
  "^" TENON_HEX "{8}-" TENON_HEX "{4}-" VERSION TENON_HEX "{3}-" VARIANT TENON_HEX                 \
  "{3}-" TENON_HEX "{12}$"
#define TENON_VERSION(DIGIT) TENON_UUID(DIGIT, "[89ab]")
#define TENON_EMAIL                                                                                \
  "^[A-Za-z0-9_+-]{1,30}(\\.[A-Za-z0-9_+-]{1,30})?@(" TENON_LABEL "\\.){1,3}[A-Za-z]{2,10}$"
#define TENON_HOST "^(" TENON_LABEL "\\.){0,4}[A-Za-z]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?$"
#define TENON_PATH "(/[A-Za-z0-9._~-]*)*(\\?[A-Za-z0-9._~=&-]*)?(#[A-Za-z0-9._~-]*)?$"
#define TENON_URI                                                                                  \
  "^[a-z][a-z0-9+.-]{1,20}://" TENON_LABEL "(\\." TENON_LABEL "){0,4}(:[1-9]\\d{0,3})?" TENON_PATH
#define TENON_BASE64(SIGN) "^(" SIGN "{4})*(" SIGN "{2}==|" SIGN "{3}=)?$"

/// Those of JSON Schema, and those that pydantic, zod and OpenAPI write; an empty one says nothing
/// of the text.
constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"date", "^" TENON_DATE "$"},
    {"time", "^" TENON_TIME "$"},
    {"date-time", "^" TENON_DATE "T" TENON_TIME "$"},
    {"duration",
     "^P((" TENON_COUNT "Y(" TENON_COUNT "M(" TENON_COUNT "D)?)?|" TENON_COUNT "M(" TENON_COUNT
     "D)?|" TENON_COUNT "D)(T(" TENON_COUNT "H(" TENON_COUNT "M(" TENON_COUNT "S)?)?|" TENON_COUNT
     "M(" TENON_COUNT "S)?|" TENON_COUNT "S))?|T(" TENON_COUNT "H(" TENON_COUNT "M(" TENON_COUNT
     "S)?)?|" TENON_COUNT "M(" TENON_COUNT "S)?|" TENON_COUNT "S)|" TENON_COUNT "W)$"},
    {"uuid", TENON_UUID(TENON_HEX, TENON_HEX)},
    {"uuid1", TENON_VERSION("1")},
    {"uuid3", TENON_VERSION("3")},
    {"uuid4", TENON_VERSION("4")},
    {"uuid5", TENON_VERSION("5")},
    {"uuid6", TENON_VERSION("6")},
    {"uuid7", TENON_VERSION("7")},
    {"uuid8", TENON_VERSION("8")},
    {"email", TENON_EMAIL},
    {"idn-email", TENON_EMAIL},
    {"hostname", TENON_HOST},
    {"idn-hostname", TENON_HOST},
    {"ipv4", "^" TENON_BYTE "(\\." TENON_BYTE "){3}$"},
    {"ipv4interface", "^" TENON_BYTE "(\\." TENON_BYTE "){3}/(3[0-2]|[12]?\\d)$"},
    {"ipv4network", "^" TENON_BYTE "(\\." TENON_BYTE "(\\." TENON_BYTE "(\\." TENON_BYTE
                    "/32|\\.0/24)|\\.0\\.0/16)|\\.0\\.0\\.0/8)$"},
    {"ipv6", "^((" TENON_GROUP ":){7}" TENON_GROUP "|(" TENON_GROUP ":){1,6}:" TENON_GROUP
             "|::(" TENON_GROUP ")?)$"},
    {"uri", TENON_URI},
    {"iri", TENON_URI},
    {"uri-reference", "^" TENON_PATH},
    {"iri-reference", "^" TENON_PATH},
    {"json-pointer", "^(/([A-Za-z0-9._-]|~[01])*)*$"},
    {"byte", TENON_BASE64("[A-Za-z0-9+/]")},
    {"base64", TENON_BASE64("[A-Za-z0-9+/]")},
    {"base64url", TENON_BASE64("[A-Za-z0-9_-]")},
    {"binary", ""},
    {"password", ""},
    {"path", ""},
    {"file-path", ""},
    {"directory-path", ""}};

#undef TENON_HEX
#undef TENON_UUID
#undef TENON_VERSION
#undef TENON_EMAIL
#undef TENON_HOST
#undef TENON_PATH
#undef TENON_URI
#undef TENON_BASE64
#undef TENON_YEAR
#undef TENON_LEAP
#undef TENON_DATE
#undef TENON_TIME
#undef TENON_LABEL
#undef TENON_BYTE
#undef TENON_GROUP
#undef TENON_COUNT

/// A number's digits before and behind the point, without zeros that say nothing.
struct Decimal {
  bool isNegative = false;
  std::string whole, fraction;

  bool isZero() const { return whole == "0" && fraction.empty(); }
};

Decimal decimalOf(const Json &number) {
  std::string text;
  if (number.is_number_unsigned()) {
    text = std::to_string(number.get<uint64_t>());
  } else if (number.is_number_integer()) {
    text = std::to_string(number.get<int64_t>());
  } else {
    char buffer[400];
    double value = number.get<double>();
    text = {buffer,
            std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr};
  }
  Decimal decimal;
  decimal.isNegative = text.starts_with('-');
  text.erase(0, decimal.isNegative ? 1 : 0);
  size_t point = std::min(text.find('.'), text.size());
  decimal.whole = text.substr(0, point);
  decimal.fraction = point < text.size() ? text.substr(point + 1) : "";
  while (decimal.fraction.ends_with('0')) {
    decimal.fraction.pop_back();
  }
  decimal.isNegative = decimal.isNegative && !decimal.isZero();
  return decimal;
}

constexpr std::string_view kFraction = "(\\.\\d+)?";

std::string oneOf(char first, char last) {
  return first > last ? "[]" : strCat('[', first, '-', last, ']');
}

/// Alternatives of magnitudes on one side of another.
std::string beyond(const Decimal &than, bool isAbove, bool isExclusive) {
  const std::string &whole = than.whole, &fraction = than.fraction;
  std::string result = isAbove ? strCat("[1-9]\\d{", whole.size(), ",}", kFraction) : "[]";
  if (!isAbove && whole.size() > 1) {
    result += strCat("|\\d{1,", whole.size() - 1, '}', kFraction);
  }
  auto digit = [&](char than) {
    return isAbove ? oneOf(static_cast<char>(than + 1), '9')
                   : oneOf('0', static_cast<char>(than - 1));
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    result += strCat('|', whole.substr(0, i), digit(whole[i]), "\\d{", whole.size() - i - 1, '}',
                     kFraction);
  }
  std::string point = strCat('|', whole, "\\.");
  for (size_t i = 0; i < fraction.size(); ++i) {
    result += strCat(point, fraction.substr(0, i), digit(fraction[i]), "\\d*");
    if (!isAbove) { // fewer digits are less
      result += i == 0 ? strCat('|', whole) : strCat(point, fraction.substr(0, i));
    }
  }
  if (isAbove) {
    result += strCat(point, fraction, isExclusive ? "\\d*[1-9]\\d*" : "\\d*");
  } else if (!isExclusive) {
    result += strCat(point, fraction, "0*");
  }
  if (fraction.empty() && !isExclusive) {
    result += strCat('|', whole);
  }
  return strCat('(', result, ')');
}

std::string regexOf(const Bound &bound, bool isLeast) {
  Decimal than = decimalOf(bound.value);
  constexpr std::string_view kAll = "\\d+(\\.\\d+)?";
  // Magnitudes of numbers without and with a minus.
  std::string positive = "[]", negative = "[]";
  bool isBelowZero = than.isNegative || (than.isZero() && bound.isExclusive && !isLeast);
  if (isLeast) {
    positive = than.isNegative ? std::string(kAll) : beyond(than, true, bound.isExclusive);
    negative = than.isNegative ? beyond(than, false, bound.isExclusive) : negative;
  } else {
    positive = isBelowZero ? positive : beyond(than, false, bound.isExclusive);
    negative = isBelowZero ? beyond(than, true, bound.isExclusive) : std::string(kAll);
  }
  return strCat("^(", positive, "|-", negative, ")$");
}

/// All that a number is written as.
std::string equalTo(const Decimal &number) {
  std::string_view sign = number.isZero() ? "-?" : number.isNegative ? "-" : "";
  return number.fraction.empty() ? strCat('^', sign, number.whole, "(\\.0+)?$")
                                 : strCat('^', sign, number.whole, "\\.", number.fraction, "0*$");
}

/// Integers that a number divides.
Dfa multiplesOf(uint64_t divisor) {
  Dfa dfa;
  for (uint32_t rest = 0; rest < divisor + 1; ++rest) { // the last is the beginning
    Dfa::State &state = dfa.states.emplace_back();
    uint64_t value = rest == divisor ? 0 : rest;
    for (char32_t digit = 0; digit < 10; ++digit) {
      state.edges.push_back(
          {'0' + digit, '0' + digit, static_cast<uint32_t>((value * 10 + digit) % divisor)});
    }
    state.accepts = rest == 0;
  }
  dfa.states.back().edges.insert(dfa.states.back().edges.begin(),
                                 {'-', '-', static_cast<uint32_t>(divisor)});
  std::swap(dfa.states.front(), dfa.states.back());
  for (Dfa::State &state : dfa.states) {
    for (Dfa::Edge &edge : state.edges) {
      edge.target = edge.target == 0         ? static_cast<uint32_t>(divisor)
                    : edge.target == divisor ? 0
                                             : edge.target;
    }
  }
  return dfa;
}

} // namespace

std::optional<std::string_view> regexOfFormat(std::string_view name) {
  for (auto [each, regex] : kFormats) {
    if (each == name) {
      return regex;
    }
  }
  return std::nullopt;
}

Result<Dfa> numbersOf(const NumberRange &range, Budget &budget) {
  bool isInteger = range.isInteger || range.multiple != 1;
  std::string_view all =
      isInteger ? "^-?(0|[1-9]\\d{0,17})$" : "^-?(0|[1-9]\\d{0,14})(\\.\\d{1,15})?$";
  TENON_ASSIGN(Dfa result, compileRegex(all, budget));
  auto narrow = [&](const Dfa &other) {
    std::optional<Dfa> both = intersection(result, other, budget);
    result = both ? std::move(*both) : Dfa();
    return both ? Status::ok()
                : Status::error(ErrorId::SchemaUnsupported, "the numbers' automaton is too large");
  };
  for (bool isLeast : {true, false}) {
    for (const Bound &bound : isLeast ? range.least : range.most) {
      TENON_ASSIGN(Dfa side, compileRegex(regexOf(bound, isLeast), budget));
      TENON_TRY(narrow(side));
    }
  }
  for (const Json &number : range.excluded) {
    TENON_ASSIGN(Dfa equal, compileRegex(equalTo(decimalOf(number)), budget));
    TENON_TRY(narrow(complementOf(equal)));
  }
  if (range.multiple != 1) {
    TENON_TRY(narrow(multiplesOf(range.multiple)));
  }
  return result;
}

} // namespace tenon::generate::grammar
