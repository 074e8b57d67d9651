// Errors of the system at files as errors of Tenon, so that a lack of rights, of descriptors, of
// memory or of space is never told as a missing file. It relies on errno values only.

#pragma once

#include "support/Status.h"

#include <string>
#include <string_view>

namespace tenon {

/// `error` (an errno) came from opening `path` for reading.
Status openError(int error, const std::string &path);
/// `error` came from doing `what` ("create", "write") to the output `path`.
Status writeError(int error, std::string_view what, const std::string &path);

} // namespace tenon
