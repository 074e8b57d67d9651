#include "registry/PostgresDatabase.h"

#include "registry/Schema.h"
#include "registry/Sha256.h"
#include "registry/SqliteDatabase.h"
#include "support/text/Printable.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include <poll.h>

namespace tenon::registry {
namespace {

constexpr Oid kText = 25, kBigint = 20,
              kDouble = 701; // of PostgreSQL's catalogue, the same in each version

std::string oneLine(std::string_view text) {
  return withoutControls(text.substr(0, text.find('\n')));
}

} // namespace

/// The rows of a reply, which is asked for when the first is.
class PostgresRows final : public Rows {
public:
  PostgresRows(PostgresDatabase &database, std::string_view statement, std::vector<Value> arguments)
      : database(database), statement(statement), arguments(std::move(arguments)) {}

  Result<bool> next() override {
    if (!reply) {
      TENON_ASSIGN(reply, database.execute(statement, arguments));
    }
    return ++row < database.pq.rows(reply.get());
  }
  int64_t number(int column) const override {
    std::string digits = text(column);
    int64_t number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return number;
  }
  double real(int column) const override { return std::strtod(text(column).c_str(), nullptr); }
  std::string text(int column) const override {
    return {database.pq.value(reply.get(), row, column),
            static_cast<size_t>(database.pq.length(reply.get(), row, column))};
  }
  bool isNull(int column) const override {
    return database.pq.isNull(reply.get(), row, column) != 0;
  }

private:
  PostgresDatabase &database;
  const std::string statement;
  const std::vector<Value> arguments;
  std::shared_ptr<PGresult> reply;
  int row = -1;
};

Result<std::unique_ptr<PostgresDatabase>>
PostgresDatabase::open(PostgresAddress address, std::chrono::milliseconds patience) {
  TENON_ASSIGN(const Libpq *pq, Libpq::open());
  std::unique_ptr<PostgresDatabase> database(
      new PostgresDatabase(*pq, std::move(address), patience));
  TENON_TRY(database->connect());
  return database;
}

int64_t PostgresDatabase::keyOf(std::string_view what) const {
  constexpr size_t kDigits = 15; // 60 bits
  return std::stoll(
      sha256Of(fmt::format("tenon registry {} {}", address.schema, what)).substr(0, kDigits),
      nullptr, 16);
}

Status PostgresDatabase::lost(std::string_view why) {
  Status status =
      Status::error(ErrorId::StoreFailed, fmt::format("'{}': {}", address.shown, oneLine(why)),
                    "check that the database server is running and can be reached from here");
  connection.reset(); // with the text that `why` may be
  return status;
}

Status PostgresDatabase::connect() {
  std::vector<const char *> keys, values;
  for (const auto &[key, value] : address.parameters) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  keys.push_back(nullptr);
  values.push_back(nullptr);
  ++connections;
  connection.reset(pq.connect(keys.data(), values.data(), 0));
  if (!isAlive()) {
    return lost(connection ? pq.errorMessage(connection.get()) : "out of memory for a connection");
  }
  pq.setNotice(connection.get(), [](void *, const char *) {}, nullptr);
  // A client that stands still in a transaction would keep all others from writing: the server ends
  // it.
  std::string settings = fmt::format("SET search_path TO {0}; SET lock_timeout TO {1}; SET "
                                     "idle_in_transaction_session_timeout TO {2}; "
                                     "SELECT set_config('synchronous_commit', 'on', false) WHERE "
                                     "current_setting('synchronous_commit') IN ('off', 'local')",
                                     address.schema, patience.count(), 3 * patience.count());
  return executeOnce(settings, {}).takeStatus();
}

Status PostgresDatabase::ensure() {
  if (isAlive()) {
    return Status::ok();
  }
  return mayConnect() ? connect() : lost("the connection was lost");
}

Status PostgresDatabase::wait() {
  // A server that answers nothing for so long is given up.
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + 3 * patience;
  while (pq.isBusy(connection.get())) {
    int64_t left = std::chrono::duration_cast<std::chrono::milliseconds>(
                       end - std::chrono::steady_clock::now())
                       .count();
    pollfd input = {pq.socket(connection.get()), POLLIN, 0};
    int ready = left > 0 ? ::poll(&input, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      return lost(ready == 0 ? fmt::format("no answer within {} s", 3 * patience.count() / 1000)
                             : std::strerror(errno));
    }
    if (!pq.consume(connection.get())) {
      return lost(pq.errorMessage(connection.get()));
    }
  }
  return Status::ok();
}

Result<PostgresDatabase::Reply> PostgresDatabase::executeOnce(const std::string &statement,
                                                              const std::vector<Value> &arguments) {
  std::vector<std::string> texts(arguments.size());
  std::vector<Oid> types;
  std::vector<const char *> values;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const int64_t *number = std::get_if<int64_t>(&arguments[i]);
    const std::string *text = std::get_if<std::string>(&arguments[i]);
    const double *real = std::get_if<double>(&arguments[i]);
    texts[i] = number ? std::to_string(*number)
               : real ? fmt::format("{}", *real)
               : text ? *text
                      : "";
    types.push_back(text ? kText : real ? kDouble : kBigint);
    values.push_back(number || real || text ? texts[i].c_str() : nullptr);
  }
  int sent = arguments.empty() ? pq.send(connection.get(), statement.c_str())
                               : pq.sendWith(connection.get(), statement.c_str(),
                                             static_cast<int>(arguments.size()), types.data(),
                                             values.data(), nullptr, nullptr, 0);
  if (!sent) {
    return lost(pq.errorMessage(connection.get()));
  }
  Reply last;
  Status failure;
  while (true) {
    TENON_TRY(wait());
    PGresult *result = pq.getResult(connection.get());
    if (!result) {
      break;
    }
    last = Reply(result, pq.clear);
    ExecStatusType status = pq.resultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
      failure = describe(*result);
    }
  }
  if (!isAlive()) {
    return lost(failure.isOk() ? "the connection was lost" : failure.message());
  }
  TENON_TRY(failure);
  return last;
}

