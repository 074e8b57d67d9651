// Implements targets. No level, architecture or part has the name of another, so a word without a
// device before it (`avx2,sm_90`, `cpu:avx2,avx512`) says by itself which device it is of.

#include "tools/tenon/target/Target.h"

#include "runtime/device/cpu/CpuFeatures.h"
#include "support/text/NearestName.h"
#include "tools/tenon/target/LocalGpu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace tenon::tool {
namespace {

using engine::CpuLevel;
using engine::CudaArch;

constexpr std::string_view kNative = "native";

std::string hint() {
  std::vector<std::string_view> levels, archs, gpus, cpus;
  for (const engine::CpuLevelRow &row : engine::kCpuLevels) {
    levels.push_back(row.alias.empty() ? row.name : row.alias);
  }
  for (const CudaArch &arch : engine::kCudaArchs) {
    archs.push_back(arch.name);
  }
  for (const target::Target &part : target::parts()) {
    (part.isGpu() ? gpus : cpus).push_back(part.part);
  }
  return fmt::format(
      "use cpu, some of its levels (cpu:{}), the best level of this machine (cpu:native) or a part "
      "(cpu:{}); cuda or cuda:native for this machine's GPU, an architecture (cuda:{}) or a part "
      "(cuda:{})",
      fmt::join(levels, ", "), fmt::join(cpus, ", "), fmt::join(archs, ", "),
      fmt::join(gpus, ", "));
}

std::optional<CpuLevel> parseLevel(std::string_view name) {
  if (name == kNative) {
    return runtime::bestCpuLevel().value_or(CpuLevel::X86_64_V3);
  }
  return engine::parseCpuLevel(name);
}

/// Every level and architecture, behind `cpu:` and `cuda:` if asked for.
std::vector<std::string> allNames(bool withDevice) {
  std::string cpu = withDevice ? "cpu:" : "", cuda = withDevice ? "cuda:" : "";
  std::vector<std::string> names = {cpu + std::string(kNative), cuda + std::string(kNative)};
  for (const engine::CpuLevelRow &row : engine::kCpuLevels) {
    names.push_back(cpu + std::string(row.name));
    if (!row.alias.empty()) {
      names.push_back(cpu + std::string(row.alias));
    }
  }
  for (const CudaArch &arch : engine::kCudaArchs) {
    names.push_back(cuda + std::string(arch.name));
  }
  return names;
}

Status unknownTarget(std::string_view device, std::string_view name) {
  std::string text = device.empty() ? std::string(name) : fmt::format("{}:{}", device, name);
  bool withDevice = text.find(':') != std::string::npos;
  std::vector<std::string> known = allNames(withDevice);
  known.push_back("cpu");
  known.push_back("cuda");
  for (const target::Target &part : target::parts()) {
    known.push_back(withDevice ? fmt::format("{}:{}", part.device(), part.part) : part.part);
  }
  std::string meant = didYouMean(text, known, "");
  return Status::error(ErrorId::UnsupportedTarget,
                       fmt::format("Tenon does not compile for the target '{}'", text),
                       meant.empty() ? hint() : fmt::format("{} Otherwise {}", meant, hint()));
}

/// One target an architecture: a part takes the place of its plain architecture.
Status addGpu(const target::Target &gpu, Targets &targets) {
  for (target::Target &other : targets.gpus) {
    if (other.variant() != gpu.variant()) {
      continue;
    }
    if (!other.part.empty() && !gpu.part.empty() && other.part != gpu.part) {
      return Status::error(ErrorId::BadArgument,
                           fmt::format("the targets cuda:{} and cuda:{} are both {}", other.part,
                                       gpu.part, gpu.variant()),
                           "an engine has one variant per architecture: name only one of them");
    }
    other = gpu.part.empty() ? other : gpu;
    return Status::ok();
  }
  targets.gpus.push_back(gpu);
  return Status::ok();
}

/// Of a level, an architecture or a part; empty for a name that is none.
std::string_view deviceOf(std::string_view name) {
  if (parseLevel(name) || target::findPart("cpu", name)) {
    return "cpu";
  }
  return engine::parseCudaArch(name) || target::findPart("cuda", name) ? "cuda" : "";
}

/// Adds one word of `device` ("cpu" or "cuda"; empty where none is said) to the targets.
Status addWord(std::string_view device, std::string_view name, Targets &targets) {
  if (device == "cuda" && name == kNative) {
    TENON_ASSIGN(target::Target local, localGpu());
    return addGpu(local, targets);
  }
  if (const target::Target *part = target::findPart(device, name)) {
    if (part->isGpu()) {
      return addGpu(*part, targets);
    }
    targets.levels.push_back(part->level);
    targets.cpu = *part;
    return Status::ok();
  }
  if (std::optional<CpuLevel> level = parseLevel(name); level && device == "cpu") {
    targets.levels.push_back(*level);
    return Status::ok();
  }
  if (std::optional<CudaArch> arch = engine::parseCudaArch(name); arch && device == "cuda") {
    return addGpu(target::targetOf(*arch), targets);
  }
  return unknownTarget(device, name);
}

/// The GPU of this machine, or what is assumed.
Status addLocalGpu(Targets &targets) {
  Result<target::Target> local = localGpu();
  if (local) {
    return addGpu(*local, targets);
  }
  const target::Target &assumed = *target::findPart("cuda", "h200");
  targets.notes.push_back(
      fmt::format("--target cuda: compiled for {} (cuda:{}), which is assumed: {}", assumed.name,
                  assumed.part, local.status().message()));
  return addGpu(assumed, targets);
}

Status addTarget(std::string_view text, Targets &targets) {
  while (true) {
    size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    if (word == "cpu") {
      targets.addsLevels = true;
      std::vector<CpuLevel> levels = allLevels();
      targets.levels.insert(targets.levels.end(), levels.begin(), levels.end());
    } else if (word == "cuda") {
      TENON_TRY(addLocalGpu(targets));
    } else if (size_t colon = word.find(':'); colon != std::string_view::npos) {
      TENON_TRY(addWord(word.substr(0, colon), word.substr(colon + 1), targets));
    } else {
      TENON_TRY(addWord(deviceOf(word), word, targets));
    }
    if (comma == std::string_view::npos) {
      return Status::ok();
    }
    text = text.substr(comma + 1);
  }
}

} // namespace

std::vector<CpuLevel> allLevels() {
  std::vector<CpuLevel> levels;
  for (const engine::CpuLevelRow &row : engine::kCpuLevels) {
    if (row.isDefault) {
      levels.push_back(row.level);
    }
  }
  return levels;
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
  return Status::error(
      ErrorId::EngineUnknownVariant,
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
  if (!levels.empty() &&
      engine::rowOf(levels.front()).architecture != engine::Architecture::X86_64) {
    targets.cpu = target::cpuTarget(levels.front());
  }
  std::sort(targets.gpus.begin(), targets.gpus.end(),
            [](const target::Target &a, const target::Target &b) {
              return std::pair(a.arch->number, a.arch->isSpecific) <
                     std::pair(b.arch->number, b.arch->isSpecific);
            });
  return targets;
}

} // namespace tenon::tool
