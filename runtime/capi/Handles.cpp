// Relies on the form of tenon_status_text: "TN0603: message (hint)".
#include "runtime/capi/Handles.h"

#include "support/ErrorNumber.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace tenon::capi {

Status takeStatus(tenon_status *status) {
  if (!status) {
    return Status::ok();
  }
  std::string_view id = tenon_status_id(status), hint = tenon_status_hint(status),
                   text = tenon_status_text(status);
  uint64_t number = id.size() > 2 ? std::strtoull(id.data() + 2, nullptr, 10) : 0;
  std::string_view message = text.substr(std::min(text.size(), id.size() + 2));
  if (!hint.empty() && message.size() > hint.size() + 3) {
    message.remove_suffix(hint.size() + 3);
  }
  Status result = Status::error(errorNumbered(number), message, hint);
  tenon_status_destroy(status);
  return result;
}

} // namespace tenon::capi
