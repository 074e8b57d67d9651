#include "registry/SqliteDatabase.h"

#include "registry/FolderLock.h"
#include "registry/Schema.h"
#include "support/files/MappedFile.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <span>
#include <thread>
#include <utility>

#include <unistd.h>

namespace tenon::registry {
namespace {

constexpr std::chrono::milliseconds kCopyAgain{5};
/// LIKE tells upper from lower case, as PostgreSQL's does.
constexpr const char *kLike = "PRAGMA case_sensitive_like = ON";

Status describe(int code, const std::string &path, std::string_view said) {
  std::string message = fmt::format("'{}': {}", path, said);
  switch (code & 0xff) {
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return Status::error(ErrorId::RegistryBusy, message,
                         "try again when the other process has finished");
  case SQLITE_NOTADB:
  case SQLITE_CORRUPT:
    return Status::error(ErrorId::BadRegistry, message, "restore the registry from a backup");
  case SQLITE_FULL:
    return Status::error(ErrorId::FileWriteFailed, message, "free space, or move the registry");
  case SQLITE_IOERR:
    return Status::error(ErrorId::FileWriteFailed, message,
                         "check the system's log for disk errors");
  case SQLITE_READONLY:
  case SQLITE_PERM:
  case SQLITE_CANTOPEN:
    return Status::error(
        ErrorId::FileNotPermitted, message,
        "change the permissions of the registry's folder and files, or use another user");
  case SQLITE_NOMEM:
    return Status::error(ErrorId::OutOfMemory, message, "free memory");
  default:
    return Status::error(ErrorId::InternalError, message, "please report it with the command line");
  }
}

/// A prepared statement with its arguments.
class SqliteRows final : public Rows {
public:
  SqliteRows(SqliteDatabase &database, std::string_view statement,
             const std::vector<Value> &arguments)
      : database(database) {
    sqlite3_stmt *made = nullptr;
    failure = sqlite3_prepare_v2(database.handle(), statement.data(),
                                 static_cast<int>(statement.size()), &made, nullptr);
    prepared.reset(made);
    for (size_t i = 0; i < arguments.size() && failure == SQLITE_OK; ++i) {
      bind(static_cast<int>(i) + 1, arguments[i]);
    }
  }

  SqliteRows(SqliteDatabase &database, Status status)
      : database(database), refused(std::move(status)) {}

  Result<bool> next() override {
    TENON_TRY(refused);
    int code = failure == SQLITE_OK ? sqlite3_step(prepared.get()) : failure;
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
      return database.problem();
    }
    return code == SQLITE_ROW;
  }

  int64_t number(int column) const override { return sqlite3_column_int64(prepared.get(), column); }

  double real(int column) const override { return sqlite3_column_double(prepared.get(), column); }

  std::string text(int column) const override {
    const unsigned char *bytes = sqlite3_column_text(prepared.get(), column);
    int size = sqlite3_column_bytes(prepared.get(), column);
    return bytes ? std::string(reinterpret_cast<const char *>(bytes), static_cast<size_t>(size))
                 : std::string();
  }

  bool isNull(int column) const override {
    return sqlite3_column_type(prepared.get(), column) == SQLITE_NULL;
  }

private:
  struct Finalizer {
    void operator()(sqlite3_stmt *statement) const { sqlite3_finalize(statement); }
  };

  /// What is not bound is NULL.
  void bind(int place, const Value &value) {
    if (const int64_t *number = std::get_if<int64_t>(&value)) {
      failure = sqlite3_bind_int64(prepared.get(), place, *number);
    } else if (const double *real = std::get_if<double>(&value)) {
      failure = sqlite3_bind_double(prepared.get(), place, *real);
    } else if (const std::string *text = std::get_if<std::string>(&value)) {
      failure = sqlite3_bind_text64(prepared.get(), place, text->data(), text->size(),
                                    SQLITE_TRANSIENT, SQLITE_UTF8);
    }
  }

  SqliteDatabase &database;
  std::unique_ptr<sqlite3_stmt, Finalizer> prepared;
  int failure = 0; ///< of preparing and binding
  Status refused;
};

} // namespace

Status noRegistry(std::string_view where, std::string_view why) {
  return Status::error(ErrorId::BadRegistry, fmt::format("'{}' {}", where, why),
                       "--registry names another folder; `tenon registry push` creates one");
}

void SqliteDatabase::Closer::operator()(sqlite3 *open) const { sqlite3_close_v2(open); }

Result<std::unique_ptr<SqliteDatabase>>
SqliteDatabase::open(const std::string &folder, bool creates, std::chrono::milliseconds patience) {
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(folder, nullptr, patience));
  database->isForeign = !creates && ::access(folder.c_str(), W_OK) != 0;
  TENON_TRY(database->connect(creates));
  return database;
}

