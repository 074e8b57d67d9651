// Parts are scaled to the measured time where that is less than predicted; where it is more, the
// rest is a cause of its own.

#include "tools/tenon/profile/GpuModel.h"

#include "compiler/target/Float8.h"
#include "tools/tenon/print/JsonFields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tenon::tool {

double predictedOf(const RegionFigures &region) {
  double sum = 0;
  for (const KernelPart &part : region.parts) {
    sum += part.seconds;
  }
  return sum;
}

namespace {

/// Parts of the prediction are rounded when they are stored.
constexpr double kRounding = 0.02;
/// What of a region's time is worth a word, and how many causes are.
constexpr double kNamed = 0.08;
constexpr size_t kMostNamed = 3;

/// How a part changes with the rows.
enum class Grows {
  Never,
  WithBlocks, ///< by waves of blocks
  WithBytes,  ///< but for the weights'
  WithRows,
};
/// What a part's time is needed for, so that a floor is no loss.
enum class Needs { Nothing, Compute, Memory };

struct PartKind {
  std::string_view name;
  Needs needs;
  Grows grows;
  std::string_view words; ///< of a sentence
};

constexpr PartKind kPartKinds[] = {
    {"start", Needs::Nothing, Grows::Never, "from the kernel before to its first block"},
    {"fill", Needs::Nothing, Grows::WithBlocks, "blocks wait for their first operands"},
    {"waits", Needs::Compute, Grows::WithBlocks, "steps take the least time of a stage"},
    {"copies", Needs::Compute, Grows::WithBlocks, "copies of few bytes are started one by one"},
    {"loads", Needs::Compute, Grows::WithBlocks, "operands come from the L2 cache"},
    {"products", Needs::Compute, Grows::WithBlocks, "products below the rate of a library's"},
    {"out", Needs::Nothing, Grows::WithBlocks, "tiles on their way out"},
    {"idle", Needs::Nothing, Grows::WithBlocks, "multiprocessors without a block"},
    {"cache", Needs::Memory, Grows::WithRows, "all blocks' operands come from the L2 cache"},
    {"memory", Needs::Memory, Grows::WithBytes, "bytes from memory"},
    {"bytes", Needs::Memory, Grows::WithBytes, "reads and writes"},
    {"few-bytes", Needs::Nothing, Grows::WithBytes, "too few bytes to keep the memory busy"},
    {"odd-rows", Needs::Nothing, Grows::WithBytes, "rows that begin on odd borders"},
    {"arithmetic", Needs::Compute, Grows::WithRows, "arithmetic"},
    {"epilogue", Needs::Nothing, Grows::WithRows, "what follows the product in its kernel"},
    {"softmax", Needs::Nothing, Grows::WithBlocks, "softmax between the products of a tile"},
    {"split", Needs::Nothing, Grows::Never, "blocks that share a depth add up"},
    {"depth", Needs::Compute, Grows::Never, "a block goes through the depth alone"},
    {"occupancy", Needs::Nothing, Grows::WithRows, "too few threads at once for their registers"},
    {"loops", Needs::Nothing, Grows::WithRows, "a thread does alone what others wait for"},
    {"norm", Needs::Nothing, Grows::WithRows, "each block norms all rows"},
    {"filter", Needs::Nothing, Grows::Never, "a kernel that lays the filter out"},
};
constexpr PartKind kUnknownPart = {"", Needs::Nothing, Grows::WithRows, "another part"};

const PartKind &kindOf(const std::string &name) {
  const PartKind *found = std::ranges::find(kPartKinds, name, &PartKind::name);
  return found == std::end(kPartKinds) ? kUnknownPart : *found;
}

std::string idleText(const RegionFigures &region) {
  if (region.blocks <= region.atOnce) {
    return fmt::format("{} blocks for the {} that run at once", region.blocks, region.atOnce);
  }
  int64_t waves = (region.blocks + region.atOnce - 1) / region.atOnce;
  return fmt::format("the last of {} waves has {} blocks of {}", waves,
                     region.blocks - (waves - 1) * region.atOnce, region.atOnce);
}

std::string textOf(const RegionFigures &region, const std::string &part) {
  std::string words(kindOf(part).words);
  if (part == "idle" && region.atOnce > 0) {
    return fmt::format("{}: {}", words, idleText(region));
  }
  bool isOfSteps = part == "fill" || part == "waits" || part == "loads";
  return isOfSteps && region.steps > 0 ? fmt::format("{}: {} {} each", words, region.steps,
                                                     region.steps == 1 ? "step" : "steps")
                                       : words;
}

/// The largest first, without those of no time.
std::vector<Cause> sorted(std::vector<Cause> causes) {
  std::erase_if(causes, [](const Cause &cause) { return cause.seconds <= 0; });
  std::ranges::stable_sort(causes, std::greater(), &Cause::seconds);
  return causes;
}

/// Of kernels whose families say no parts, or none at these sizes: what the launch and the grid
/// say.
std::vector<Cause> causesWithoutParts(const RegionFigures &region, int multiprocessors) {
  std::vector<Cause> causes;
  double start = std::min(region.floors.launch, region.seconds), idle = 0;
  if (region.grid > 0 && region.grid < multiprocessors) {
    idle = (region.seconds - start) * (1 - static_cast<double>(region.grid) / multiprocessors);
    causes.push_back(
        {"idle", idle,
         fmt::format("{} blocks on {} multiprocessors", region.grid, multiprocessors)});
  }
  causes.push_back({"start", start, textOf(region, "start")});
  double needed = std::max(region.floors.compute, region.floors.memory);
  causes.push_back({"not-divided", region.seconds - start - idle - needed,
                    fmt::format("{} says no parts of its time at these sizes",
                                region.kernel.substr(0, region.kernel.find('{')))});
  return sorted(std::move(causes));
}

double shareOfWeights(const RegionFigures &region) {
  return region.bytes > 0 ? region.weightBytes / region.bytes : 0;
}

/// Waves of `factor` times the blocks, as a multiple of those now.
double wavesWith(const RegionFigures &region, double factor) {
  if (region.steps == 0 || region.blocks == 0 || region.atOnce == 0) {
    return factor;
  }
  double blocks = static_cast<double>(region.blocks), atOnce = static_cast<double>(region.atOnce);
  return std::ceil(std::ceil(blocks * factor) / atOnce) / std::ceil(blocks / atOnce);
}

double changeOf(const RegionFigures &region, const KernelPart &part, double factor) {
  double weights = shareOfWeights(region);
  switch (kindOf(part.name).grows) {
  case Grows::Never:
    return 1;
  case Grows::WithBlocks:
    return wavesWith(region, factor);
  case Grows::WithBytes:
    return weights + (1 - weights) * factor;
  case Grows::WithRows:
    return factor;
  }
  return factor;
}

/// From a time by the model to one that is measured.
double scaled(const RegionFigures &region, double seconds) {
  return region.seconds * seconds / predictedOf(region);
}

} // namespace

