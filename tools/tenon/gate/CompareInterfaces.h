// Whether a client of one engine can be a client of another.

#pragma once

#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// What a client of the engine `before` would meet in the engine `after`, a sentence for each port:
/// inputs that are gone, new, of another type or rank or of fewer sizes, and outputs that are gone
/// or other ones. Both are paths. Empty where `after` does for everybody.
Result<std::vector<std::string>> compareInterfaces(const std::string &before,
                                                   const std::string &after);

} // namespace tenon::tool
