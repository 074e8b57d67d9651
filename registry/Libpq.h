// The functions of libpq that the registry calls. The library is opened when the first registry on
// PostgreSQL is, so that neither the programs nor the package need it otherwise.

#pragma once

#include "support/Result.h"

#include <libpq-fe.h>

namespace tenon::registry {

struct Libpq {
  decltype(&::PQconninfoParse) parse;
  decltype(&::PQconninfoFree) freeParsed;
  decltype(&::PQfreemem) freeMemory;
  decltype(&::PQconnectdbParams) connect;
  decltype(&::PQfinish) finish;
  decltype(&::PQstatus) status;
  decltype(&::PQerrorMessage) errorMessage;
  decltype(&::PQsetNoticeProcessor) setNotice;
  decltype(&::PQsendQuery) send;
  decltype(&::PQsendQueryParams) sendWith;
  decltype(&::PQsocket) socket;
  decltype(&::PQconsumeInput) consume;
  decltype(&::PQisBusy) isBusy;
  decltype(&::PQgetResult) getResult;
  decltype(&::PQclear) clear;
  decltype(&::PQresultStatus) resultStatus;
  decltype(&::PQresultErrorField) errorField;
  decltype(&::PQntuples) rows;
  decltype(&::PQgetvalue) value;
  decltype(&::PQgetlength) length;
  decltype(&::PQgetisnull) isNull;

  /// TN0721 where the library is not there or lacks one of them. It stays open to the end of the
  /// process.
  static Result<const Libpq *> open();
};

} // namespace tenon::registry
