// Errors as Triton has them, made of those of the runtime and of this backend: the text begins with
// the number.

#pragma once

#include "bindings/triton/Triton.h"
#include "support/Status.h"
#include "tenon/tenon.h"

#include <memory>
#include <string_view>

namespace tenon::triton {

struct DeleteError {
  void operator()(TRITONSERVER_Error *error) const { TRITONSERVER_ErrorDelete(error); }
};
/// Null where all went well.
using Error = std::unique_ptr<TRITONSERVER_Error, DeleteError>;

inline Error take(Error error) { return error; }
inline Error take(TRITONSERVER_Error *error) { return Error(error); }
/// Destroys the status.
Error take(tenon_status *status);
Error fail(ErrorId id, std::string_view message, std::string_view hint = {});

} // namespace tenon::triton

/// Returns the error of `expression`, if it is one, from the calling function.
#define TRITON_TRY(expression)                                                                     \
  do {                                                                                             \
    if (::tenon::triton::Error tritonTried = ::tenon::triton::take(expression)) {                  \
      return tritonTried;                                                                          \
    }                                                                                              \
  } while (false)
