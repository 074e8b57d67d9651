// Python's pickles, looked at without running them: a pickle is a program, and what it can do is
// what it imports.

#pragma once

#include "support/memory/ByteSpan.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::registry {

/// Whether bytes begin as pickles of protocols 2 to 5 do.
bool beginsPickle(Bytes bytes);

/// The names that a pickle imports ("os.system"), or none where the bytes are no whole pickle of
/// protocols 2 to 5. A name that is put together at load time is "?".
std::optional<std::vector<std::string>> importsOfPickle(Bytes bytes);

/// Whether the bytes are a pickle that imports anything but what tensors are made of. Numbers and
/// text that happen to begin as a pickle does are none.
bool isUnsafePickle(Bytes bytes);

} // namespace tenon::registry
