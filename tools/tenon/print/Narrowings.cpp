// Relies on the words of compiler/graph/DimText.h.

#include "tools/tenon/print/Narrowings.h"

#include "tools/view/Escape.h"

#include <fmt/format.h>

namespace tenon::tool {

std::string narrowingText(const pipeline::Narrowing &narrowing) {
  return fmt::format("fewer sizes: {}", view::visible(narrowing.text()));
}

Json narrowedJson(const std::vector<pipeline::Narrowing> &narrowed) {
  Json list = Json::array();
  for (const pipeline::Narrowing &narrowing : narrowed) {
    list.push_back({{"node", narrowing.node}, {"needs", narrowing.needs}});
  }
  return list;
}

} // namespace tenon::tool