Status SqliteDatabase::connect(bool creates) {
  if (!isForeign || ::access(pathIn(folder).c_str(), R_OK) != 0) {
    return openFile(creates);
  }
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + patience;
  while (true) {
    isCopy = FileStamp::of(pathIn(folder) + "-wal").bytes == 0;
    Status status = isCopy ? copy() : openFile(false);
    if (status.isOk() && !isCopy) {
      status = hasTables().takeStatus(); // from here on the log stays, where there is one
    }
    // Somebody has begun to write just now, or has ended and taken the log away.
    bool passes = status.id() == ErrorId::RegistryBusy || status.id() == ErrorId::FileNotPermitted;
    if (!passes || std::chrono::steady_clock::now() >= end) {
      return status;
    }
    std::this_thread::sleep_for(kCopyAgain);
  }
}

Status SqliteDatabase::openFile(bool creates) {
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
              (creates ? SQLITE_OPEN_CREATE : 0);
  sqlite3 *opened = nullptr;
  int code = sqlite3_open_v2(pathIn(folder).c_str(), &opened, flags, nullptr);
  connection.reset(opened);
  if (code != SQLITE_OK) {
    return describe(code, pathIn(folder), sqlite3_errstr(code));
  }
  sqlite3_busy_timeout(opened, static_cast<int>(patience.count()));
  TENON_TRY(run("PRAGMA journal_mode = WAL"));
  TENON_TRY(run("PRAGMA synchronous = FULL"));
  TENON_TRY(run("PRAGMA foreign_keys = ON"));
  // Whoever wrote the file wrote its schema too: no function of it runs beyond SQLite's own
  // harmless ones.
  TENON_TRY(run("PRAGMA trusted_schema = OFF"));
  return run(kLike);
}

Status SqliteDatabase::copy() {
  std::string path = pathIn(folder);
  FileStamp before = FileStamp::of(path);
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  unsigned char *bytes = static_cast<unsigned char *>(sqlite3_malloc64(file.size() + 1));
  if (!bytes) {
    return describe(SQLITE_NOMEM, path, "out of memory for a copy");
  }
  Status read = file.read(0, std::as_writable_bytes(std::span(bytes, file.size())));
  // Whoever writes has a log that is not empty, until what it has is in the database.
  bool isWhole =
      read.isOk() && FileStamp::of(path) == before && FileStamp::of(path + "-wal").bytes == 0;
  if (!isWhole) {
    sqlite3_free(bytes);
    TENON_TRY(read);
    return Status::error(ErrorId::RegistryBusy, fmt::format("'{}' is being written to", path),
                         "try again when the other process has finished");
  }
  // A copy in memory has no log beside it: the two bytes of the header that say so.
  constexpr size_t kWriteVersion = 18, kReadVersion = 19;
  if (file.size() > kReadVersion) {
    bytes[kWriteVersion] = bytes[kReadVersion] = 1;
  }
  sqlite3 *opened = nullptr;
  int code =
      sqlite3_open_v2(":memory:", &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE, nullptr);
  connection.reset(opened);
  sqlite3_int64 size = static_cast<sqlite3_int64>(file.size());
  code = code == SQLITE_OK
             ? sqlite3_deserialize(opened, "main", bytes, size, size,
                                   SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY)
             : code;
  if (code != SQLITE_OK) {
    return describe(code, path, sqlite3_errstr(code));
  }
  copied = before;
  TENON_TRY(run("PRAGMA trusted_schema = OFF"));
  return run(kLike);
}

Status SqliteDatabase::refresh() {
  bool isCurrent = !isCopy || sqlite3_get_autocommit(connection.get()) == 0 ||
                   (FileStamp::of(pathIn(folder)) == copied &&
                    FileStamp::of(pathIn(folder) + "-wal").bytes == 0);
  return isCurrent ? Status::ok() : connect(false);
}

Status SqliteDatabase::checkFormat() {
  Query application(*this, "PRAGMA application_id");
  TENON_TRY(application.next().takeStatus());
  Query format(*this, "PRAGMA user_version");
  TENON_TRY(format.next().takeStatus());
  bool isKnown = format.number(0) >= kFirstFormat && format.number(0) <= kFormat;
  if (application.number(0) != kApplication || !isKnown) {
    return noRegistry(folder,
                      application.number(0) != kApplication
                          ? "contains a database that is not a registry"
                          : "is a registry of another format, from another version of Tenon");
  }
  return run(kLaterTables);
}

Result<bool> SqliteDatabase::hasTables() {
  Query tables(*this, "SELECT count(*) FROM sqlite_schema");
  TENON_TRY(tables.next().takeStatus());
  return tables.number(0) != 0;
}

