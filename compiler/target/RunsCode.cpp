#include "compiler/target/RunsCode.h"

#include <charconv>

namespace tenon::target {

bool runsCodeFor(const Target &gpu, std::string_view arch) {
  constexpr std::string_view start = "sm_";
  if (!gpu.isGpu() || !arch.starts_with(start)) {
    return false;
  }
  std::string_view digits = arch.substr(start.size());
  int number = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  bool isSpecific = end != digits.data() + digits.size();
  return error == std::errc() && (isSpecific ? arch == gpu.variant() : number <= gpu.arch->number);
}

} // namespace tenon::target
