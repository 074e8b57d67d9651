// A page with marks, in whose places texts are put. Relies on each mark being there once, in order.

#pragma once

#include <string>
#include <string_view>

namespace tenon::view {

/// What is put in is not searched for marks.
class Template {
public:
  explicit Template(std::string_view source) : rest(source) {}

  void put(std::string_view mark, std::string_view text) {
    size_t at = rest.find(mark);
    page += rest.substr(0, at);
    page += text;
    rest.remove_prefix(at + mark.size());
  }
  std::string finish() { return page + std::string(rest); }

private:
  std::string page;
  std::string_view rest;
};

} // namespace tenon::view
