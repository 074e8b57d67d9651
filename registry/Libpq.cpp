#include "registry/Libpq.h"

#include "support/SharedLibrary.h"
#include "support/text/Text.h"

namespace tenon::registry {
namespace {

constexpr const char *kLibrary = "libpq.so.5";

struct Opened {
  SharedLibrary library{kLibrary};
  Libpq functions{};
};

Opened openLibrary() {
  Opened opened;
  Libpq &pq = opened.functions;
  opened.library.find(pq.parse, "PQconninfoParse");
  opened.library.find(pq.freeParsed, "PQconninfoFree");
  opened.library.find(pq.freeMemory, "PQfreemem");
  opened.library.find(pq.connect, "PQconnectdbParams");
  opened.library.find(pq.finish, "PQfinish");
  opened.library.find(pq.status, "PQstatus");
  opened.library.find(pq.errorMessage, "PQerrorMessage");
  opened.library.find(pq.setNotice, "PQsetNoticeProcessor");
  opened.library.find(pq.send, "PQsendQuery");
  opened.library.find(pq.sendWith, "PQsendQueryParams");
  opened.library.find(pq.socket, "PQsocket");
  opened.library.find(pq.consume, "PQconsumeInput");
  opened.library.find(pq.isBusy, "PQisBusy");
  opened.library.find(pq.getResult, "PQgetResult");
  opened.library.find(pq.clear, "PQclear");
  opened.library.find(pq.resultStatus, "PQresultStatus");
  opened.library.find(pq.errorField, "PQresultErrorField");
  opened.library.find(pq.rows, "PQntuples");
  opened.library.find(pq.value, "PQgetvalue");
  opened.library.find(pq.length, "PQgetlength");
  opened.library.find(pq.isNull, "PQgetisnull");
  return opened;
}

} // namespace

Result<const Libpq *> Libpq::open() {
  static const Opened opened = openLibrary();
  if (!opened.library.isWhole()) {
    return Status::error(
        ErrorId::LibraryMissing,
        strCat("a registry on PostgreSQL needs ", kLibrary, ", which cannot be opened"),
        "install libpq (Debian: libpq5)");
  }
  return &opened.functions;
}

} // namespace tenon::registry
