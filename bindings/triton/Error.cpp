// One mapping of the classes of errors to Triton's codes, from which Triton makes those of HTTP and
// gRPC.

#include "bindings/triton/Error.h"

#include <string>

namespace tenon::triton {
namespace {

TRITONSERVER_Error_Code codeFor(Code code) {
  switch (code) {
  case Code::Usage:
  case Code::BadInput:
    return TRITONSERVER_ERROR_INVALID_ARG;
  case Code::Unsupported:
    return TRITONSERVER_ERROR_UNSUPPORTED;
  case Code::Exhausted:
    return TRITONSERVER_ERROR_UNAVAILABLE;
  case Code::Ok:
  case Code::CheckFailed:
  case Code::Device:
  case Code::Internal:
    break;
  }
  return TRITONSERVER_ERROR_INTERNAL;
}

} // namespace

Error take(tenon_status *status) {
  if (!status) {
    return nullptr;
  }
  Error error(TRITONSERVER_ErrorNew(codeFor(static_cast<Code>(tenon_status_code(status))),
                                    tenon_status_text(status)));
  tenon_status_destroy(status);
  return error;
}

Error fail(ErrorId id, std::string_view message, std::string_view hint) {
  return Error(TRITONSERVER_ErrorNew(codeFor(codeOf(id)),
                                     Status::error(id, message, hint).toString().c_str()));
}

} // namespace tenon::triton
