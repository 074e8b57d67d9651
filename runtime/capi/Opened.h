// What a handle of the C interface stands for, for programs of this tree that link the runtime in.
#pragma once

#include "runtime/core/Engine.h"
#include "tenon/tenon.h"

namespace tenon::capi {

/// Lives as long as the handle.
const runtime::Engine &engineOf(const tenon_engine &opened);

} // namespace tenon::capi
