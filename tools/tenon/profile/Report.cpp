// A profile as JSON and as a screen of text.

#include "tools/tenon/profile/Profile.h"

#include "support/Shape.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace tenon::tool {
namespace {

/// A speedup of less is none.
constexpr double kSaid = 1.005;
/// Overhead and disturbance that a reader must know of.
constexpr double kMaxOverhead = 0.03, kNotedSlowdown = 1.1, kNotedOthers = 0.02;

Json optional(const std::optional<double> &seconds) {
  return seconds ? Json(*seconds * 1e6) : Json();
}

double speedupBy(const Profile &profile, double seconds) {
  return 1 / std::max(1 - profile.share(seconds), 1e-3);
}

Json toJson(const Advice &advice, const Profile &profile) {
  return {{"rule", advice.rule},
          {"evidence", advice.evidence},
          {"command", advice.command},
          {"gain_us", advice.gainSeconds * 1e6},
          {"speedup", speedupBy(profile, advice.gainSeconds)},
          {"at_most", advice.unknownSeconds > 0
                          ? Json(speedupBy(profile, advice.gainSeconds + advice.unknownSeconds))
                          : Json()},
          {"of", advice.isOfSample ? "sample" : "run"},
          {"changes_numbers", advice.changesNumbers},
          {"regions", advice.regions}};
}

Json countersJson(const RegionFigures &region) {
  return region.counters ? Json{{"processors", region.counters->processors},
                                {"memory", region.counters->memory},
                                {"dram", region.counters->dram},
                                {"tensor_pipe", region.counters->tensorPipe},
                                {"warps", region.counters->warps}}
                         : Json();
}

Json partsJson(const RegionFigures &region) {
  Json parts = Json::array(), causes = Json::array();
  for (const KernelPart &part : region.parts) {
    parts.push_back({{"part", part.name}, {"us", part.seconds * 1e6}});
  }
  for (const Cause &cause : region.causes) {
    causes.push_back({{"part", cause.part}, {"us", cause.seconds * 1e6}, {"why", cause.text}});
  }
  return {{"parts", parts},
          {"blocks", region.blocks},
          {"at_once", region.atOnce},
          {"steps", region.steps},
          {"grid", region.grid},
          {"causes", causes},
          {"counters", countersJson(region)},
          {"considered", region.considered}};
}

Json toJson(const RegionFigures &region) {
  return {{"label", region.label},
          {"kernel", region.kernel},
          {"strategy", region.strategy},
          {"computes", region.computes},
          {"instructions", region.instructions},
          {"operators", region.operators},
          {"time_us", region.seconds * 1e6},
          {"busy_us", region.busySeconds * 1e6},
          {"one_thread_us", optional(region.oneThreadSeconds)},
          {"in_caches_us", optional(region.inARowSeconds)},
          {"predicted_us", region.predictedSeconds * 1e6},
          {"flops", region.flops},
          {"kernel_flops", region.kernelFlops},
          {"kernel_work", region.kernelWork},
          {"bytes", region.bytes},
          {"weights_bytes", region.weightBytes},
          {"floors_us",
           {{"compute", region.floors.compute * 1e6},
            {"memory", region.floors.memory * 1e6},
            {"launch", region.floors.launch * 1e6}}},
          {"class", nameOf(region.bound)},
          {"limit", region.limit},
          {"of_limit", region.limitShare},
          {"cause", region.cause},
          {"gpu", region.grid > 0 || !region.parts.empty() ? partsJson(region) : Json()}};
}

Json toJson(const OperatorFigures &node, const Profile &profile) {
  return {{"name", node.name},
          {"names", node.names},
          {"kind", node.kind},
          {"from", node.from},
          {"module", node.module},
          {"source", node.source},
          {"region", node.region},
          {"class", nameOf(profile.regions[node.region].bound)},
          {"time_us", node.seconds * 1e6},
          {"share", profile.share(node.seconds)},
          {"flops", node.flops},
          {"bytes", node.bytes},
          {"split_by", node.isSplit ? Json("model") : Json()}};
}

/// Of all its operators' time, how much their regions' nearest limits would take.
double limitShareOf(const OperatorGroup &group, const Profile &profile) {
  double floors = 0;
  for (size_t index : group.operators) {
    const OperatorFigures &node = profile.operators[index];
    floors += node.seconds * profile.regions[node.region].limitShare;
  }
  return group.seconds > 0 ? floors / group.seconds : 0;
}

Json toJson(const OperatorGroup &group, const Profile &profile) {
  const RegionFigures &region = profile.regions[group.region];
  return {{"name", group.name},
          {"operators", group.operators},
          {"time_us", group.seconds * 1e6},
          {"share", profile.share(group.seconds)},
          {"flops", group.flops},
          {"bytes", group.bytes},
          {"class", nameOf(region.bound)},
          {"limit", region.limit},
          {"of_limit", limitShareOf(group, profile)},
          {"cause", region.cause},
          {"split_by", group.isSplit ? Json("model") : Json()}};
}

Json measuredJson(const Measurement &measured) {
  return {{"run_us", measured.runSeconds * 1e6},
          {"timed_us", measured.timedSeconds * 1e6},
          {"overhead", measured.overhead()},
          {"passes", measured.passes},
          {"discarded", measured.discarded},
          {"disturbed", measured.isDisturbed},
          {"others_share", measured.othersShare},
          {"slowdown", measured.slowdown},
          {"one_thread_run_us", optional(measured.oneThreadRun)},
          {"all_threads_run_us", optional(measured.allThreadsRun)},
          {"notes", measured.notes}};
}

/// Shares by kind of operator.
std::vector<std::pair<std::string, double>> kindsOf(const Profile &profile) {
  std::map<std::string, double> sums;
  for (const OperatorFigures &node : profile.operators) {
    sums[node.kind] += node.seconds;
  }
  std::vector<std::pair<std::string, double>> kinds(sums.begin(), sums.end());
  std::ranges::sort(kinds, std::greater(), &std::pair<std::string, double>::second);
  return kinds;
}

std::string countText(double count, const char *unit) {
  constexpr std::pair<double, const char *> kPrefixes[] = {
      {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto &[size, prefix] : kPrefixes) {
    if (count >= size) {
      return fmt::format("{:.3g} {}{}", count / size, prefix, unit);
    }
  }
  return fmt::format("{:.0f} {}", count, unit);
}

/// A second; 0 for what took no time, as a copy that was left out.
double rateOf(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

std::string gainText(const Profile &profile, const Advice &advice) {
  double known = speedupBy(profile, advice.gainSeconds);
  double most = speedupBy(profile, advice.gainSeconds + advice.unknownSeconds);
  std::string what = advice.isOfSample ? "a sample" : "the run";
  if (known < kSaid) {
    return fmt::format("{} at most {:.2f} x as fast: what it gains is not predicted", what, most);
  }
  return fmt::format("{} {:.2f} x as fast, predicted{}", what, known,
                     most < kSaid * known ? "" : fmt::format("; at most {:.2f} x", most));
}

std::string ruleText(const Advice &advice) {
  return advice.rule + (advice.changesNumbers ? ", rounds otherwise" : "");
}

/// The model's operations, and the kernel's where these are others.
std::string flopsText(const OperatorGroup &group, const RegionFigures &region) {
  std::string text = countText(group.flops, "FLOP");
  double share = region.flops > 0 ? region.kernelFlops / region.flops : 1;
  return share == 1 ? text
                    : fmt::format("{} ({} {})", text, countText(group.flops * share, "FLOP"),
                                  region.kernelWork);
}

std::string groupText(const Profile &profile, const OperatorGroup &group, size_t number) {
  const RegionFigures &region = profile.regions[group.region];
  std::string name = view::visible(group.name);
  std::string count =
      group.operators.size() > 1 ? fmt::format("  ({} of them)", group.operators.size()) : "";
  std::string text =
      fmt::format("{:>2}. {:>5.1f} %  {}{}{}\n", number, profile.share(group.seconds) * 100, name,
                  count, group.isSplit ? "  [split by the model]" : "");
  text += fmt::format("    {}  {}, {}, {:.3g} GFLOP/s, {:.3g} GB/s; {:.0f} % of {}\n",
                      profile.operators[group.operators.front()].kind, flopsText(group, region),
                      countText(group.bytes, "B"), rateOf(group.flops, group.seconds) * 1e-9,
                      rateOf(group.bytes, group.seconds) * 1e-9, limitShareOf(group, profile) * 100,
                      region.limit);
  text += fmt::format("    {}: {}\n", nameOf(region.bound), view::visible(region.cause));
  const Advice *advice = profile.adviceFor(group.region);
  text += advice ? fmt::format("    try  {}\n         {} ({})\n", view::visible(advice->command),
                               gainText(profile, *advice), ruleText(*advice))
                 : fmt::format("    {}\n", region.considered.empty()
                                               ? std::string("nothing better is known for it")
                                               : fmt::format("nothing gains 2 % of the run: {}",
                                                             fmt::join(region.considered, "; ")));
  return text;
}

/// What no group above shows, as others come first for all that it would help.
std::string otherAdviceText(const Profile &profile, size_t shownGroups) {
  std::string text;
  for (const Advice &advice : profile.advice) {
    bool isShown = false;
    for (size_t i = 0; i < std::min(shownGroups, profile.groups.size()); ++i) {
      isShown = isShown || profile.adviceFor(profile.groups[i].region) == &advice;
    }
    if (!isShown) {
      text += fmt::format("    {}\n         {} ({})\n", view::visible(advice.command),
                          gainText(profile, advice), ruleText(advice));
    }
  }
  return text.empty() ? text : "besides\n" + text;
}

std::string limitsText(const Limits &limits, uint32_t features) {
  std::string text = "  limits     ";
  const ComputeLimit *half = limits.best(Numbers::Bf16, features);
  if (limits.multiprocessors > 0 && half && half->numbers == Numbers::Bf16) {
    text += fmt::format("{:.0f} TFLOP/s ({}), ", half->operations * 1e-12, half->unit);
  }
  if (const ComputeLimit *unit = limits.best(Numbers::F32, features)) {
    text += fmt::format("{:.0f} GFLOP/s ({}), ", unit->operations * 1e-9, unit->unit);
  }
  for (const MemoryLimit &memory : limits.memory) {
    text += fmt::format("{} {:.3g} GB/s, ", memory.level, memory.bytes * 1e-9);
  }
  return text + fmt::format("{:.2f} us to start and synchronize\n", limits.launchSeconds * 1e6);
}

std::string trustText(const Measurement &measured) {
  std::string text;
  if (measured.isDisturbed) {
    text += fmt::format("  disturbed  hardly any pass was quiet ({} of {}): times are upper "
                        "bounds, shares and classes may be off\n",
                        measured.passes - measured.discarded, measured.passes);
  } else if (measured.discarded > 0) {
    text += fmt::format("  discarded  {} of {} passes, because the machine was disturbed\n",
                        measured.discarded, measured.passes);
  }
  if (measured.othersShare > kNotedOthers) {
    text += fmt::format("  busy       other programs used the CPU for {:.0f} % of the time\n",
                        measured.othersShare * 100);
  }
  if (measured.slowdown > kNotedSlowdown) {
    text += fmt::format("  throttled  an arithmetic loop took {:.2f} x its shortest time: the "
                        "clock or a neighbour varies\n",
                        measured.slowdown);
  }
  if (measured.overhead() > kMaxOverhead) {
    text += fmt::format("  overhead   timing the steps took {:.1f} %\n", measured.overhead() * 100);
  }
  for (const std::string &note : measured.notes) {
    text += fmt::format("  note       {}\n", note);
  }
  return text;
}

} // namespace

Json toJson(const Profile &profile) {
  Json inputs = Json::object(), regions = Json::array(), operators = Json::array(),
       groups = Json::array(), advice = Json::array(), kinds = Json::array();
  for (const auto &[name, dims] : profile.inputs) {
    inputs[name] = formatDims(dims);
  }
  for (const RegionFigures &region : profile.regions) {
    regions.push_back(toJson(region));
  }
  for (const OperatorFigures &node : profile.operators) {
    operators.push_back(toJson(node, profile));
  }
  for (const OperatorGroup &group : profile.groups) {
    groups.push_back(toJson(group, profile));
  }
  for (const Advice &known : profile.advice) {
    advice.push_back(toJson(known, profile));
  }
  for (const auto &[kind, seconds] : kindsOf(profile)) {
    kinds.push_back(
        {{"kind", kind}, {"time_us", seconds * 1e6}, {"share", profile.share(seconds)}});
  }
  return {{"engine", profile.path},
          {"level", profile.level},
          {"device", profile.isGpu ? "cuda" : "cpu"},
          {"inputs", inputs},
          {"sizes", profile.sizes},
          {"sizes_chosen", profile.areSizesLikely ? "likely" : "given"},
          {"limits", toJson(profile.limits)},
          {"measured", measuredJson(profile.measured)},
          {"groups", groups},
          {"kinds", kinds},
          {"advice", advice},
          {"operators", operators},
          {"regions", regions}};
}

std::string profileText(const Profile &profile, size_t top) {
  const Measurement &measured = profile.measured;
  std::string text = fmt::format(
      "{}  {:.3f} ms a run, {}{}\n", view::visible(profile.path), measured.runSeconds * 1e3,
      profile.level, profile.isGpu ? "" : fmt::format(", {} threads", profile.limits.threads));
  if (!profile.sizes.empty()) {
    text += fmt::format("  sizes      {}{}\n", profile.sizes,
                        profile.areSizesLikely ? "  (likely ones; --shape sets others)" : "");
  }
  text += limitsText(profile.limits, profile.features) + trustText(measured);
  std::string kinds;
  size_t shown = 0;
  for (const auto &[kind, seconds] : kindsOf(profile)) {
    if (shown++ == 6) {
      break;
    }
    kinds +=
        fmt::format("{}{} {:.1f} %", kinds.empty() ? "" : ", ", kind, profile.share(seconds) * 100);
  }
  text += fmt::format("  by kind    {}\n\n", kinds);
  for (size_t i = 0; i < std::min(top, profile.groups.size()); ++i) {
    text += groupText(profile, profile.groups[i], i + 1);
  }
  return text + otherAdviceText(profile, top);
}

} // namespace tenon::tool
