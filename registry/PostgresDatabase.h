// PostgreSQL as a registry's database, in a schema of its own. One writer at a time, as with
// SQLite, by an advisory lock that ends with the transaction; each commit is flushed by the server.
// A connection that was lost is made again before the next query, but not within a transaction, nor
// while a lock on the files hangs on it.

#pragma once

#include "registry/Database.h"
#include "registry/Libpq.h"

namespace tenon::registry {

struct PostgresAddress {
  std::vector<std::pair<std::string, std::string>> parameters; ///< of libpq
  std::string shown;                                           ///< for messages
  std::string schema;
};

class PostgresDatabase final : public Database {
public:
  /// Waits for other clients at most so long, and thrice as long for the server. TN0721, TN1013.
  static Result<std::unique_ptr<PostgresDatabase>> open(PostgresAddress address,
                                                        std::chrono::milliseconds patience);

  /// Where its files are, as makeTables was told. TN1001 where there are no tables, or those of
  /// another format.
  Result<std::string> blobsOf();
  /// Makes schema and tables where there are none, once whoever calls it.
  Status makeTables(const std::string &blobs);

  Status run(const char *statements) override;
  std::unique_ptr<Rows> query(std::string_view statement, std::vector<Value> arguments) override;
  Status beginWriting() override;
  Status beginReading() override;
  Status commit() override;
  void rollback() override;
  bool isInDoubt() const override { return inDoubt; }
  Result<std::optional<int64_t>> now() override;
  Result<int64_t> format() override;
  Status raiseFormat() override;
  /// Its own checksums tell damage at each query.
  Status checkSound() override;
  Result<FilesLock> lockFiles(LockKind kind) override;
  Result<bool> hasTable(const std::string &name) override;
  Status define(const char *statements) override;

private:
  friend class PostgresRows;
  using Reply = std::shared_ptr<PGresult>;

  PostgresDatabase(const Libpq &pq, PostgresAddress address, std::chrono::milliseconds patience)
      : pq(pq), address(std::move(address)), patience(patience), connection(nullptr, pq.finish) {}

  bool isAlive() const { return connection && pq.status(connection.get()) == CONNECTION_OK; }
  /// Whether a new connection loses nothing. After a commit whose end nobody told, it is how that
  /// end is found out.
  bool mayConnect() const { return inDoubt || (!inTransaction && locks == 0); }
  Status connect();
  /// Connects again where it may.
  Status ensure();
  /// One round trip; several statements where there are no arguments, of which the last one's rows
  /// are given. Tried again on a new connection where the one it had turns out to be gone and
  /// nothing hangs on it.
  Result<Reply> execute(const std::string &statement, const std::vector<Value> &arguments);
  Result<Reply> executeOnce(const std::string &statement, const std::vector<Value> &arguments);
  Status wait();
  Status begin(const std::string &statements);
  /// What a statement of the schema's name gives: names and texts.
  Status readDefinitions(const char *statement, Definitions &found);
  Status lost(std::string_view why);
  Status describe(const PGresult &result) const;
  /// The number of an advisory lock of this registry.
  int64_t keyOf(std::string_view what) const;

  const Libpq &pq;
  const PostgresAddress address;
  const std::chrono::milliseconds patience;
  std::unique_ptr<PGconn, decltype(&::PQfinish)> connection;
  int64_t connections = 0; ///< made so far: a lock hangs on one of them
  int locks = 0;           ///< on the files, that somebody holds
  bool inTransaction = false;
  bool inDoubt = false;
};

} // namespace tenon::registry
