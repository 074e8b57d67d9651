// Checks the code of a variant for a GPU before the driver sees it. Private to engine/.

#pragma once

#include "support/Status.h"
#include "support/memory/ByteSpan.h"

#include <string_view>

namespace tenon::engine {

/// Ok for printable text ended by its only zero byte that starts with `.version`, is for `target`
/// ("sm_90") and calls no function from outside (TN0515 otherwise).
Status checkPtx(Bytes code, std::string_view target);

/// Ok for a 64-bit ELF file of NVIDIA's machine that belongs to a variant of the level `target`
/// (TN0515 otherwise). What is in it, the driver checks.
Status checkCubin(Bytes cubin, std::string_view target);

} // namespace tenon::engine
