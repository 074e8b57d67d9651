// The architectures of an engine's variants, for those who must know where an engine runs and do
// not open it.

#pragma once

#include "engine/Level.h"
#include "support/Result.h"

#include <vector>

namespace tenon::engine {

/// Reads header, section table and manifest of the file behind `descriptor`, which may be anything;
/// the rest is neither read nor checked. Moves no file offset.
Result<std::vector<Architecture>> readArchitectures(int descriptor);

} // namespace tenon::engine
