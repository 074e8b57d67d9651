// SQLite behind Status: a connection, queries with their arguments, transactions. It relies on one thread using a
// connection at a time.

#pragma once

#include "support/Result.h"

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace tenon::registry {

class Database {
public:
  /// Opens the file, or with `creates` makes it; sets the journal to WAL, each commit to a flush of the disk, and waits
  /// for other processes at most so long. TN1001 where it is no database, TN1002 where another process holds it.
  static Result<Database> open(const std::string &path, bool creates, std::chrono::milliseconds patience);

  /// A statement without arguments and results.
  Status run(const char *statement);
  /// Rows that the last statement changed.
  int64_t changes() const;
  /// What SQLite says went wrong last, as an error of Tenon.
  Status problem() const;
  sqlite3 *handle() const { return connection.get(); }

private:
  struct Closer {
    void operator()(sqlite3 *open) const;
  };
  Database(std::string path, sqlite3 *open) : path(std::move(path)), connection(open) {}

  std::string path;
  std::unique_ptr<sqlite3, Closer> connection;
};

/// A prepared statement: Query query(database, "SELECT ... WHERE a = ? AND b = ?", text, number), then next() for each row.
class Query {
public:
  template <typename... Arguments>
  Query(Database &database, std::string_view statement, const Arguments &...arguments) : database(database) {
    prepare(statement);
    (bind(arguments), ...);
  }

  /// Goes to the next row; false after the last.
  Result<bool> next();
  /// For statements without rows.
  Status run() { return next().takeStatus(); }

  int64_t number(int column) const;
  std::string text(int column) const;
  bool isNull(int column) const;

private:
  struct Finalizer {
    void operator()(sqlite3_stmt *statement) const;
  };
  void prepare(std::string_view statement);
  void bind(std::string_view text);
  void bind(std::integral auto number) { bindNumber(static_cast<int64_t>(number)); }
  void bind(const std::optional<int64_t> &number);
  void bindNumber(int64_t number);

  Database &database;
  std::unique_ptr<sqlite3_stmt, Finalizer> prepared;
  int bound = 0;
  int failure = 0; ///< of preparing and binding
};

/// Holds the right to write from its beginning on, and undoes what was not committed.
class Transaction {
public:
  static Result<Transaction> begin(Database &database);
  Transaction(Transaction &&other) noexcept : database(std::exchange(other.database, nullptr)) {}
  ~Transaction();
  Status commit();

private:
  explicit Transaction(Database &database) : database(&database) {}
  Database *database;
};

} // namespace tenon::registry
