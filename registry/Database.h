// What a registry asks of its database: queries with arguments, transactions with one writer at a
// time, and a lock on its files. SqliteDatabase and PostgresDatabase do it. One thread uses a
// connection at a time.

#pragma once

#include "support/Result.h"

#include <chrono>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tenon::registry {

/// An argument of a statement; nullptr is NULL.
using Value = std::variant<std::nullptr_t, int64_t, double, std::string>;

/// What a statement gives, row by row.
class Rows {
public:
  virtual ~Rows() = default;
  /// Goes to the next row; false after the last.
  virtual Result<bool> next() = 0;
  virtual int64_t number(int column) const = 0;
  virtual double real(int column) const = 0;
  virtual std::string text(int column) const = 0;
  virtual bool isNull(int column) const = 0;
};

/// What a database has of tables, columns and triggers: "trigger event_stays" and its text.
using Definitions = std::map<std::string, std::string>;
/// TN1011 where one is gone or another one, or where there is a trigger or a view more: these can
/// change what is written and read.
Status compareDefinitions(const Definitions &has, const Definitions &should);

/// Keeps gc away from a registry's files, or everybody else where gc has it; it goes with its last
/// copy, and with the process.
using FilesLock = std::shared_ptr<const void>;
enum class LockKind { Shared, Alone };

class Database {
public:
  virtual ~Database() = default;
  /// Statements without arguments and results.
  virtual Status run(const char *statements) = 0;
  /// Arguments are $1, $2, ... in the order of their first use: so both databases read the same
  /// text.
  virtual std::unique_ptr<Rows> query(std::string_view statement, std::vector<Value> arguments) = 0;

  /// Waits for the right to write; TN1002 after the patience that the database was opened with.
  virtual Status beginWriting() = 0;
  /// All queries until the end see one state.
  virtual Status beginReading() = 0;
  /// On the disk when it returns. TN1013 where the connection was lost, see isInDoubt.
  virtual Status commit() = 0;
  virtual void rollback() = 0;
  /// Whether nobody told how the last commit ended. The next beginWriting returns only when that is
  /// settled.
  virtual bool isInDoubt() const { return false; }

  /// kFirstFormat or kFormat (Schema.h).
  virtual Result<int64_t> format() = 0;
  /// Makes the tables of kFormat, in the transaction that is open.
  virtual Status raiseFormat() = 0;

  /// What time the database's server has, in milliseconds since 1970; none where it has no clock of
  /// its own.
  virtual Result<std::optional<int64_t>> now() { return std::optional<int64_t>(); }

  /// Whether the database itself finds damage in what it keeps, TN1001, and whether its tables,
  /// columns and triggers are those that were made, TN1011.
  virtual Status checkSound() = 0;
  /// TN1002 after the patience.
  virtual Result<FilesLock> lockFiles(LockKind kind) = 0;

  /// Whether it has a table of that name.
  virtual Result<bool> hasTable(const std::string &name) = 0;
  /// Runs statements of Schema.h, in its own types.
  virtual Status define(const char *statements) { return run(statements); }
};

/// A statement: Query query(database, "SELECT ... WHERE a = $1 AND b = $2", text, number), then
/// next() for each row.
class Query {
public:
  template <typename... Arguments>
  Query(Database &database, std::string_view statement, const Arguments &...arguments)
      : Query(database, statement, std::vector<Value>{valueOf(arguments)...}) {}
  Query(Database &database, std::string_view statement, std::vector<Value> arguments)
      : rows(database.query(statement, std::move(arguments))) {}

  /// Goes to the next row; false after the last.
  Result<bool> next() { return rows->next(); }
  /// For statements without rows.
  Status run() { return next().takeStatus(); }

  int64_t number(int column) const { return rows->number(column); }
  double real(int column) const { return rows->real(column); }
  std::string text(int column) const { return rows->text(column); }
  bool isNull(int column) const { return rows->isNull(column); }

private:
  static Value valueOf(std::string_view text) { return std::string(text); }
  static Value valueOf(std::integral auto number) { return static_cast<int64_t>(number); }
  static Value valueOf(double number) { return number; }
  static Value valueOf(const std::optional<int64_t> &number) {
    return number ? Value(*number) : Value(nullptr);
  }

  std::unique_ptr<Rows> rows;
};

/// Holds the right to write from its beginning on, and undoes what was not committed.
class Transaction {
public:
  static Result<Transaction> begin(Database &database) {
    TENON_TRY(database.beginWriting());
    return Transaction(database);
  }
  Transaction(Transaction &&other) noexcept : database(std::exchange(other.database, nullptr)) {}
  ~Transaction() {
    if (database) {
      database->rollback();
    }
  }
  Status commit() {
    Status status = database->commit();
    if (status.isOk()) {
      database = nullptr;
    }
    return status;
  }

private:
  explicit Transaction(Database &database) : database(&database) {}
  Database *database;
};

} // namespace tenon::registry
