// The head of a family of metrics. Source: Prometheus' documentation, "Exposition formats".

#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>

namespace tenon::server {

inline void appendMetricHead(std::string &text, std::string_view name, std::string_view type,
                             std::string_view help) {
  fmt::format_to(std::back_inserter(text), "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

} // namespace tenon::server
