// Errors of their own rows first, then the class of the error.

#include "server/protocol/ErrorMap.h"

#include "server/protocol/JsonText.h"

namespace tenon::server {
namespace {

enum Grpc : unsigned {
  InvalidArgument = 3,
  DeadlineExceeded = 4,
  NotFound = 5,
  PermissionDenied = 7,
  ResourceExhausted = 8,
  FailedPrecondition = 9,
  Aborted = 10,
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14,
  Unauthenticated = 16,
};

struct Row {
  ErrorId id;
  WireStatus status;
};

constexpr Row kRows[] = {
    {ErrorId::RequestTooLarge, {413, ResourceExhausted}},
    {ErrorId::NoSuchRoute, {404, Unimplemented}},
    {ErrorId::NoSuchModel, {404, NotFound}},
    {ErrorId::ModelNotReady, {503, Unavailable}},
    {ErrorId::QueueFull, {429, ResourceExhausted}},
    {ErrorId::RequestTimedOut, {504, DeadlineExceeded}},
    {ErrorId::WorkerLost, {500, Internal}},
    {ErrorId::NotAuthenticated, {401, Unauthenticated}},
    {ErrorId::NotAuthorized, {403, PermissionDenied}},
    {ErrorId::ServerStopping, {503, Unavailable}},
    {ErrorId::NotServed, {501, Unimplemented}},
    {ErrorId::BadEncoding, {415, Unimplemented}},
    {ErrorId::ClientTooSlow, {408, DeadlineExceeded}},
    {ErrorId::ModelQuarantined, {503, FailedPrecondition}},
    {ErrorId::RunOutOfMemory, {503, ResourceExhausted}},
    {ErrorId::CrossSiteRequest, {403, PermissionDenied}},
    {ErrorId::NoSuchObject, {404, NotFound}},
    {ErrorId::RegistryTokenWrong, {403, PermissionDenied}},
    {ErrorId::RegistryBusy, {503, Unavailable}},
    {ErrorId::AliasMoved, {409, Aborted}},
    {ErrorId::GateRefused, {409, FailedPrecondition}},
    {ErrorId::GateUndecided, {409, FailedPrecondition}},
    {ErrorId::NoSuchPrediction, {404, NotFound}},
};

} // namespace

WireStatus wireStatusOf(ErrorId id) {
  for (const Row &row : kRows) {
    if (row.id == id) {
      return row.status;
    }
  }
  switch (codeOf(id)) {
  case Code::Ok:
    return {200, 0};
  case Code::Usage:
  case Code::BadInput:
    return {400, InvalidArgument};
  case Code::Unsupported:
    return {400, FailedPrecondition};
  case Code::Exhausted:
    return {503, ResourceExhausted};
  case Code::CheckFailed:
  case Code::Device:
  case Code::Internal:
    break;
  }
  return {500, Internal};
}

std::string_view reasonOf(unsigned http) {
  switch (http) {
  case 200:
    return "OK";
  case 400:
    return "Bad Request";
  case 401:
    return "Unauthorized";
  case 403:
    return "Forbidden";
  case 404:
    return "Not Found";
  case 408:
    return "Request Timeout";
  case 409:
    return "Conflict";
  case 413:
    return "Content Too Large";
  case 415:
    return "Unsupported Media Type";
  case 429:
    return "Too Many Requests";
  case 500:
    return "Internal Server Error";
  case 501:
    return "Not Implemented";
  case 503:
    return "Service Unavailable";
  case 504:
    return "Gateway Timeout";
  default:
    return "";
  }
}

std::string errorBody(const Status &status) {
  std::string body = "{\"error\":";
  appendJsonString(body, status.toString());
  return body + "}";
}

} // namespace tenon::server
