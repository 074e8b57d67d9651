// Errors that come as their number: from another process, or through the C interface.
#pragma once

#include "support/Status.h"

#include <cstdint>

namespace tenon {

/// The error with this number; InternalError for a number that no error has.
ErrorId errorNumbered(uint64_t number);

} // namespace tenon
