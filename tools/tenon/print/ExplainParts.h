// What the texts of several topics of `tenon explain` are made of.
#pragma once

#include "tools/tenon/print/ExplainText.h"

#include <string>

namespace tenon::tool {

/// The texts of a list, and other values as JSON, with commas between.
std::string joinTexts(const Json &list);

/// "12.34 us", "1.23 ms", "2.34 s".
std::string timeText(double microseconds);

/// What the figures of a record are for, in a sentence or two.
std::string basisText(const Json &record);

/// What the kernels of an invariant engine take beside those that it would have without the flag;
/// empty of another engine.
std::string priceText(const Json &regions);
/// Of a region of an invariant engine: the order of its sums, and its kernel without the flag.
std::string freelyText(const Json &region);

} // namespace tenon::tool
