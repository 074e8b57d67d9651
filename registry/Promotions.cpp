// Aliases: where they are, how they move, and the gates before that.

#include "registry/Registry.h"
#include "registry/SearchIndex.h"

#include <fmt/format.h>

namespace tenon::registry {
namespace {

Status moved(const std::string &name, const std::string &alias, int64_t expected, int64_t actual) {
  return Status::error(ErrorId::AliasMoved,
                       fmt::format("'{}@{}' is at {}, not at {}", name, alias, numberText(actual),
                                   numberText(expected)),
                       "look at `tenon registry history` and decide again");
}

Status deleted(const Version &version) {
  return Status::error(ErrorId::NoSuchObject, fmt::format("gc deleted {}", version.text()),
                       "push its file again; it gets a new number");
}

Result<std::vector<Event>> readEvents(Query &query) {
  std::vector<Event> events;
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return events;
    }
    events.push_back(readEvent(query));
  }
}

} // namespace

Result<int64_t> Registry::aliasOf(const std::string &name, const std::string &alias) {
  Query query(*database, "SELECT version FROM alias WHERE object = $1 AND name = $2", name, alias);
  TENON_ASSIGN(bool isFound, query.next());
  return isFound && rights.allow(Role::Read, name) ? query.number(0) : 0;
}

Result<std::map<std::string, int64_t>> Registry::objectsAt(const std::string &alias) {
  std::map<std::string, int64_t> versions;
  Query query(*database,
              "SELECT object, version FROM alias WHERE name = $1 AND " + isSeen("object"), alias);
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return versions;
    }
    versions[query.text(0)] = query.number(1);
  }
}

Status Registry::checkGate(const Version &version, const std::string &alias, int64_t champion) {
  TENON_ASSIGN(Terms wanted, terms(version.name, alias));
  TENON_ASSIGN(std::vector<std::string> bundles, signatures(version));
  TENON_TRY(requireSigners(wanted, bundles, version)
                .prefix(fmt::format("'{}@{}' requires a signature", version.name, alias)));
  if (wanted.rules.empty()) {
    return Status::ok();
  }
  // Results from before the terms were set are by others.
  Query query(*database,
              std::string(kEventColumns) +
                  "WHERE object = $1 AND alias = $2 AND version = $3 AND action = 'gate' AND id > "
                  "COALESCE((SELECT max(id) FROM event WHERE object = $1 AND alias = $2 AND action "
                  "= 'rules'), 0) ORDER BY id",
              version.name, alias, version.number);
  std::vector<GateResult> results;
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      break;
    }
    results.push_back(resultOf(readEvent(query)));
  }
  return standing(wanted, results, champion, fmt::format("{}@{}", version.name, alias))
      .prefix(version.text());
}

Result<Move> Registry::move(const Version &version, const std::string &alias, int64_t from,
                            const char *action, const std::string &reason) {
  if (version.isDeleted) {
    return deleted(version);
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
  TENON_ASSIGN(Transaction transaction, beginAs(Role::Promote, reference.name));
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
  TENON_ASSIGN(Transaction transaction, beginAs(Role::Promote, name));
  TENON_ASSIGN(Version present, find({name, 0, alias}));
  if (expected && *expected != present.number) {
    return moved(name, alias, *expected, present.number);
  }
  TENON_ASSIGN(std::vector<int64_t> stack, earlier(name, alias));
  if (stack.empty() || stack.back() == 0) {
    return Status::error(
        ErrorId::NothingToRollBack,
        fmt::format("'{}@{}' had no version before {}", name, alias, present.number),
        "`tenon registry promote` moves it to any version");
  }
  TENON_ASSIGN(Version before, find({name, stack.back(), ""}));
  if (before.isDeleted) {
    return Status::error(
        ErrorId::NothingToRollBack,
        fmt::format("gc deleted {}, where '{}@{}' was before", before.text(), name, alias),
        "`tenon registry promote` moves it to an existing version");
  }
  TENON_ASSIGN(Move done, move(before, alias, present.number, "rollback", reason));
  TENON_TRY(finish(transaction));
  return done;
}

Result<Terms> Registry::terms(const std::string &name, const std::string &alias) {
  std::vector<std::string> texts;
  Query query(*database,
              fmt::format("SELECT text FROM rule WHERE object = $1 AND alias = $2 AND {} ORDER BY "
                          "position",
                          isSeen("object")),
              name, alias);
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return parseTerms(texts);
    }
    texts.push_back(query.text(0));
  }
}

