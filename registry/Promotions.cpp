// Aliases: where they are, how they move, and the gates before that.

#include "registry/Registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tenon::registry {
namespace {

std::string numberText(int64_t version) {
  return version ? fmt::format("version {}", version) : "no version";
}

Status moved(const std::string &name, const std::string &alias, int64_t expected, int64_t actual) {
  return Status::error(ErrorId::AliasMoved,
                       fmt::format("'{}@{}' is at {}, not at {}", name, alias, numberText(actual),
                                   numberText(expected)),
                       "look at `tenon registry history`, then decide again");
}

/// The texts of rules, as they are kept with a result.
std::string listOf(const std::vector<Rule> &rules) {
  Json texts = Json::array();
  for (const Rule &rule : rules) {
    texts.push_back(rule.text);
  }
  return dumpJson(texts);
}

/// "rule: reason" of the rows of a result that have the outcome.
std::string reasonsOf(const Json &figures, GateOutcome outcome) {
  std::vector<std::string> reasons;
  for (const Json &row : figures) {
    if (row.value("verdict", "") == nameOf(outcome)) {
      reasons.push_back(fmt::format("'{}': {}", row.value("rule", ""), row.value("reason", "")));
    }
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

} // namespace

Result<int64_t> Registry::aliasOf(const std::string &name, const std::string &alias) {
  Query query(*database, "SELECT version FROM alias WHERE object = $1 AND name = $2", name, alias);
  TENON_ASSIGN(bool isFound, query.next());
  return isFound ? query.number(0) : 0;
}

Status Registry::checkGate(const Version &version, const std::string &alias, int64_t champion) {
  TENON_ASSIGN(std::vector<Rule> wanted, rules(version.name, alias));
  if (wanted.empty()) {
    return Status::ok();
  }
  std::string command = fmt::format("tenon registry gate {} {}", version.text(), alias);
  Query last(*database,
             "SELECT champion, verdict, rules, figures FROM result WHERE object = $1 AND version = "
             "$2 AND alias = $3 "
             "ORDER BY event DESC LIMIT 1",
             version.name, version.number, alias);
  TENON_ASSIGN(bool isGated, last.next());
  bool isOfTheseRules = isGated && last.text(2) == listOf(wanted);
  if (!isOfTheseRules) {
    return Status::error(ErrorId::GateRefused,
                         fmt::format("'{}@{}' has rules, and {} was not measured by {}",
                                     version.name, alias, version.text(),
                                     isGated ? "those that it has now" : "them"),
                         command + " measures it");
  }
  Json figures = parseJson(last.text(3));
  if (last.text(1) == nameOf(GateOutcome::Refused)) {
    return Status::error(ErrorId::GateRefused,
                         fmt::format("the gate of '{}@{}' refused {}: {}", version.name, alias,
                                     version.text(), reasonsOf(figures, GateOutcome::Refused)),
                         "promote a version that keeps the rules, or change them");
  }
  if (last.text(1) != nameOf(GateOutcome::Passed)) {
    return Status::error(ErrorId::GateUndecided,
                         fmt::format("the gate of '{}@{}' could not decide about {}: {}",
                                     version.name, alias, version.text(),
                                     reasonsOf(figures, GateOutcome::Undecided)),
                         "gate it again with more data or a longer --seconds");
  }
  bool asksChampion = std::ranges::any_of(wanted, &Rule::isRelative);
  if (asksChampion && last.number(0) != champion) {
    return Status::error(ErrorId::AliasMoved,
                         fmt::format("{} was compared with {}, but '{}@{}' is at {} now",
                                     version.text(), numberText(last.number(0)), version.name,
                                     alias, numberText(champion)),
                         command + " compares it again");
  }
  return Status::ok();
}

Result<Move> Registry::move(const Version &version, const std::string &alias, int64_t from,
                            const char *action, const std::string &reason) {
  if (version.isDeleted) {
    return Status::error(ErrorId::NoSuchObject, fmt::format("{} was deleted by gc", version.text()),
                         "push its file again, which gives it a new number");
  }
  TENON_TRY(Query(*database,
                  "INSERT INTO alias VALUES ($1, $2, $3) ON CONFLICT (object, name) DO UPDATE SET "
                  "version = excluded.version",
                  version.name, alias, version.number)
                .run());
  Event event;
  event.action = action;
  event.object = version.name;
  event.version = version.number;
  event.alias = alias;
  event.from = from;
  event.detail = {{"reason", reason}};
  TENON_TRY(add(std::move(event)));
  return Move{version.name, alias, from, version.number};
}

Result<Move> Registry::promote(const Reference &reference, const std::string &alias,
                               std::optional<int64_t> expected, const std::string &reason) {
  TENON_TRY(checkAlias(alias));
  TENON_TRY(checkRemark("the reason", reason));
  TENON_TRY(allow(Role::Promote));
  TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
  TENON_ASSIGN(Version version, find(reference));
  TENON_ASSIGN(int64_t from, aliasOf(version.name, alias));
  if (expected && *expected != from) {
    return moved(version.name, alias, *expected, from);
  }
  if (from == version.number) {
    return Move{version.name, alias, from, from}; // nothing moves, and nothing happened
  }
  TENON_TRY(checkGate(version, alias, from));
  TENON_ASSIGN(Move done, move(version, alias, from, "promote", reason));
  TENON_TRY(finish(transaction));
  return done;
}

Result<std::vector<int64_t>> Registry::earlier(const std::string &name, const std::string &alias) {
  std::vector<int64_t> stack; // of versions that the alias can go back to, the next one last
  Query query(*database,
              "SELECT action, origin FROM event WHERE object = $1 AND alias = $2 AND action IN "
              "('promote', 'rollback') ORDER BY id",
              name, alias);
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return stack;
    }
    if (query.text(0) == "promote") {
      stack.push_back(query.number(1));
    } else if (!stack.empty()) {
      stack.pop_back();
    }
  }
}

