// Relies on the words of compiler/graph/RowRules.cpp and PaddingRules.cpp.

#include "tools/tenon/print/RowsText.h"

#include "tools/tenon/print/JsonFields.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace tenon::tool {

using view::visible;

namespace {

Json recordOf(std::string_view record) { return record.empty() ? Json() : parseJson(record); }

/// "node 'x' takes the mean over the rows"
std::string wordsOf(const Json &entry) {
  std::string node = visible(textAt(entry, "node"));
  return fmt::format("{}{}", node.empty() ? "" : fmt::format("node '{}' ", node),
                     textAt(entry, "how"));
}

std::string paddingWords(const Json &dim) {
  if (textAt(dim, "independent") != "true") {
    return fmt::format("reaches {}: {}", visible(textAt(dim, "output")), wordsOf(dim));
  }
  std::vector<std::string> masks;
  const Json fields = fieldAt(dim, "masks");
  for (const auto &[input, value] : fields.items()) {
    masks.push_back(fmt::format("{} is padded with {}", visible(input), dumpJson(value)));
  }
  return masks.empty() ? "reaches no output"
                       : fmt::format("reaches no output where {}", fmt::join(masks, " and "));
}

} // namespace

void addRows(Json &report, std::string_view record) {
  Json rows = recordOf(record);
  report["rows"] = listAt(rows, "outputs");
  report["padding"] = listAt(rows, "padding");
}

std::string rowsText(std::string_view record, std::string_view indent) {
  Json rows = recordOf(record);
  std::string text;
  for (const Json &output : listAt(rows, "outputs")) {
    text += fmt::format("{}rows    {}: {}\n", indent, visible(textAt(output, "name")),
                        textAt(output, "independent") == "true" ? "independent" : wordsOf(output));
  }
  for (const Json &dim : listAt(rows, "padding")) {
    text +=
        fmt::format("{}padding {}: {}\n", indent, visible(textAt(dim, "dim")), paddingWords(dim));
  }
  return text;
}

} // namespace tenon::tool
