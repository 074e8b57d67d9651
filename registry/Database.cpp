#include "registry/Database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

namespace tenon::registry {
namespace {

Status describe(int code, const std::string &path, std::string_view said) {
  std::string message = fmt::format("'{}': {}", path, said);
  switch (code & 0xff) {
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return Status::error(ErrorId::RegistryBusy, message, "try again when the other process has ended");
  case SQLITE_NOTADB:
  case SQLITE_CORRUPT:
    return Status::error(ErrorId::BadRegistry, message, "restore the registry from a copy");
  case SQLITE_FULL:
    return Status::error(ErrorId::FileWriteFailed, message, "free space, or move the registry");
  case SQLITE_IOERR:
    return Status::error(ErrorId::FileWriteFailed, message, "look at the system's log for errors of the disk");
  case SQLITE_READONLY:
  case SQLITE_PERM:
  case SQLITE_CANTOPEN:
    return Status::error(ErrorId::FileNotPermitted, message,
                         "change the permissions of the registry's folder and files, or use another user");
  case SQLITE_NOMEM:
    return Status::error(ErrorId::OutOfMemory, message, "free memory");
  default:
    return Status::error(ErrorId::InternalError, message, "please report it with the command line");
  }
}

} // namespace

void Database::Closer::operator()(sqlite3 *open) const { sqlite3_close_v2(open); }

Result<Database> Database::open(const std::string &path, bool creates, std::chrono::milliseconds patience) {
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | (creates ? SQLITE_OPEN_CREATE : 0);
  sqlite3 *opened = nullptr;
  int code = sqlite3_open_v2(path.c_str(), &opened, flags, nullptr);
  Database database(path, opened);
  if (code != SQLITE_OK) {
    return describe(code, path, sqlite3_errstr(code));
  }
  sqlite3_busy_timeout(opened, static_cast<int>(patience.count()));
  TENON_TRY(database.run("PRAGMA journal_mode = WAL"));
  TENON_TRY(database.run("PRAGMA synchronous = FULL"));
  TENON_TRY(database.run("PRAGMA foreign_keys = ON"));
  // Whoever wrote the file wrote its schema too: no function of it runs beyond SQLite's own harmless ones.
  TENON_TRY(database.run("PRAGMA trusted_schema = OFF"));
  return database;
}

Status Database::run(const char *statement) {
  return sqlite3_exec(connection.get(), statement, nullptr, nullptr, nullptr) == SQLITE_OK ? Status::ok() : problem();
}

int64_t Database::changes() const { return sqlite3_changes64(connection.get()); }

Status Database::problem() const {
  return describe(sqlite3_extended_errcode(connection.get()), path, sqlite3_errmsg(connection.get()));
}

void Query::Finalizer::operator()(sqlite3_stmt *statement) const { sqlite3_finalize(statement); }

void Query::prepare(std::string_view statement) {
  sqlite3_stmt *made = nullptr;
  failure = sqlite3_prepare_v2(database.handle(), statement.data(), static_cast<int>(statement.size()), &made, nullptr);
  prepared.reset(made);
}

void Query::bind(std::string_view text) {
  if (failure == SQLITE_OK) {
    failure = sqlite3_bind_text64(prepared.get(), ++bound, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
}

void Query::bindNumber(int64_t number) {
  if (failure == SQLITE_OK) {
    failure = sqlite3_bind_int64(prepared.get(), ++bound, number);
  }
}

void Query::bind(const std::optional<int64_t> &number) {
  if (number) {
    bindNumber(*number);
  } else {
    ++bound; // what is not bound is NULL
  }
}

Result<bool> Query::next() {
  if (failure != SQLITE_OK) {
    return database.problem();
  }
  int code = sqlite3_step(prepared.get());
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    return database.problem();
  }
  return code == SQLITE_ROW;
}

int64_t Query::number(int column) const { return sqlite3_column_int64(prepared.get(), column); }

std::string Query::text(int column) const {
  const unsigned char *bytes = sqlite3_column_text(prepared.get(), column);
  int size = sqlite3_column_bytes(prepared.get(), column);
  return bytes ? std::string(reinterpret_cast<const char *>(bytes), static_cast<size_t>(size)) : std::string();
}

bool Query::isNull(int column) const { return sqlite3_column_type(prepared.get(), column) == SQLITE_NULL; }

Result<Transaction> Transaction::begin(Database &database) {
  TENON_TRY(database.run("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::~Transaction() {
  if (database) {
    static_cast<void>(database->run("ROLLBACK"));
  }
}

Status Transaction::commit() {
  TENON_TRY(database->run("COMMIT"));
  database = nullptr;
  return Status::ok();
}

} // namespace tenon::registry
