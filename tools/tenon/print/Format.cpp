// Relies on dumpJson, which replaces what is not UTF-8.

#include "tools/tenon/print/Format.h"

#include <fmt/format.h>

namespace tenon::tool {

std::string jsonText(std::string_view schema, Json value) {
  Json whole = {{"schema", fmt::format("tenon.{}/1", schema)}};
  whole.update(value);
  return dumpJson(whole, 2) + "\n";
}

} // namespace tenon::tool
