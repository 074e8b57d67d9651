// A file of text that a verb writes beside what it prints.

#pragma once

#include "support/Status.h"

#include <string>

namespace tenon::tool {

/// All of the text, or nothing: what was at `path` stays where writing fails.
Status writeTextFile(const std::string &path, const std::string &text);

} // namespace tenon::tool
