// Reads the record "time" of compiler/dispatch/Records.h.

#include "tools/tenon/print/PartsText.h"

#include "tools/tenon/print/JsonFields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace tenon::tool {

std::string partsText(const Json &candidate) {
  Json time = fieldAt(candidate, "time");
  std::vector<std::string> parts;
  for (const Json &part : listAt(time, "parts")) {
    parts.push_back(fmt::format("{} {:.2f}", textAt(part, "part"), part.value("us", 0.0)));
  }
  if (parts.empty()) {
    return "";
  }
  int64_t blocks = numberAt(time, "blocks"), steps = numberAt(time, "steps");
  std::string grid =
      blocks > 0 ? fmt::format("; {} blocks, {} at once", blocks, numberAt(time, "at_once")) : "";
  std::string pipeline = steps > 0 ? fmt::format(", {} steps each", steps) : "";
  return fmt::format("           {} us{}{}\n", fmt::join(parts, ", "), grid, pipeline);
}

} // namespace tenon::tool
