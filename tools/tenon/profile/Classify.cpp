// The floors of each region by the limits of the run, and its class: the nearest limit if it is
// near, else what the experiments say.

#include "tools/tenon/profile/GpuModel.h"
#include "tools/tenon/profile/Profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tenon::tool {
namespace {

/// What practitioners call near to a limit.
constexpr double kNear = 0.6;
/// Up to which part of a limit what else takes time is worth a word.
constexpr double kFull = 0.85;
/// Nothing is above its own limit, but by what the clock is off.
constexpr double kAbove = 1.1;
/// A step below it is mostly the clock.
constexpr double kShortest = 0.5e-6;
/// Of the threads, busy on average: one of them alone, and all of them.
constexpr double kOneThread = 1.2, kAllThreads = 0.75;
/// Time beside kernels that is starting and meeting rather than waiting for the last thread.
constexpr double kMeetings = 3;
/// A step of one thread below so many meetings is better left to one.
constexpr double kWorthSharing = 10;
/// In caches a step takes less than this part of its time if it waits for memory.
constexpr double kWarm = 0.75;
/// Threads gain less than this if they share what holds them back.
constexpr double kThreadsGain = 1.3;

std::string percent(double part) { return fmt::format("{:.0f} %", part * 100); }

/// Weights come from where all of a run's weights lie, the rest from where the region's own bytes
/// do.
void setFloors(const Profile &profile, double allWeights, double lanes, RegionFigures &region) {
  const Limits &limits = profile.limits;
  Floors &floors = region.floors;
  double part = lanes / limits.threads;
  if (const ComputeLimit *unit = limits.best(region.numbers(), profile.features)) {
    // Without products an operation takes the place of a multiply-add, which counts as two.
    double rate = unit->operations * (region.computes.empty() ? 0.5 : 1) * part;
    if (unit->unit.starts_with("AMX") && region.tileShare > 1) {
      region.kernelFlops *= region.tileShare;
      region.kernelWork = "in whole tiles";
      region.tileShare = 1; // counted
    }
    floors.compute = region.kernelFlops / rate;
    floors.unit = unit->unit;
  }
  double others = region.bytes - region.weightBytes;
  // On a GPU a step is timed over and over by itself: all that it reads stays where it fits.
  const MemoryLimit &ofWeights =
      limits.holding(profile.isGpu ? region.bytes : std::max(allWeights, region.bytes));
  const MemoryLimit &ofOthers = limits.holding(profile.isGpu ? region.bytes : others);
  double weights = region.weightBytes / ofWeights.bytes;
  // A core alone reads more than its part from what all share.
  double rest = others / (ofOthers.bytes * (ofOthers.level == "L2" ? part : 1));
  floors.memory = weights + rest;
  floors.level = weights > rest ? ofWeights.level : ofOthers.level;
  floors.launch = profile.isGpu || (region.isParallel && lanes > 1) ? limits.launchSeconds : 0;
}

struct Nearest {
  Bound bound;
  double floor;
  std::string limit;
};

Nearest nearestOf(const Floors &floors) {
  Nearest nearest = {Bound::Compute, floors.compute, floors.unit};
  if (floors.memory > nearest.floor) {
    nearest = {Bound::Memory, floors.memory, floors.level};
  }
  if (floors.launch > nearest.floor) {
    nearest = {Bound::Launch, floors.launch, "launch"};
  }
  return nearest;
}

void set(RegionFigures &region, Bound bound, std::string cause) {
  region.bound = bound;
  region.cause = std::move(cause);
}

/// What the experiments tell of a region that is far from every limit.
void explainLatency(const Profile &profile, double busyThreads, RegionFigures &region) {
  double warm = region.inARowSeconds ? *region.inARowSeconds / region.seconds : 1;
  if (warm < kWarm) {
    set(region, Bound::Memory,
        fmt::format("waits for {}: with its operands in caches it takes {} of the time",
                    region.floors.level, percent(warm)));
    return;
  }
  if (!region.slow.empty()) {
    set(region, Bound::Latency, region.slow);
    return;
  }
  if (!region.computes.empty() && region.floors.unit.empty()) {
    set(region, Bound::Unknown,
        fmt::format("no unit that multiplies {} was measured: {} of {}", region.computes,
                    percent(region.limitShare), region.limit));
    return;
  }
  if (!region.causes.empty()) {
    set(region, Bound::Latency,
        fmt::format("{} of {}; {}", percent(region.limitShare), region.limit, causesText(region)));
    return;
  }
  double gain = region.oneThreadSeconds ? *region.oneThreadSeconds / region.seconds : 0;
  if (profile.limits.threads > 1 && gain > 0 && gain < kThreadsGain &&
      busyThreads > kAllThreads * profile.limits.threads) {
    set(region, Bound::Latency,
        fmt::format("all threads are busy, but {} of them are only {:.2f} x as fast as one: they "
                    "share a unit or a CPU",
                    profile.limits.threads, gain));
    return;
  }
  set(region, Bound::Latency,
      fmt::format("below 60 % of every measured limit{}: {} reaches {} of {}",
                  region.inARowSeconds ? ", also with its operands in caches" : "", region.kernel,
                  percent(region.limitShare), region.limit));
}

std::string causeOf(const RegionFigures &region) {
  switch (region.bound) {
  case Bound::Compute:
    return fmt::format("{} is at {} of its limit", region.limit, percent(region.limitShare));
  case Bound::Memory:
    return fmt::format("reads {} at {} of its rate; {} of the bytes are weights", region.limit,
                       percent(region.limitShare), percent(region.weightBytes / region.bytes));
  default:
    return "starting the kernel takes most of the time";
  }
}

/// What a busy machine leaves to be said: its limits are the best of several rounds, so that what
/// is near to one is so. Threads that wait for a CPU look idle, and times say nothing of latency.
void classifyDisturbed(const Nearest &nearest, RegionFigures &region) {
  if (region.limitShare >= kNear) {
    region.bound = nearest.bound;
    region.cause = causeOf(region);
    return;
  }
  set(region, Bound::Unknown,
      fmt::format("the machine was too busy to tell: {} of {} nevertheless",
                  percent(region.limitShare), region.limit));
}

/// How many threads of a region are busy on average; all of them where that was not counted.
double busyThreadsOf(const Profile &profile, const RegionFigures &region) {
  bool isCounted = !profile.isGpu && !profile.measured.isDisturbed && region.busySeconds > 0;
  return isCounted ? region.busySeconds / region.seconds : profile.limits.threads;
}

bool runsOnOneThread(const Profile &profile, const RegionFigures &region) {
  return profile.limits.threads > 1 && busyThreadsOf(profile, region) < kOneThread;
}

/// How near a region is to its nearest limit.
Nearest limitOf(const Profile &profile, double allWeights, RegionFigures &region) {
  region.kernelFlops = region.kernelFlops > 0 ? region.kernelFlops : region.flops;
  setFloors(profile, allWeights, runsOnOneThread(profile, region) ? 1 : profile.limits.threads,
            region);
  Nearest nearest = nearestOf(region.floors);
  region.limit = nearest.limit;
  region.limitShare = region.seconds > 0 ? nearest.floor / region.seconds : 0;
  return nearest;
}

/// As Nsight Compute does: by the nearer of what multiprocessors and memory sustain; below kNear of
/// both it is latency, whose causes are the model's.
void classifyByCounters(RegionFigures &region) {
  const StepCounters &counters = *region.counters;
  bool isMemory = counters.memory > counters.processors;
  std::string seen =
      fmt::format("counters: multiprocessors {}, tensor pipe {}, memory {}, DRAM {}, warps {}",
                  percent(counters.processors), percent(counters.tensorPipe),
                  percent(counters.memory), percent(counters.dram), percent(counters.warps));
  std::string causes = causesText(region);
  if (std::max(counters.memory, counters.processors) >= kNear) {
    set(region, isMemory ? Bound::Memory : Bound::Compute, seen);
    return;
  }
  set(region, Bound::Latency, causes.empty() ? seen : fmt::format("{}; {}", seen, causes));
}

void classifyRegion(const Profile &profile, double allWeights, RegionFigures &region) {
  double threads = profile.limits.threads, busyThreads = busyThreadsOf(profile, region);
  bool isOneThread = runsOnOneThread(profile, region);
  Nearest nearest = limitOf(profile, allWeights, region);
  if (profile.isGpu) {
    region.causes = causesOf(region, profile.limits.multiprocessors);
  }
  if (region.counters && region.seconds >= kShortest) {
    classifyByCounters(region);
    return;
  }
  if (region.seconds < kShortest) {
    set(region, Bound::Short, "shorter than the clock can resolve");
    return;
  }
  if (region.limitShare > kAbove) {
    // Its bytes were nearer than the floor says, or a neighbour lowered the limit while it was
    // measured.
    set(region, Bound::Unknown,
        fmt::format("faster than {}, {} of it: that limit does not hold it back", region.limit,
                    percent(region.limitShare)));
    return;
  }
  if (profile.measured.isDisturbed) {
    classifyDisturbed(nearest, region);
    return;
  }
  double lost = region.seconds - region.busySeconds / threads;
  bool isIdle = busyThreads < kAllThreads * threads;
  if (isIdle && region.isParallel && lost < kMeetings * profile.limits.launchSeconds &&
      lost > region.seconds / 3) {
    set(region, Bound::Launch,
        fmt::format("starting and synchronizing threads takes {} of the time",
                    percent(lost / region.seconds)));
    return;
  }
  if (isOneThread && region.seconds > kWorthSharing * profile.limits.launchSeconds) {
    set(region, Bound::Serial,
        region.isParallel
            ? fmt::format("one of {} threads does nearly all of it", profile.limits.threads)
            : fmt::format("one of {} threads does it: there is only one part to distribute",
                          profile.limits.threads));
    return;
  }
  if (isIdle && !isOneThread) {
    set(region, Bound::Imbalance,
        fmt::format("{:.1f} of {} threads are busy on average: the others wait for the last",
                    busyThreads, profile.limits.threads));
    return;
  }
  if (region.limitShare >= kNear) {
    region.bound = nearest.bound;
    region.cause = causeOf(region);
    if (std::string rest = causesText(region); !rest.empty() && region.limitShare < kFull) {
      region.cause += "; besides " + rest;
    }
    return;
  }
  explainLatency(profile, busyThreads, region);
}

} // namespace

Numbers RegionFigures::numbers() const {
  bool isInteger = computes.starts_with("s8") || computes.starts_with("u8");
  return isInteger                                   ? Numbers::I8
         : computes.starts_with("f8")                ? Numbers::F8
         : computes.starts_with("tf32")              ? Numbers::Tf32
         : computes.find("f16") != std::string::npos ? Numbers::Bf16
                                                     : Numbers::F32;
}

void classify(Profile &profile) {
  double allWeights = 0;
  for (const RegionFigures &region : profile.regions) {
    allWeights += region.weightBytes;
  }
  // A limit is the best that was measured: where a region is a little above it, that is the limit.
  for (RegionFigures &region : profile.regions) {
    Nearest nearest = limitOf(profile, allWeights, region);
    if (region.limitShare > 1 && region.limitShare <= kAbove && region.seconds >= kShortest) {
      profile.limits.raise(nearest.limit, region.limitShare);
    }
  }
  for (RegionFigures &region : profile.regions) {
    classifyRegion(profile, allWeights, region);
  }
}

} // namespace tenon::tool
