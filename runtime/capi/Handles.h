// The C interface for C++ of this tree, which links it in: who owns a handle, and errors as Status.
#pragma once

#include "support/Status.h"
#include "tenon/tenon.h"

#include <memory>

namespace tenon::capi {

struct Destroy {
  void operator()(tenon_engine *engine) const { tenon_engine_destroy(engine); }
  void operator()(tenon_session *session) const { tenon_session_destroy(session); }
};
using EngineHandle = std::unique_ptr<tenon_engine, Destroy>;
using SessionHandle = std::unique_ptr<tenon_session, Destroy>;

/// What a call of the C interface gave, as a Status; frees it.
Status takeStatus(tenon_status *status);

} // namespace tenon::capi
