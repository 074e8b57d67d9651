// What a tenon_status is, and how the C interfaces make one. Both libraries include this, so that
// tenon_status_destroy of one frees what the other made; they are of the same release.

#pragma once

#include "tenon/tenon.h"

#include "support/Status.h"

#include <exception>
#include <string>

struct tenon_status {
  tenon_code code;
  bool isStatic;
  std::string id;
  std::string hint;
  std::string text;
};

namespace tenon::capi {

/// NULL when ok.
tenon_status *toC(const Status &status);
/// What there is when there is no memory to describe an error; never freed.
tenon_status *outOfMemory();
Status badArgument(std::string_view message);

/// Runs fn, which returns a Status, and turns what it returns or throws into a C status.
template <typename Fn> tenon_status *guarded(const Fn &fn) {
  try {
    return toC(fn());
  } catch (const std::exception &) {
    // Not only bad_alloc: length_error and the like also mean that more was asked for than can be
    // had.
    return outOfMemory();
  }
}

} // namespace tenon::capi
