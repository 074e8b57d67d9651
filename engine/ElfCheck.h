// Checks a code object before the dynamic loader sees it, which trusts what it reads. Private to
// engine/.

#pragma once

#include "support/ByteSpan.h"
#include "support/Status.h"

namespace tenon::engine {

/// Ok for a 64-bit little-endian shared object whose segments lie inside it and which needs no
/// library, runs no initializer and relocates nothing but itself (TN0515 otherwise).
Status checkCodeObject(Bytes code);

} // namespace tenon::engine
