// Implements targets. A word with a colon, and `cpu` alone, begins a target; a word without one
// goes on with the target before it, so that `cpu:avx2,avx512,cuda:sm_90` needs no other separator.

#include "tools/tenon/Target.h"

#include "support/NearestName.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace tenon::tool {
namespace {

using engine::CpuLevel;
using engine::CudaArch;

constexpr std::string_view kAvx2 = "avx2";

constexpr const char *kHint =
    "use cpu, some of its levels (cpu:avx2,avx512,avx512-vnni-bf16), or a GPU's architecture: "
    "cuda:sm_80, sm_89, sm_90, sm_90a, sm_100, sm_100a";

std::optional<CpuLevel> parseLevel(std::string_view name) {
  return name == kAvx2 ? CpuLevel::X86_64_V3 : engine::parseCpuLevel(name);
}

/// Every level and architecture, behind `cpu:` and `cuda:` if asked for.
std::vector<std::string> allNames(bool withDevice) {
  std::string cpu = withDevice ? "cpu:" : "", cuda = withDevice ? "cuda:" : "";
  std::vector<std::string> names = {cpu + std::string(kAvx2)};
  for (std::string_view level : engine::kCpuLevelNames) {
    names.push_back(cpu + std::string(level));
  }
  for (const CudaArch &arch : engine::kCudaArchs) {
    names.push_back(cuda + std::string(arch.name));
  }
  return names;
}

Status unknownTarget(std::string_view device, std::string_view name) {
  std::string text = device.empty() ? std::string(name) : fmt::format("{}:{}", device, name);
  std::vector<std::string> known = allNames(true);
  known.push_back("cpu");
  std::string meant = didYouMean(text, known, "");
  return Status::error(ErrorId::UnsupportedTarget,
                       fmt::format("the target '{}' is not one that Tenon compiles for", text),
                       meant.empty() ? kHint : fmt::format("{} Otherwise {}", meant, kHint));
}

/// Adds one word of `device` ("cpu" or "cuda") to the targets.
Status addWord(std::string_view device, std::string_view name, Targets &targets) {
  std::optional<CpuLevel> level = device == "cpu" ? parseLevel(name) : std::nullopt;
  std::optional<CudaArch> arch = device == "cuda" ? engine::parseCudaArch(name) : std::nullopt;
  if (level) {
    targets.levels.push_back(*level);
  }
  if (arch) {
    targets.archs.push_back(*arch);
  }
  return level || arch ? Status::ok() : unknownTarget(device, name);
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

Result<std::string> parseVariant(const std::string &text) {
  std::string_view name = text;
  for (std::string_view device : {"cpu:", "cuda:"}) {
    name.remove_prefix(name.starts_with(device) ? device.size() : 0);
  }
  if (std::optional<CpuLevel> level = parseLevel(name)) {
    return std::string(engine::nameOf(*level));
  }
  if (std::optional<CudaArch> arch = engine::parseCudaArch(name)) {
    return std::string(arch->name);
  }
  std::vector<std::string> known = allNames(false);
  return Status::error(ErrorId::EngineUnknownVariant,
                       fmt::format("there is no CPU level or GPU architecture '{}'", text),
                       didYouMean(text, known, fmt::format("use one of {}", fmt::join(known, ", "))));
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