Status Registry::writeTerms(const std::string &name, const std::string &alias,
                            const std::vector<std::string> &texts) {
  TENON_TRY(
      Query(*database, "DELETE FROM rule WHERE object = $1 AND alias = $2", name, alias).run());
  for (size_t i = 0; i < texts.size(); ++i) {
    TENON_TRY(Query(*database, "INSERT INTO rule VALUES ($1, $2, $3, $4)", name, alias,
                    static_cast<int64_t>(i), texts[i])
                  .run());
  }
  Event event;
  event.action = "rules";
  event.object = name;
  event.alias = alias;
  event.detail = {{"rules", texts}};
  return add(std::move(event));
}

Status Registry::setTerms(const std::string &name, const std::string &alias, const Terms &terms) {
  TENON_TRY(checkAlias(alias));
  TENON_ASSIGN(Transaction transaction, beginAs(Role::Promote, name));
  TENON_ASSIGN(Object known, object(name));
  if (terms.asksToLoad() && known.kind != "engine") {
    return Status::error(ErrorId::BadGateRule,
                         fmt::format("'{}' has versions of kind {}, but only engines can be loaded",
                                     name, known.kind),
                         "leave out 'loads'");
  }
  TENON_TRY(writeTerms(name, alias, terms.texts));
  return finish(transaction);
}

Status Registry::record(const std::string &name, const GateResult &result) {
  TENON_ASSIGN(Transaction transaction, beginAs(Role::Push, name));
  TENON_ASSIGN(Version version, find({name, result.version, ""}));
  if (version.isDeleted) {
    return deleted(version);
  }
  TENON_ASSIGN(Terms present, terms(name, result.alias));
  TENON_ASSIGN(int64_t champion, aliasOf(name, result.alias));
  if (champion != result.champion) {
    return moved(name, result.alias, result.champion, champion);
  }
  if (present.texts != result.terms) {
    return Status::error(
        ErrorId::AliasMoved,
        fmt::format("the rules of '{}@{}' changed while the gate measured", name, result.alias),
        "run the gate again");
  }
  TENON_TRY(checkConditions(present, result.conditions));
  if (present.needsData() && present.dataHash.empty()) {
    TENON_TRY(
        allow(Role::Promote, name)
            .prefix("the rules pin no data, and choosing data requires the right to set rules"));
    present.dataHash = result.conditions.dataHash;
    present.texts.push_back(dataPin(result.conditions.data, present.dataHash));
    TENON_TRY(writeTerms(name, result.alias, present.texts));
  }
  TENON_TRY(checkResult(present, result));
  Event event;
  event.action = "gate";
  event.object = name;
  event.version = result.version;
  event.alias = result.alias;
  event.detail = detailOf(result);
  TENON_TRY(setMetrics(*database, version, result.figures));
  TENON_TRY(add(std::move(event)));
  return finish(transaction);
}

Result<std::vector<Event>> Registry::history(const std::string &name, const std::string &alias,
                                             int64_t most) {
  std::string columns = fmt::format("{}WHERE {} ", kEventColumns, isSeen("object")),
              last = " ORDER BY id DESC LIMIT ";
  Query query = name.empty() ? Query(*database, columns + last + "$1", most)
                : alias.empty()
                    ? Query(*database, columns + "AND object = $1" + last + "$2", name, most)
                    : Query(*database, columns + "AND object = $1 AND alias = $2" + last + "$3",
                            name, alias, most);
  return readEvents(query);
}

Result<std::vector<Event>> Registry::eventsAfter(int64_t id, int64_t most) {
  Query query(
      *database,
      fmt::format("{}WHERE {} AND id > $1 ORDER BY id LIMIT $2", kEventColumns, isSeen("object")),
      id, most);
  return readEvents(query);
}

Result<std::string> Registry::hashOfEvent(int64_t id) {
  Query query(*database, "SELECT hash FROM event WHERE id = $1", id);
  TENON_ASSIGN(bool isFound, query.next());
  return isFound ? query.text(0) : "";
}

Result<int64_t> Registry::newestEvent() {
  Query query(*database, "SELECT COALESCE(max(id), 0) FROM event");
  TENON_TRY(query.next().takeStatus());
  return query.number(0);
}

} // namespace tenon::registry