Result<PostgresDatabase::Reply> PostgresDatabase::execute(const std::string &statement,
                                                          const std::vector<Value> &arguments) {
  bool hadConnection = isAlive();
  TENON_TRY(ensure());
  Result<Reply> reply = executeOnce(statement, arguments);
  if (reply.isOk() || isAlive() || !hadConnection || !mayConnect()) {
    return reply;
  }
  TENON_TRY(connect());
  return executeOnce(statement, arguments);
}

Status PostgresDatabase::describe(const PGresult &result) const {
  auto field = [&](int code) {
    const char *text = pq.errorField(&result, code);
    return std::string(text ? text : "");
  };
  std::string state = field(PG_DIAG_SQLSTATE), said = oneLine(field(PG_DIAG_MESSAGE_PRIMARY));
  std::string message = fmt::format("'{}': {}{}", address.shown, said,
                                    state.empty() ? "" : fmt::format(" (SQLSTATE {})", state));
  if (state == "55P03") { // lock_not_available
    return Status::error(ErrorId::RegistryBusy, message,
                         "another client has locked the registry: try again when it has finished");
  }
  if (state == "42P01" || state == "3F000") { // no such table or schema
    return noRegistry(address.shown, fmt::format("does not contain a registry in the schema '{}'",
                                                 address.schema));
  }
  if (state == "42501") { // insufficient_privilege
    return Status::error(
        ErrorId::StoreFailed, message,
        "the database's administrator grants it: see docs/guides/registry-at-scale.md");
  }
  return Status::error(ErrorId::StoreFailed, message, "see the log of the database server");
}

Status PostgresDatabase::run(const char *statements) {
  return execute(statements, {}).takeStatus();
}

std::unique_ptr<Rows> PostgresDatabase::query(std::string_view statement,
                                              std::vector<Value> arguments) {
  return std::make_unique<PostgresRows>(*this, statement, std::move(arguments));
}

Status PostgresDatabase::begin(const std::string &statements) {
  Status status = run(statements.c_str());
  inTransaction = status.isOk();
  inDoubt = inDoubt && !inTransaction;
  if (!inTransaction && isAlive()) {
    static_cast<void>(run("ROLLBACK")); // the lock was not to be had
  }
  return status;
}

Status PostgresDatabase::beginWriting() {
  return begin(fmt::format("BEGIN; SELECT pg_advisory_xact_lock({})", keyOf("writer")));
}
Status PostgresDatabase::beginReading() {
  return begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
}

Status PostgresDatabase::commit() {
  Status status = run("COMMIT");
  inDoubt = !status.isOk() && !isAlive();
  inTransaction = inTransaction && !status.isOk() && !inDoubt;
  return status;
}

void PostgresDatabase::rollback() {
  if (isAlive()) {
    static_cast<void>(run("ROLLBACK"));
  }
  inTransaction = false;
}

Result<std::optional<int64_t>> PostgresDatabase::now() {
  Query query(*this, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint");
  TENON_TRY(query.next().takeStatus());
  return std::optional(query.number(0));
}

Result<FilesLock> PostgresDatabase::lockFiles(LockKind kind) {
  const char *shared = kind == LockKind::Shared ? "_shared" : "";
  TENON_TRY(run(fmt::format("SELECT pg_advisory_lock{}({})", shared, keyOf("files")).c_str()));
  ++locks;
  std::string unlock = fmt::format("SELECT pg_advisory_unlock{}({})", shared, keyOf("files"));
  return FilesLock(static_cast<const void *>(this), [this, unlock, on = connections](const void *) {
    if (on == connections && isAlive()) { // else it went with its connection
      static_cast<void>(run(unlock.c_str()));
    }
    --locks;
  });
}

Result<std::string> PostgresDatabase::blobsOf() {
  Query query(*this, "SELECT format, blobs FROM registry");
  TENON_ASSIGN(bool hasRow, query.next());
  bool isKnown = hasRow && query.number(0) >= kFirstFormat && query.number(0) <= kFormat;
  if (!isKnown) {
    return noRegistry(address.shown,
                      "is a registry of another format, from another version of Tenon");
  }
  return query.text(1);
}

} // namespace tenon::registry
