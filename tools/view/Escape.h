// Names from model files in texts of other kinds. Whoever wrote the model chose them: they must not
// become markup, nor move a terminal's cursor, nor turn the reading direction round.

#pragma once

#include "tools/view/Graph.h"

#include <string>
#include <string_view>

namespace tenon::view {

/// The text as one line of printable UTF-8: control characters, marks that change the direction,
/// and what has no width are written as \u202E, bytes that are no UTF-8 as U+FFFD.
std::string visible(std::string_view text);
/// Every text in it, names of fields apart.
void makeVisible(Json &json);
/// For the content and the quoted attributes of XML and HTML.
std::string xml(std::string_view text);
/// JSON that can stand in an HTML script element.
std::string scriptJson(const Json &value);
/// The first and last characters with an ellipsis between, `most` in all.
std::string shortened(std::string_view text, size_t most);

/// "1.23 G"; "?" for none.
std::string countText(const std::optional<int64_t> &count);
/// "1.23 G" at the sizes that the graph is shown for.
std::string countText(const Count &count);

} // namespace tenon::view
