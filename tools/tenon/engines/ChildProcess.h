// Work in a process of its own, whose memory is not this one's.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"

#include <functional>

namespace tenon::tool {

/// What `work` gives in a copy of this process, which ends with it; the error `silence` where the
/// copy ended without an answer.
Result<Json> inChild(const std::function<Json()> &work, const Status &silence);

/// The answer that makes inChild return this error.
Json describeError(const Status &status);

} // namespace tenon::tool
