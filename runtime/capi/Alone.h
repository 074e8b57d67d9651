// What only one thread at a time may do with an object of the C interface.

#pragma once

#include "support/Status.h"

#include <atomic>
#include <string_view>

namespace tenon::capi {

/// What `work` returns; TN0614 with these texts where another thread is in it already, which would
/// find bindings half written.
template <typename Work>
Status alone(std::atomic_flag &isInUse, std::string_view message, std::string_view hint,
             const Work &work) {
  if (isInUse.test_and_set(std::memory_order_acquire)) {
    return Status::error(ErrorId::RunSessionInUse, message, hint);
  }
  struct Release {
    std::atomic_flag &flag;
    ~Release() { flag.clear(std::memory_order_release); }
  } release{isInUse};
  return work();
}

} // namespace tenon::capi
