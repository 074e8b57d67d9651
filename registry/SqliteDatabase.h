// SQLite as a registry's database: DIR/registry.db, with DIR/lock for the files.

#pragma once

#include "registry/Database.h"
#include "support/files/FileStamp.h"

struct sqlite3;

namespace tenon::registry {

class SqliteDatabase final : public Database {
public:
  /// Opens DIR/registry.db, or with `creates` makes it; sets the journal to WAL, each commit to a
  /// flush of the disk, and waits for other processes at most so long. TN1001 where it is no
  /// database, TN1002 where another process holds it.
  static Result<std::unique_ptr<SqliteDatabase>> open(const std::string &folder, bool creates,
                                                      std::chrono::milliseconds patience);
  static std::string pathIn(const std::string &folder) { return folder + "/registry.db"; }

  /// TN1001 unless it is a registry of a format that is known.
  Status checkFormat();
  /// Makes the tables where there are none yet.
  Result<bool> hasTables();
  Status makeTables(int64_t format);

  Status run(const char *statements) override;
  std::unique_ptr<Rows> query(std::string_view statement, std::vector<Value> arguments) override;
  Status beginWriting() override { return run("BEGIN IMMEDIATE"); }
  Status beginReading() override { return run("BEGIN"); }
  Status commit() override { return run("COMMIT"); }
  void rollback() override { static_cast<void>(run("ROLLBACK")); }
  Result<int64_t> format() override;
  Status raiseFormat() override;
  Status checkSound() override;
  /// As SQLite keeps them.
  Result<Definitions> definitions();
  /// Columns and keys of the tables that the statements make, in PostgreSQL's words: one text of
  /// the schema holds for both.
  static Status columnsOf(const char *statements, Definitions &found);
  Result<FilesLock> lockFiles(LockKind kind) override;
  Result<bool> hasTable(const std::string &name) override;

  /// What SQLite says went wrong last, as an error of Tenon.
  Status problem() const;
  sqlite3 *handle() const { return connection.get(); }

private:
  struct Closer {
    void operator()(sqlite3 *open) const;
  };
  SqliteDatabase(std::string folder, sqlite3 *open, std::chrono::milliseconds patience)
      : folder(std::move(folder)), connection(open), patience(patience) {}

  Status connect(bool creates);
  Status openFile(bool creates);
  /// Reads the whole database, for a user who cannot write beside it, as SQLite does to read it.
  /// TN1002 where somebody writes just then, which `connect` waits for.
  Status copy();
  /// Copies it again where it has changed.
  Status refresh();

  std::string folder;
  std::unique_ptr<sqlite3, Closer> connection;
  std::chrono::milliseconds patience;
  bool isForeign = false; ///< this user may not write to the folder
  bool isCopy = false;
  FileStamp copied; ///< of the database, when it was
};

/// TN1001 for what is at `where`: "is no registry", "does not exist".
Status noRegistry(std::string_view where, std::string_view why);

} // namespace tenon::registry
