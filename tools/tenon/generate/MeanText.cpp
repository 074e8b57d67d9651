// Four digits say more than a text of some thousand tokens tells.
#include "tools/tenon/generate/MeanText.h"

#include <fmt/format.h>

namespace tenon::tool {

std::string intervalText(double value, double low, double high) {
  return fmt::format("{:.4g} ({:.4g} .. {:.4g})", value, low, high);
}

std::string meanText(const generate::Mean &mean) {
  return intervalText(mean.value, mean.low(), mean.high());
}

Json meanJson(const generate::Mean &mean) {
  return {{"mean", mean.value}, {"low", mean.low()}, {"high", mean.high()}};
}

} // namespace tenon::tool
