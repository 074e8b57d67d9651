#include "registry/Libpq.h"

#include "support/text/Text.h"

#include <dlfcn.h>

#include <type_traits>

namespace tenon::registry {
namespace {

constexpr const char *kLibrary = "libpq.so.5";

struct Opened {
  Libpq functions{};
  bool isWhole = false;
};

Opened openLibrary() {
  Opened opened;
  void *library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  opened.isWhole = library != nullptr;
  auto find = [&](auto &member, const char *symbol) {
    member = library ? reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, symbol)) : nullptr;
    opened.isWhole = opened.isWhole && member;
  };
  Libpq &pq = opened.functions;
  find(pq.parse, "PQconninfoParse");
  find(pq.freeParsed, "PQconninfoFree");
  find(pq.freeMemory, "PQfreemem");
  find(pq.connect, "PQconnectdbParams");
  find(pq.finish, "PQfinish");
  find(pq.status, "PQstatus");
  find(pq.errorMessage, "PQerrorMessage");
  find(pq.setNotice, "PQsetNoticeProcessor");
  find(pq.send, "PQsendQuery");
  find(pq.sendWith, "PQsendQueryParams");
  find(pq.socket, "PQsocket");
  find(pq.consume, "PQconsumeInput");
  find(pq.isBusy, "PQisBusy");
  find(pq.getResult, "PQgetResult");
  find(pq.clear, "PQclear");
  find(pq.resultStatus, "PQresultStatus");
  find(pq.errorField, "PQresultErrorField");
  find(pq.rows, "PQntuples");
  find(pq.value, "PQgetvalue");
  find(pq.length, "PQgetlength");
  find(pq.isNull, "PQgetisnull");
  return opened;
}

} // namespace

Result<const Libpq *> Libpq::open() {
  static const Opened opened = openLibrary();
  if (!opened.isWhole) {
    return Status::error(ErrorId::LibraryMissing, strCat("a registry on PostgreSQL needs ", kLibrary, ", which cannot be opened"),
                         "install libpq (Debian: libpq5)");
  }
  return &opened.functions;
}

} // namespace tenon::registry