Result<bool> SqliteDatabase::hasTable(const std::string &name) {
  return Query(*this, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = $1", name)
      .next();
}

Status SqliteDatabase::makeTables(int64_t format) {
  TENON_TRY(run(kTables));
  TENON_TRY(run(kLaterTables));
  TENON_TRY(run(kSearchTables));
  TENON_TRY(run(kSqliteRules));
  return format == kFirstFormat ? Status::ok() : raiseFormat();
}

Result<int64_t> SqliteDatabase::format() {
  Query format(*this, "PRAGMA user_version");
  TENON_TRY(format.next().takeStatus());
  return format.number(0);
}

Status SqliteDatabase::raiseFormat() {
  TENON_TRY(run(kTablesOfFormat2));
  return run(kSqliteRulesOfFormat2);
}

Status SqliteDatabase::run(const char *statements) {
  return sqlite3_exec(connection.get(), statements, nullptr, nullptr, nullptr) == SQLITE_OK
             ? Status::ok()
             : problem();
}

std::unique_ptr<Rows> SqliteDatabase::query(std::string_view statement,
                                            std::vector<Value> arguments) {
  Status status = refresh();
  return status.isOk() ? std::make_unique<SqliteRows>(*this, statement, arguments)
                       : std::make_unique<SqliteRows>(*this, std::move(status));
}

Status SqliteDatabase::problem() const {
  return describe(sqlite3_extended_errcode(connection.get()), pathIn(folder),
                  sqlite3_errmsg(connection.get()));
}

Status SqliteDatabase::checkSound() {
  Query check(*this, "PRAGMA integrity_check(1)");
  TENON_TRY(check.next().takeStatus());
  if (check.text(0) != "ok") {
    return Status::error(ErrorId::BadRegistry, fmt::format("'{}': {}", folder, check.text(0)),
                         "restore the registry from a backup");
  }
  sqlite3 *opened = nullptr;
  sqlite3_open(":memory:", &opened);
  SqliteDatabase fresh("", opened, patience);
  TENON_ASSIGN(int64_t format, this->format());
  TENON_TRY(fresh.makeTables(format));
  TENON_ASSIGN(Definitions has, definitions());
  TENON_ASSIGN(Definitions should, fresh.definitions());
  return compareDefinitions(has, should);
}

Result<Definitions> SqliteDatabase::definitions() {
  Definitions found;
  Query query(*this, "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL");
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return found;
    }
    found[fmt::format("{} {}", query.text(0), query.text(1))] = query.text(2);
  }
}

Status SqliteDatabase::columnsOf(const char *statements, Definitions &found) {
  sqlite3 *opened = nullptr;
  sqlite3_open(":memory:", &opened);
  SqliteDatabase fresh("", opened, std::chrono::milliseconds(0));
  TENON_TRY(fresh.run(statements));
  Query columns(fresh, "SELECT t.name, c.name, c.type, c.\"notnull\", c.pk FROM sqlite_schema t, "
                       "pragma_table_info(t.name) c WHERE t.type = 'table' ORDER BY t.name, c.pk");
  std::map<std::string, std::string> primary;
  while (true) {
    TENON_ASSIGN(bool hasRow, columns.next());
    if (!hasRow) {
      break;
    }
    std::string table = columns.text(0), column = columns.text(1);
    bool isKey = columns.number(4) != 0;
    found[fmt::format("column {}.{}", table, column)] =
        fmt::format("{}{}",
                    columns.text(2) == "INTEGER" ? "bigint"
                    : columns.text(2) == "REAL"  ? "double precision"
                                                 : "text",
                    isKey || columns.number(3) ? " NOT NULL" : "");
    if (isKey) {
      primary[table] += (primary[table].empty() ? "" : ", ") + column;
    }
  }
  for (const auto &[table, key] : primary) {
    found[fmt::format("key {} PRIMARY KEY ({})", table, key)] = "";
  }
  Query foreign(fresh, "SELECT t.name, group_concat(k.\"from\", ', '), k.\"table\", "
                       "group_concat(k.\"to\", ', ') FROM sqlite_schema t, "
                       "pragma_foreign_key_list(t.name) k WHERE t.type = 'table' GROUP BY t.name, "
                       "k.id ORDER BY k.seq");
  while (true) {
    TENON_ASSIGN(bool hasRow, foreign.next());
    if (!hasRow) {
      return Status::ok();
    }
    found[fmt::format("key {} FOREIGN KEY ({}) REFERENCES {}({})", foreign.text(0), foreign.text(1),
                      foreign.text(2), foreign.text(3))] = "";
  }
}

Result<FilesLock> SqliteDatabase::lockFiles(LockKind kind) {
  TENON_ASSIGN(FolderLock lock, FolderLock::take(folder + "/lock", kind, patience));
  return FilesLock(std::make_shared<FolderLock>(std::move(lock)));
}

} // namespace tenon::registry
