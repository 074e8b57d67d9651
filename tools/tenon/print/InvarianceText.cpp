// What `tenon explain kernels` says of `--invariant`. Relies on the record "fusion" having what
// each region would get without it.

#include "tools/tenon/print/ExplainParts.h"
#include "tools/tenon/print/JsonFields.h"

#include <fmt/format.h>

namespace tenon::tool {
namespace {

/// What is predicted of the chosen kernel for the sizes that are shown.
double chosenMicroseconds(const Json &region) {
  for (const Json &candidate : listAt(region, "candidates")) {
    if (textAt(candidate, "verdict") == "chosen") {
      return candidate.value("us", 0.0);
    }
  }
  return 0;
}

} // namespace

std::string priceText(const Json &regions) {
  double own = 0, freely = 0;
  size_t others = 0;
  for (const Json &region : regions) {
    if (Json without = fieldAt(region, "freely"); without.is_object()) {
      own += chosenMicroseconds(region);
      freely += without.value("us", 0.0);
      others += textAt(without, "kernel") != textAt(region, "kernel");
    }
  }
  return freely == 0 ? ""
                     : fmt::format("--invariant: {} for these sizes, {} without it "
                                   "({:+.1f} %); {} of {} regions would have another kernel\n\n",
                                   timeText(own), timeText(freely), 100 * (own / freely - 1),
                                   others, regions.size());
}

std::string freelyText(const Json &region) {
  Json without = fieldAt(region, "freely");
  if (!without.is_object()) {
    return "";
  }
  std::string order;
  for (const Json &candidate : listAt(region, "candidates")) {
    order = textAt(candidate, "verdict") == "chosen" ? textAt(candidate, "order") : order;
  }
  bool isOther = textAt(without, "kernel") != textAt(region, "kernel");
  return fmt::format(
      "  order of sums: {}{}\n", order,
      isOther
          ? fmt::format("; without --invariant {}, {} for {}", textAt(without, "kernel"),
                        timeText(without.value("us", 0.0)), timeText(chosenMicroseconds(region)))
          : "");
}

} // namespace tenon::tool