void readParts(const Json &candidates, RegionFigures &region) {
  for (const Json &candidate : candidates) {
    Json time = fieldAt(candidate, "time");
    if (textAt(candidate, "verdict") != "chosen" || !time.is_object()) {
      continue;
    }
    for (const Json &part : listAt(time, "parts")) {
      region.parts.push_back({textAt(part, "part"), part.value("us", 0.0) * 1e-6});
    }
    double told = candidate.value("us", 0.0) * 1e-6;
    if (std::abs(predictedOf(region) - told) > kRounding * told) {
      region.parts.clear();
      return;
    }
    region.blocks = numberAt(time, "blocks");
    region.atOnce = numberAt(time, "at_once");
    region.steps = numberAt(time, "steps");
  }
}

std::vector<Cause> causesOf(const RegionFigures &region, int multiprocessors) {
  double predicted = predictedOf(region);
  if (predicted <= 0 || region.seconds <= 0) {
    return causesWithoutParts(region, multiprocessors);
  }
  std::vector<Cause> causes;
  double compute = region.floors.compute, memory = region.floors.memory;
  double scale = std::min(region.seconds / predicted, 1.0);
  for (const KernelPart &part : region.parts) {
    // What the nearer floor needs is no loss, wherever it is spent.
    double seconds = part.seconds * scale;
    Needs needs = kindOf(part.name).needs;
    double &needed = needs == Needs::Compute ? compute : memory;
    double taken = needs == Needs::Nothing ? 0 : std::min(seconds, needed);
    needed -= taken;
    causes.push_back({part.name, seconds - taken, textOf(region, part.name)});
  }
  causes.push_back({"beyond-model", region.seconds - predicted * scale,
                    fmt::format("{:.2f} us were predicted, {:.2f} us measured", predicted * 1e6,
                                region.seconds * 1e6)});
  return sorted(std::move(causes));
}