Result<Move> Registry::rollback(const std::string &name, const std::string &alias,
                                std::optional<int64_t> expected, const std::string &reason) {
  TENON_TRY(checkRemark("the reason", reason));
  TENON_TRY(allow(Role::Promote));
  TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
  TENON_ASSIGN(Version present, find({name, 0, alias}));
  if (expected && *expected != present.number) {
    return moved(name, alias, *expected, present.number);
  }
  TENON_ASSIGN(std::vector<int64_t> stack, earlier(name, alias));
  if (stack.empty() || stack.back() == 0) {
    return Status::error(
        ErrorId::NothingToRollBack,
        fmt::format("'{}@{}' was at no version before {}", name, alias, present.number),
        "`tenon registry promote` moves it to any version");
  }
  TENON_ASSIGN(Version before, find({name, stack.back(), ""}));
  if (before.isDeleted) {
    return Status::error(
        ErrorId::NothingToRollBack,
        fmt::format("{}, where '{}@{}' was before, was deleted by gc", before.text(), name, alias),
        "`tenon registry promote` moves it to a version that is there");
  }
  TENON_ASSIGN(Move done, move(before, alias, present.number, "rollback", reason));
  TENON_TRY(finish(transaction));
  return done;
}

Result<std::vector<Rule>> Registry::rules(const std::string &name, const std::string &alias) {
  std::vector<Rule> rules;
  Query query(*database, "SELECT text FROM rule WHERE object = $1 AND alias = $2 ORDER BY position",
              name, alias);
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return rules;
    }
    TENON_ASSIGN(Rule rule, parseRule(query.text(0)));
    rules.push_back(std::move(rule));
  }
}

Status Registry::setRules(const std::string &name, const std::string &alias,
                          const std::vector<Rule> &rules) {
  TENON_TRY(checkAlias(alias));
  TENON_TRY(allow(Role::Promote));
  TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
  TENON_TRY(object(name).takeStatus());
  TENON_TRY(
      Query(*database, "DELETE FROM rule WHERE object = $1 AND alias = $2", name, alias).run());
  for (size_t i = 0; i < rules.size(); ++i) {
    TENON_TRY(Query(*database, "INSERT INTO rule VALUES ($1, $2, $3, $4)", name, alias,
                    static_cast<int64_t>(i), rules[i].text)
                  .run());
  }
  Event event;
  event.action = "rules";
  event.object = name;
  event.alias = alias;
  event.detail = {{"rules", parseJson(listOf(rules))}};
  TENON_TRY(add(std::move(event)));
  return finish(transaction);
}

Status Registry::record(const std::string &name, const GateResult &result) {
  TENON_TRY(allow(Role::Push));
  TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
  TENON_ASSIGN(std::vector<Rule> present, rules(name, result.alias));
  TENON_ASSIGN(int64_t champion, aliasOf(name, result.alias));
  if (champion != result.champion) {
    return moved(name, result.alias, result.champion, champion);
  }
  std::string asked = dumpJson(result.rules);
  if (listOf(present) != asked) {
    return Status::error(ErrorId::AliasMoved,
                         fmt::format("the rules of '{}@{}' were changed while the gate measured",
                                     name, result.alias),
                         "gate the version again");
  }
  Event event;
  event.action = "gate";
  event.object = name;
  event.version = result.version;
  event.alias = result.alias;
  event.detail = {{"champion", result.champion},
                  {"verdict", nameOf(result.outcome)},
                  {"figures", result.figures}};
  TENON_TRY(add(std::move(event)));
  TENON_TRY(Query(*database,
                  "INSERT INTO result SELECT max(id), $1, $2, $3, $4, $5, $6, $7 FROM event", name,
                  result.version, result.alias, result.champion, nameOf(result.outcome), asked,
                  dumpJson(result.figures))
                .run());
  return finish(transaction);
}

Result<std::vector<Event>> Registry::history(const std::string &name, const std::string &alias,
                                             int64_t most) {
  std::string columns = kEventColumns, last = " ORDER BY id DESC LIMIT ";
  Query query = name.empty() ? Query(*database, columns + last + "$1", most)
                : alias.empty()
                    ? Query(*database, columns + "WHERE object = $1" + last + "$2", name, most)
                    : Query(*database, columns + "WHERE object = $1 AND alias = $2" + last + "$3",
                            name, alias, most);
  std::vector<Event> events;
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return events;
    }
    events.push_back(readEvent(query));
  }
}

} // namespace tenon::registry
