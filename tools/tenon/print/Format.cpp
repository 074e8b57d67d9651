// Relies on dumpJson, which replaces what is not UTF-8.

#include "tools/tenon/print/Format.h"

#include <fmt/format.h>

namespace tenon::tool {

std::string formatBytes(uint64_t bytes) {
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  double value = static_cast<double>(bytes) / 1024;
  for (const char *unit : {"KiB", "MiB", "GiB"}) {
    if (value < 1024 || unit[0] == 'G') {
      return fmt::format("{:.1f} {}", value, unit);
    }
    value /= 1024;
  }
  return "";
}

std::string jsonText(std::string_view schema, Json value) {
  Json whole = {{"schema", fmt::format("tenon.{}/1", schema)}};
  whole.update(value);
  return dumpJson(whole, 2) + "\n";
}

} // namespace tenon::tool
