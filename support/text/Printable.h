// Text for people without what would steer a terminal or forge a line. It relies on UTF-8.

#pragma once

#include <string>
#include <string_view>

namespace tenon {

/// The text without control characters but those in `kept`: the others are written as \u001B, so
/// that JSON stays JSON. Whoever wrote a model or an engine chose the names in it, which messages
/// repeat.
std::string withoutControls(std::string_view text, std::string_view kept = {});

} // namespace tenon
