// The language of chat templates: the part of Jinja2 that models use, as the environment of
// transformers sets it (trim_blocks, lstrip_blocks, loop controls). Everything else is refused by
// its name and line.
#pragma once

#include "generate/template/Syntax.h"
#include "support/Result.h"

#include <string_view>

namespace tenon::generate::jinja {

/// TN0250 with the line where the template is not understood.
Result<Body> parseTemplate(std::string_view source);

} // namespace tenon::generate::jinja
