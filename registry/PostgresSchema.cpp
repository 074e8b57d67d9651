// The tables, keys and triggers of a registry in PostgreSQL: making them, and looking whether they
// are still those.

#include "registry/PostgresDatabase.h"
#include "registry/Schema.h"
#include "registry/SqliteDatabase.h"

#include <fmt/format.h>

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
  TENON_TRY(run(inPostgres(kTables).c_str()));
  TENON_TRY(run(inPostgres(kLaterTables).c_str()));
  TENON_TRY(run(fmt::format("CREATE FUNCTION never_changes() RETURNS trigger LANGUAGE plpgsql AS "
                            "$${}$$",
                            kNeverChanges)
                    .c_str()));
  for (const char *trigger : kPostgresTriggers) {
    TENON_TRY(run(trigger));
  }
  TENON_TRY(run(
      inPostgres("CREATE TABLE registry (format INTEGER NOT NULL, blobs TEXT NOT NULL)").c_str()));
  TENON_TRY(Query(*this, "INSERT INTO registry VALUES ($1, $2)", kFormat, blobs).run());
  return transaction.commit();
}

Status PostgresDatabase::checkSound() {
  Definitions has, should;
  // Triggers as PostgreSQL writes them, and whether they are on.
  Query triggers(*this,
                 "SELECT tgname, pg_get_triggerdef(t.oid, true), tgenabled::text FROM pg_trigger t "
                 "JOIN pg_class c ON c.oid = tgrelid JOIN pg_namespace n ON n.oid = relnamespace "
                 "WHERE nspname = $1 AND NOT tgisinternal",
                 address.schema);
  while (true) {
    TENON_ASSIGN(bool hasRow, triggers.next());
    if (!hasRow) {
      break;
    }
    std::string text = replaced(triggers.text(1), address.schema + ".", "");
    has["trigger " + triggers.text(0)] = text + (triggers.text(2) == "O" ? "" : ", which is off");
  }
  Query functions(*this,
                  "SELECT proname, prosrc FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace "
                  "WHERE nspname = $1",
                  address.schema);
  while (true) {
    TENON_ASSIGN(bool hasRow, functions.next());
    if (!hasRow) {
      break;
    }
    has["function " + functions.text(0)] = functions.text(1);
  }
  Query views(*this, "SELECT viewname FROM pg_views WHERE schemaname = $1", address.schema);
  while (true) {
    TENON_ASSIGN(bool hasRow, views.next());
    if (!hasRow) {
      break;
    }
    has["view " + views.text(0)] = "";
  }
  // Columns and keys, of the same text that SQLite is told.
  TENON_TRY(readColumns(has));
  TENON_TRY(SqliteDatabase::columnsOf(kTables, should));
  TENON_TRY(SqliteDatabase::columnsOf(kLaterTables, should));
  for (const char *trigger : kPostgresTriggers) {
    std::string text = trigger;
    size_t name = std::string_view("CREATE TRIGGER ").size();
    should["trigger " + text.substr(name, text.find(' ', name) - name)] = text;
  }
  should["function never_changes"] = kNeverChanges;
  return compareDefinitions(has, should);
}

Status PostgresDatabase::readColumns(Definitions &has) {
  Query columns(*this,
                "SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull::int FROM "
                "pg_attribute a JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = "
                "relnamespace WHERE nspname = $1 AND relkind = 'r' AND attnum > 0 AND NOT "
                "attisdropped",
                address.schema);
  while (true) {
    TENON_ASSIGN(bool hasRow, columns.next());
    if (!hasRow) {
      break;
    }
    has[fmt::format("column {}.{}", columns.text(0), columns.text(1))] =
        fmt::format("{}{}", columns.text(2), columns.number(3) ? " NOT NULL" : "");
  }
  Query keys(*this,
             "SELECT relname, contype::text, pg_get_constraintdef(k.oid), convalidated::int FROM "
             "pg_constraint k JOIN pg_class c ON c.oid = conrelid JOIN pg_namespace n ON n.oid = "
             "relnamespace WHERE nspname = $1 AND contype IN ('p', 'f')",
             address.schema);
  while (true) {
    TENON_ASSIGN(bool hasRow, keys.next());
    if (!hasRow) {
      return Status::ok();
    }
    has[fmt::format("key {} {}", keys.text(0),
                    replaced(replaced(keys.text(2), address.schema + ".", ""), "\"", ""))] =
        keys.number(3) ? "" : "not validated";
  }
}

} // namespace tenon::registry
