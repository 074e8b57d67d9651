// Implements the making of C statuses.

#include "runtime/capi/StatusObject.h"

namespace tenon::capi {
namespace {

/// Made when the library is loaded: its texts take memory, which is gone when it is asked for.
tenon_status noMemory = {TENON_EXHAUSTED, true, "TN0901", "",
                         "TN0901: the process is out of memory"};

} // namespace

tenon_status *toC(const Status &status) {
  if (status.isOk()) {
    return nullptr;
  }
  return new tenon_status{static_cast<tenon_code>(status.code()), false, nameOf(status.id()),
                          std::string(status.hint()), status.toString()};
}

tenon_status *outOfMemory() { return &noMemory; }

Status badArgument(std::string_view message) {
  return Status::error(ErrorId::BadArgument, message, "see the headers in include/tenon");
}

} // namespace tenon::capi
