// Pages of one file that need no network: a template with style, data and scripts put in.

#pragma once

#include "tools/view/Graph.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::view {

/// The template has each mark once, in this order; what is put in is not searched for marks.
std::string fillPage(std::string_view page,
                     const std::vector<std::pair<std::string_view, std::string>> &marks);

/// What `tenon quantize` did to a model: tenon.quantize/1, with `cost` where both models were
/// measured.
std::string renderQuantizeReport(Json info);

} // namespace tenon::view
