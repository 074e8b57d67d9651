// Implements filling a template.

#include "tools/view/Page.h"

namespace tenon::view {

std::string fillPage(std::string_view page,
                     const std::vector<std::pair<std::string_view, std::string>> &marks) {
  std::string filled;
  for (const auto &[mark, text] : marks) {
    size_t at = page.find(mark);
    filled += page.substr(0, at);
    filled += text;
    page.remove_prefix(at + mark.size());
  }
  filled += page;
  return filled;
}

} // namespace tenon::view
