// The tables, keys and triggers of a registry in PostgreSQL: making them, and looking whether they
// are still those.

#include "registry/PostgresDatabase.h"
#include "registry/Schema.h"
#include "registry/SqliteDatabase.h"

#include <fmt/format.h>

#include <span>

namespace tenon::registry {
namespace {

/// What the trigger function of the schema does.
constexpr const char *kNeverChanges =
    "BEGIN RAISE EXCEPTION 'versions and the history never change'; END";

/// As PostgreSQL writes them back, which is what `verify` compares.
constexpr const char *kPostgresTriggers[] = {
    "CREATE TRIGGER version_is_immutable BEFORE UPDATE OF object, number, kind, hash, bytes, file, "
    "created, facts, note ON version FOR EACH ROW EXECUTE FUNCTION never_changes()",
    "CREATE TRIGGER version_stays BEFORE DELETE ON version FOR EACH ROW EXECUTE FUNCTION "
    "never_changes()",
    "CREATE TRIGGER versions_stay BEFORE TRUNCATE ON version FOR EACH STATEMENT EXECUTE FUNCTION "
    "never_changes()",
    "CREATE TRIGGER event_is_immutable BEFORE DELETE OR UPDATE ON event FOR EACH ROW EXECUTE "
    "FUNCTION never_changes()",
    "CREATE TRIGGER events_stay BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION "
    "never_changes()",
};

constexpr const char *kPostgresTriggersOfFormat2[] = {
    "CREATE TRIGGER part_is_immutable BEFORE UPDATE OF object, number, path, hash, bytes ON part "
    "FOR EACH ROW EXECUTE FUNCTION never_changes()",
    "CREATE TRIGGER part_stays BEFORE DELETE ON part FOR EACH ROW EXECUTE FUNCTION never_changes()",
    "CREATE TRIGGER parts_stay BEFORE TRUNCATE ON part FOR EACH STATEMENT EXECUTE FUNCTION "
    "never_changes()",
};

void expectTriggers(std::span<const char *const> triggers, Definitions &should) {
  for (const char *trigger : triggers) {
    std::string text = trigger;
    size_t name = std::string_view("CREATE TRIGGER ").size();
    should["trigger " + text.substr(name, text.find(' ', name) - name)] = text;
  }
}

/// What there is in a schema: names and texts, as compareDefinitions takes them.
constexpr const char *kDefinitions[] = {
    "SELECT 'trigger ' || tgname, pg_get_triggerdef(t.oid, true) || CASE WHEN tgenabled = 'O' THEN "
    "'' ELSE ', which is off' END FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid JOIN "
    "pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND NOT tgisinternal",
    "SELECT 'function ' || proname, prosrc FROM pg_proc JOIN pg_namespace n ON n.oid = "
    "pronamespace WHERE nspname = $1",
    "SELECT 'view ' || viewname, '' FROM pg_views WHERE schemaname = $1",
    "SELECT 'column ' || relname || '.' || attname, format_type(atttypid, atttypmod) || CASE WHEN "
    "attnotnull THEN ' NOT NULL' ELSE '' END FROM pg_attribute a JOIN pg_class c ON c.oid = "
    "attrelid JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND relkind = 'r' AND "
    "attnum > 0 AND NOT attisdropped",
    "SELECT 'key ' || relname || ' ' || replace(pg_get_constraintdef(k.oid), '\"', ''), CASE WHEN "
    "convalidated THEN '' ELSE 'not validated' END FROM pg_constraint k JOIN pg_class c ON c.oid = "
    "conrelid JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND contype IN ('p', "
    "'f')",
};

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// Names are compared byte by byte, as SQLite does it.
std::string inPostgres(const char *tables) {
  std::string text = replaced(tables, ") STRICT, WITHOUT ROWID;", ");");
  text = replaced(std::move(text), ") STRICT;", ");");
  text = replaced(std::move(text), " INTEGER", " BIGINT");
  text = replaced(std::move(text), " REAL", " DOUBLE PRECISION");
  return replaced(std::move(text), " TEXT", " TEXT COLLATE \"C\"");
}

} // namespace

Status PostgresDatabase::makeTables(const std::string &blobs) {
  TENON_ASSIGN(Transaction transaction, Transaction::begin(*this));
  TENON_TRY(run(fmt::format("CREATE SCHEMA IF NOT EXISTS {}", address.schema).c_str()));
  Query present(*this, "SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'registry'",
                address.schema);
  TENON_ASSIGN(bool isThere, present.next());
  if (isThere) { // somebody else was first
    return Status::ok();
  }
  TENON_TRY(define(kTables));
  TENON_TRY(define(kLaterTables));
  TENON_TRY(define(kSearchTables));
  TENON_TRY(run(fmt::format("CREATE FUNCTION never_changes() RETURNS trigger LANGUAGE plpgsql AS "
                            "$${}$$",
                            kNeverChanges)
                    .c_str()));
  for (const char *trigger : kPostgresTriggers) {
    TENON_TRY(run(trigger));
  }
  TENON_TRY(run(
      inPostgres("CREATE TABLE registry (format INTEGER NOT NULL, blobs TEXT NOT NULL)").c_str()));
  TENON_TRY(Query(*this, "INSERT INTO registry VALUES ($1, $2)", kFirstFormat, blobs).run());
  TENON_TRY(raiseFormat());
  return transaction.commit();
}

Result<int64_t> PostgresDatabase::format() {
  Query query(*this, "SELECT format FROM registry");
  TENON_TRY(query.next().takeStatus());
  return query.number(0);
}

Status PostgresDatabase::raiseFormat() {
  TENON_TRY(run(inPostgres(kTablesOfFormat2).c_str()));
  for (const char *trigger : kPostgresTriggersOfFormat2) {
    TENON_TRY(run(trigger));
  }
  return Query(*this, "UPDATE registry SET format = $1", kFormat).run();
}

Result<bool> PostgresDatabase::hasTable(const std::string &name) {
  return Query(*this, "SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = $2",
               address.schema, name)
      .next();
}

Status PostgresDatabase::define(const char *statements) {
  return run(inPostgres(statements).c_str());
}

Status PostgresDatabase::readDefinitions(const char *statement, Definitions &found) {
  Query query(*this, statement, address.schema);
  std::string prefix = address.schema + ".";
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return Status::ok();
    }
    found[replaced(query.text(0), prefix, "")] = replaced(query.text(1), prefix, "");
  }
}

Status PostgresDatabase::checkSound() {
  Definitions has, should;
  for (const char *statement : kDefinitions) {
    TENON_TRY(readDefinitions(statement, has));
  }
  // Columns and keys, of the same text that SQLite is told.
  std::string tables = std::string(kTables) + kLaterTables + kSearchTables;
  TENON_TRY(SqliteDatabase::columnsOf(tables.c_str(), should));
  expectTriggers(kPostgresTriggers, should);
  TENON_ASSIGN(int64_t format, this->format());
  if (format == kFormat) {
    TENON_TRY(SqliteDatabase::columnsOf(kTablesOfFormat2, should));
    expectTriggers(kPostgresTriggersOfFormat2, should);
  }
  should["function never_changes"] = kNeverChanges;
  return compareDefinitions(has, should);
}

} // namespace tenon::registry
