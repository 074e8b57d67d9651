// Arrays and objects as parts of a grammar: what stands between their parts, and how often these
// come.
#pragma once

#include "generate/grammar/Grammar.h"
#include "generate/grammar/SchemaParts.h"
#include "support/json/Json.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tenon::generate::grammar {

/// Items behind the listed ones; `leastOf` to `mostOf` of them are of one more schema.
struct Items {
  uint32_t rule = 0, both = 0, least = 0, most = kUnbounded, leastOf = 0;
  std::optional<uint32_t> mostOf;
  const Conditions::Contained *contained = nullptr;
};

/// Names of properties beside the listed ones, and what their values are.
struct NameGroup {
  uint32_t names, values;
};

/// What it writes ends at `end`.
class ContainerWriter {
public:
  /// Values of which writeUnique can tell which have come.
  static constexpr size_t kMaxUnique = 64;

protected:
  ContainerWriter(Grammar &theGrammar, const JsonRules &theRules)
      : grammar(theGrammar), rules(theRules), end(theGrammar.addEnd()) {}

  uint32_t spaceBehind(uint32_t from);
  /// Where the next part of a container begins.
  uint32_t afterComma(uint32_t at, bool isFirst);
  void closeAt(uint32_t at, bool may, char sign);
  void addLiteral(const Json &value, uint32_t from, uint32_t to);
  /// `least` to `most` items, at least one, and the bracket behind them. Each round has one more of
  /// those that are counted, and leaves room for those that are still needed.
  void addItems(uint32_t from, const Items &items);
  /// Items of which no two are equal, and the bracket: in any order where they are few, else in the
  /// order in which they are listed. A state is what may still come and how many came.
  void writeUnique(uint32_t at, const std::vector<Json> &values, uint64_t least, uint64_t most);
  /// The value of a property behind its name, which ends at `at`; and where it ends.
  uint32_t addValue(uint32_t at, uint32_t rule);
  /// Up to `most` properties whose names are not listed, and the bracket.
  void addNamed(const std::vector<NameGroup> &groups, const std::vector<uint32_t> &first,
                uint32_t most);

  Grammar &grammar;
  const JsonRules &rules;
  const uint32_t end;
};

} // namespace tenon::generate::grammar
