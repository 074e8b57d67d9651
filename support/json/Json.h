// JSON that keeps the order in which keys were written, read and written by functions of one file:
// the parser and the serializer of nlohmann-json take most of the time of a file that instantiates
// them. Files that only name a value need no more than this header.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace tenon {

using Json = nlohmann::ordered_json;

/// The value that is the whole of `text`; discarded (Json::is_discarded) where the text is no JSON.
/// The last of equal keys counts. The time grows with the length of the text alone, as with all
/// readers here.
Json parseJson(std::string_view text);

/// The text of a value: one line, or lines that `indent` spaces a level indent. What is no UTF-8 in
/// it becomes U+FFFD.
std::string dumpJson(const Json &value, int indent = -1);
/// The same in ASCII, where other characters are escaped.
std::string dumpAscii(const Json &value);
/// One line; nothing where the value holds text that is no UTF-8.
std::optional<std::string> dumpUtf8(const Json &value);

} // namespace tenon
