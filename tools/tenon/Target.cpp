// Implements targets; names that are not built yet are refused as unsupported, unknown ones as usage.

#include "tools/tenon/Target.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace tenon::tool {
namespace {

using engine::CpuLevel;

std::optional<CpuLevel> parseLevel(std::string_view name) {
  if (name == "avx2") {
    return CpuLevel::X86_64_V3;
  }
  return engine::parseCpuLevel(name);
}

} // namespace

Result<std::vector<CpuLevel>> parseTarget(const std::string &target) {
  if (target == "cpu") {
    return std::vector<CpuLevel>{CpuLevel::X86_64_V3, CpuLevel::Avx512, CpuLevel::Avx512VnniBf16};
  }
  constexpr const char *kHint = "use cpu, or some of its levels: cpu:x86-64-v3,avx512,avx512-vnni-bf16";
  if (!target.starts_with("cpu:")) {
    return Status::error(ErrorId::UnsupportedTarget,
                         fmt::format("the target '{}' is not supported", target), kHint);
  }
  std::vector<CpuLevel> levels;
  std::string_view rest = std::string_view(target).substr(4);
  while (true) {
    size_t comma = rest.find(',');
    std::string_view name = rest.substr(0, comma);
    std::optional<CpuLevel> level = parseLevel(name);
    if (!level) {
      return Status::error(ErrorId::UnsupportedTarget,
                           fmt::format("'{}' is not a CPU level that Tenon compiles for", name), kHint);
    }
    levels.push_back(*level);
    if (comma == std::string_view::npos) {
      break;
    }
    rest = rest.substr(comma + 1);
  }
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

} // namespace tenon::tool