std::string causesText(const RegionFigures &region) {
  std::string text;
  size_t named = 0;
  for (const Cause &cause : region.causes) {
    double share = cause.seconds / region.seconds;
    if (named == kMostNamed || (named > 0 && share < kNamed)) {
      break;
    }
    text += fmt::format("{}{:.0f} % {} ({})", named++ == 0 ? "" : "; ", share * 100, cause.part,
                        cause.text);
  }
  return text;
}

std::optional<OtherKernel> fasterKernel(const RegionFigures &region) {
  double chosen = 0;
  const Json *best = nullptr;
  auto timeOf = [](const Json &candidate) { return candidate.value("us", 0.0); };
  for (const Json &candidate : region.candidates) {
    std::string verdict = textAt(candidate, "verdict");
    chosen = verdict == "chosen" ? timeOf(candidate) : chosen;
    bool isOpen = verdict == "possible" && timeOf(candidate) > 0;
    best = isOpen && (!best || timeOf(candidate) < timeOf(*best)) ? &candidate : best;
  }
  if (!best || timeOf(*best) >= chosen) {
    return std::nullopt;
  }
  return OtherKernel{textAt(*best, "kernel"), region.seconds * timeOf(*best) / chosen};
}

std::optional<double> secondsWithRows(const RegionFigures &region, double factor) {
  if (region.parts.empty()) {
    return std::nullopt;
  }
  double model = 0;
  for (const KernelPart &part : region.parts) {
    model += part.seconds * changeOf(region, part, factor);
  }
  double weights = shareOfWeights(region);
  double floor = std::max(region.floors.compute * factor,
                          region.floors.memory * (weights + (1 - weights) * factor));
  return std::max(scaled(region, model), floor);
}

std::optional<double> secondsInFloat8(const RegionFigures &region) {
  bool isMatmul = region.kernel.find("conv") == std::string::npos &&
                  region.kernel.find("attention") == std::string::npos;
  if (region.parts.empty() || !isMatmul || !region.fitsFloat8 || region.weightBytes == 0 ||
      region.computes.find("f16") == std::string::npos) {
    return std::nullopt;
  }
  double model = 0;
  for (const KernelPart &part : region.parts) {
    const PartKind &kind = kindOf(part.name);
    double factor = kind.needs == Needs::Compute     ? 1 / target::kFloat8Speed
                    : kind.grows == Grows::WithBytes ? 1 - shareOfWeights(region) / 2
                                                     : 1;
    model += part.seconds * factor;
  }
  double quantizing = region.floors.memory * (1 - shareOfWeights(region)) / 2;
  // What has to be gained is a margin by which the compiler decides: where it is, the kernel before
  // writes bytes for 16-bit floats, which costs nothing.
  double then = scaled(region, model), margin = target::kFloat8Seconds + quantizing;
  return region.seconds - then > margin ? then : then + margin;
}

} // namespace tenon::tool
