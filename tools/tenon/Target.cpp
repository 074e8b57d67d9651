// Implements targets. A word with a colon, and `cpu` alone, begins a target; a word without one
// goes on with the target before it, so that `cpu:avx2,avx512,cuda:sm_90` needs no other separator.

#include "tools/tenon/Target.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace tenon::tool {
namespace {

using engine::CpuLevel;
using engine::CudaArch;

constexpr const char *kHint =
    "use cpu, some of its levels (cpu:x86-64-v3,avx512,avx512-vnni-bf16), or a GPU's "
    "architecture: cuda:sm_80, sm_89, sm_90, sm_90a, sm_100, sm_100a";

std::optional<CpuLevel> parseLevel(std::string_view name) {
  if (name == "avx2") {
    return CpuLevel::X86_64_V3;
  }
  return engine::parseCpuLevel(name);
}

/// Adds one word of `device` ("cpu" or "cuda") to the targets.
Status addWord(std::string_view device, std::string_view name, Targets &targets) {
  if (device == "cpu") {
    if (std::optional<CpuLevel> level = parseLevel(name)) {
      targets.levels.push_back(*level);
      return Status::ok();
    }
    return Status::error(ErrorId::UnsupportedTarget,
                         fmt::format("'{}' is not a CPU level that Tenon compiles for", name),
                         kHint);
  }
  if (std::optional<CudaArch> arch = engine::parseCudaArch(name); arch && device == "cuda") {
    targets.archs.push_back(*arch);
    return Status::ok();
  }
  std::string text = device.empty() ? std::string(name) : fmt::format("{}:{}", device, name);
  return Status::error(ErrorId::UnsupportedTarget,
                       fmt::format("the target '{}' is not supported", text), kHint);
}

Status addTarget(std::string_view text, Targets &targets) {
  std::string_view device;
  while (true) {
    size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    if (word == "cpu") {
      std::vector<CpuLevel> levels = allLevels();
      targets.levels.insert(targets.levels.end(), levels.begin(), levels.end());
      device = "";
    } else {
      if (size_t colon = word.find(':'); colon != std::string_view::npos) {
        device = word.substr(0, colon);
        word = word.substr(colon + 1);
      }
      TENON_TRY(addWord(device, word, targets));
    }
    if (comma == std::string_view::npos) {
      return Status::ok();
    }
    text = text.substr(comma + 1);
  }
}

} // namespace

std::vector<CpuLevel> allLevels() {
  return {CpuLevel::X86_64_V3, CpuLevel::Avx512, CpuLevel::Avx512VnniBf16};
}

Result<Targets> parseTargets(const std::vector<std::string> &texts) {
  Targets targets;
  for (const std::string &text : texts) {
    TENON_TRY(addTarget(text, targets));
  }
  std::vector<CpuLevel> &levels = targets.levels;
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  std::vector<CudaArch> archs;
  for (const CudaArch &arch : engine::kCudaArchs) {
    if (std::any_of(targets.archs.begin(), targets.archs.end(),
                    [&](const CudaArch &asked) { return asked.name == arch.name; })) {
      archs.push_back(arch);
    }
  }
  targets.archs = std::move(archs);
  return targets;
}

} // namespace tenon::tool
