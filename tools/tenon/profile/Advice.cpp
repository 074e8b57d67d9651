// The table of rules: each looks at a profile and says what would help, by what evidence, how much
// of a run's time that would save, and the command that does it. A new rule is a function and a
// row. One file: rules are some ten lines each, and the table is read with them.

#include "tools/tenon/profile/Commands.h"
#include "tools/tenon/profile/GpuModel.h"
#include "tools/tenon/profile/Profile.h"

#include "engine/Level.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/print/JsonFields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace tenon::tool {
namespace {

/// Below it an advice is not worth a command.
constexpr double kMinGain = 0.02;
/// What code is taken to reach of a limit that it does not reach now: in general, and products by
/// the best kernel.
constexpr double kReached = 0.7, kReachedByBest = 0.8;
/// As many operations fewer a Winograd kernel may need: of 4 x 4 results at once, 36 products in
/// place of 144.
constexpr double kSavedByFilters = 4;
/// The same of units that are done before their operands are there and their results are stored:
/// whole nets in bf16 ran at 0.25 to 0.27 of what AMX does in a loop of registers.
constexpr double kReachedByTiles = 0.25;
/// Of what tensor cores do in a large product of cuBLASLt; what small nets gained was more than
/// this predicts.
constexpr double kReachedByTensorCores = 0.4;
/// Code that checks each access, against code that does not: between 3 and 12 were measured.
constexpr double kGuardCosts = 4;
constexpr double kDisturbedMargin = 1.5;
/// What was measured beyond a prediction from which on another configuration may be faster. Of it,
/// what a kernel that starts behind its like in a stream takes more than in a graph, of which
/// predictions are: 0.4 to 0.7 us for norms of BERT-base and GPT-2 on an H200.
constexpr double kBeyondModel = 1.15, kStreamSeconds = 0.5e-6;
/// What of a run has to be beyond predictions before measuring is worth a command where no other
/// kernel is predicted to be faster.
constexpr double kMinUnknown = 0.1;
/// What GELU takes in a library's call of what it takes by itself: predicted for BERT-base on an
/// H200, 1.57 us of 3.29.
constexpr double kGeluInCall = 0.48;
/// Nodes that one command gives other kernels.
constexpr size_t kMostNodes = 6;
/// Of compiler/dispatch/Rules.h: two stay apart as what lies between them is also used elsewhere.
constexpr std::string_view kSecondResultRule = "second-result";

double reachedOf(const ComputeLimit &unit, bool isGpu) {
  bool isTiles = (unit.features & (engine::x86::kAmxBf16 | engine::x86::kAmxInt8)) != 0;
  return isGpu ? kReachedByTensorCores : isTiles ? kReachedByTiles : kReached;
}

double microsecondsOf(const Json &candidate) { return candidate.value("us", 0.0); }

/// Seconds of a region with another limit under its operations and another number of weights'
/// bytes.
double secondsWith(const RegionFigures &region, double computeFactor, double weightFactor) {
  // How far the region is from its floor now is how far it is taken to stay.
  double now = std::max({region.floors.compute, region.floors.memory, region.floors.launch});
  double weights = region.bytes > 0 ? region.floors.memory * region.weightBytes / region.bytes : 0;
  double memory = region.floors.memory - weights + weights * weightFactor;
  double then = std::max({region.floors.compute * computeFactor, memory, region.floors.launch});
  return now > 0 ? region.seconds * std::min(then / now, 1.0) : region.seconds;
}

/// Seconds of a product by another unit that takes weights of so many bytes more or less.
double secondsBy(const RegionFigures &region, const ComputeLimit &own, const ComputeLimit &other,
                 double weightFactor, bool isGpu) {
  double factor = own.operations / other.operations;
  // Other units are seldom as near to their limit.
  double least = region.floors.compute * factor / reachedOf(other, isGpu);
  return std::min(std::max(secondsWith(region, factor, weightFactor), least), region.seconds);
}

bool isProduct(const RegionFigures &region) { return !region.computes.empty(); }

std::vector<size_t> allRegions(const Profile &profile) {
  std::vector<size_t> all;
  for (size_t i = 0; i < profile.regions.size(); ++i) {
    all.push_back(i);
  }
  return all;
}

/// Regions for which `secondsThen` says less than they take, and what that saves.
template <typename Then> Advice gainOf(const Profile &profile, Then secondsThen) {
  Advice advice;
  for (size_t i = 0; i < profile.regions.size(); ++i) {
    double gain = profile.regions[i].seconds - secondsThen(profile.regions[i]);
    if (gain > 0) {
      advice.gainSeconds += gain;
      advice.regions.push_back(i);
    }
  }
  return advice;
}

Advice withText(const Advice &gain, const char *rule, std::string evidence, std::string command) {
  Advice advice = gain;
  advice.rule = rule;
  advice.evidence = std::move(evidence);
  advice.command = std::move(command);
  return advice;
}

// What the engine was compiled with that costs time.

std::optional<Advice> ofGuard(const Profile &profile) {
  if (!profile.options.value("guard", false)) {
    return std::nullopt;
  }
  Advice advice =
      gainOf(profile, [&](const RegionFigures &region) { return region.seconds / kGuardCosts; });
  return withText(advice, "guard",
                  "the engine was compiled with --guard: its code checks every load and store",
                  compileCommand(profile, {.without = {"guard"}}));
}

/// What the fastest kernel that could compute the region would take, by the ratio of its prediction
/// to that of the chosen one; no better than kernels are.
double secondsByBest(const RegionFigures &region, bool isForbiddenToo) {
  double chosen = 0, best = HUGE_VAL;
  bool filters = false;
  for (const Json &candidate : region.candidates) {
    double time = microsecondsOf(candidate);
    std::string verdict = textAt(candidate, "verdict");
    chosen = verdict == "chosen" ? time : chosen;
    bool isOpen =
        verdict == "chosen" || verdict == "possible" || (isForbiddenToo && verdict != "refused");
    if (isOpen && time > 0 && time < best) {
      best = time;
      filters = textAt(candidate, "kernel").find("winograd") != std::string::npos;
    }
  }
  double least =
      std::max(region.floors.compute / (filters ? kSavedByFilters : 1), region.floors.memory) /
      kReachedByBest;
  double then = chosen > 0 ? std::max(region.seconds * best / chosen, least) : region.seconds;
  return std::min(then, region.seconds);
}

std::optional<Advice> ofForbiddenKernels(const Profile &profile) {
  std::vector<std::string> given;
  for (const auto &[key, flag] :
       {std::pair("disabled_families", "--disable-family"), std::pair("kernels", "--kernel"),
        std::pair("max_weights", "--max-weights")}) {
    if (profile.options.contains(key)) {
      given.push_back(flag);
    }
  }
  if (given.empty()) {
    return std::nullopt;
  }
  Advice advice = gainOf(profile, [&](const RegionFigures &region) {
    return secondsByBest(region, /*isForbiddenToo=*/true);
  });
  return withText(
      advice, "forbidden-kernels",
      fmt::format("{} kept faster kernels from {} regions", fmt::join(given, " and "),
                  advice.regions.size()),
      compileCommand(profile, {.without = {"disabled_families", "kernels", "max_weights"}}));
}

std::optional<Advice> ofExtraOutputs(const Profile &profile) {
  if (profile.extraOutputs.empty()) {
    return std::nullopt;
  }
  Advice advice = gainOf(profile, [&](const RegionFigures &region) {
    // By the cost model, for every neighbour from which an extra output between the two keeps it
    // apart.
    double saved = 0;
    for (const Json &edge : region.apart) {
      double apart = edge.value("apart_us", 0.0), fused = edge.value("fused_us", 0.0);
      bool isExtraOutput = textAt(edge, "rule") == kSecondResultRule &&
                           std::ranges::find(profile.extraOutputs, textAt(edge, "producer")) !=
                               profile.extraOutputs.end();
      saved = isExtraOutput && apart > 0 ? std::max(saved, (apart - fused) / apart / 2) : saved;
    }
    // Where they did not keep it apart, they are written all the same.
    const Floors &floors = region.floors;
    double memory =
        region.bytes > 0
            ? floors.memory * (1 - std::min(region.extraOutputBytes / region.bytes, 1.0))
            : 0;
    double now = std::max({floors.compute, floors.memory, floors.launch});
    double unwritten = now > 0 ? std::max({floors.compute, memory, floors.launch}) / now : 1;
    return region.seconds * (1 - saved) * unwritten;
  });
  return withText(
      advice, "taps",
      fmt::format("--tap makes {} inner values outputs: they are written, or prevent fusion",
                  profile.extraOutputs.size()),
      compileCommand(profile, {.without = {"taps"}}));
}

std::optional<Advice> ofLevel(const Profile &profile) {
  std::optional<engine::CpuLevel> best = runtime::bestCpuLevel();
  uint32_t here = best ? engine::rowOf(*best).features : 0;
  if (profile.isGpu || (here & ~profile.features) == 0) {
    return std::nullopt;
  }
  Advice advice = gainOf(profile, [&](const RegionFigures &region) {
    const ComputeLimit *own = profile.limits.best(region.numbers(), profile.features);
    const ComputeLimit *other = profile.limits.best(region.numbers(), here);
    return own && other ? secondsWith(region, own->operations / other->operations, 1)
                        : region.seconds;
  });
  return withText(
      advice, "level",
      fmt::format("the code is for {}, but this machine runs {}", profile.level,
                  engine::nameOf(*best)),
      compileCommand(profile, {.target = fmt::format("cpu:{}", engine::nameOf(*best))}));
}

// How it is run.

std::optional<Advice> ofThreads(const Profile &profile) {
  const Measurement &measured = profile.measured;
  double threads = profile.limits.threads;
  if (measured.runs.empty()) {
    return std::nullopt;
  }
  // The least of each; on a busy machine another number of threads has to be much faster to be so.
  double own = std::ranges::min(measured.runs);
  double margin = measured.isDisturbed ? kDisturbedMargin : 1;
  bool wantsMore = measured.allThreadsRun && *measured.allThreadsRun * margin < own;
  bool wantsOne = measured.oneThreadRun && *measured.oneThreadRun * margin < own;
  if (!wantsMore && !wantsOne) {
    return std::nullopt;
  }
  double then = wantsMore ? *measured.allThreadsRun : *measured.oneThreadRun;
  Advice advice;
  advice.gainSeconds = (1 - then / own) * measured.timedSeconds;
  advice.regions = allRegions(profile);
  unsigned count = wantsMore ? usableCpus() : 1;
  return withText(advice, "threads",
                  fmt::format("measured: a run takes {:.3f} ms with {} threads, {:.3f} ms with {}",
                              own * 1e3, threads, then * 1e3, count),
                  runCommand(profile, profile.inputs, fmt::format("--threads {}", count)));
}

std::optional<Advice> ofSizes(const Profile &profile) {
  if (profile.sizes.empty() || profile.options.contains("optimize_for")) {
    return std::nullopt;
  }
  Advice advice = gainOf(profile, [&](const RegionFigures &region) {
    return secondsByBest(region, /*isForbiddenToo=*/false);
  });
  return withText(advice, "sizes",
                  fmt::format("kernels were chosen for other sizes than {}; at these, others are "
                              "predicted to be faster in {} regions",
                              profile.sizes, advice.regions.size()),
                  compileCommand(profile, {.more = "--optimize-for " + firstShape(profile)}));
}

/// Kernels that were passed over for ones of a family that is preferred, though their predictions
/// are lower. Where the user named kernels, these are what is to be looked at first.
std::optional<Advice> ofOtherKernels(const Profile &profile) {
  std::vector<std::pair<double, size_t>> gains;
  bool isOpen = profile.isGpu && !profile.options.contains("kernels");
  for (size_t i = 0; isOpen && i < profile.regions.size(); ++i) {
    if (std::optional<OtherKernel> other = fasterKernel(profile.regions[i])) {
      gains.emplace_back(profile.regions[i].seconds - other->seconds, i);
    }
  }
  std::ranges::sort(gains, std::greater());
  gains.resize(std::min(gains.size(), kMostNodes));
  Advice advice;
  std::string flags, evidence;
  for (const auto &[gain, index] : gains) {
    OtherKernel other = *fasterKernel(profile.regions[index]);
    flags += fmt::format("{}--kernel {}", flags.empty() ? "" : " ",
                         quoted(nodeOf(profile, index) + '=' + other.kernel));
    evidence = evidence.empty()
                   ? fmt::format("{} is predicted to take {:.2f} us for {:.2f}", other.kernel,
                                 other.seconds * 1e6, profile.regions[index].seconds * 1e6)
                   : evidence;
    advice.gainSeconds += gain;
    advice.regions.push_back(index);
  }
  return withText(advice, "other-kernel", evidence, compileCommand(profile, {.more = flags}));
}

bool isBeyondModel(const RegionFigures &region) {
  double predicted = predictedOf(region);
  return predicted > 0 && region.seconds > kBeyondModel * predicted + kStreamSeconds;
}

std::string_view familyOf(std::string_view kernel) { return kernel.substr(0, kernel.find('{')); }

/// What the run's kernels of a family take of their predictions; no less than these.
double biasOf(const Profile &profile, std::string_view family) {
  double measured = 0, predicted = 0;
  for (const RegionFigures &region : profile.regions) {
    bool isOf = familyOf(region.kernel) == family && predictedOf(region) > 0;
    measured += isOf ? region.seconds : 0;
    predicted += isOf ? predictedOf(region) : 0;
  }
  return predicted > 0 ? std::max(measured / predicted, 1.0) : 1;
}

/// The kernel of another family that is predicted to take least, as families take in this run.
std::optional<OtherKernel> bestOtherFamily(const Profile &profile, const RegionFigures &region) {
  std::optional<OtherKernel> best;
  for (const Json &candidate : region.candidates) {
    std::string kernel = textAt(candidate, "kernel");
    double seconds = microsecondsOf(candidate) * 1e-6 * biasOf(profile, familyOf(kernel));
    bool isOpen = textAt(candidate, "verdict") == "possible" && seconds > 0 &&
                  familyOf(kernel) != familyOf(region.kernel);
    if (isOpen && (!best || seconds < best->seconds)) {
      best = OtherKernel{kernel, seconds};
    }
  }
  return best;
}

/// Kernels that take longer than their families predict. What another family is predicted to take
/// less than that is gained; of other configurations nothing is known but that one may come near to
/// the prediction.
std::optional<Advice> ofTuning(const Profile &profile) {
  if (!profile.isGpu || profile.measured.isDisturbed) {
    return std::nullopt;
  }
  Advice advice;
  for (size_t i = 0; i < profile.regions.size(); ++i) {
    const RegionFigures &region = profile.regions[i];
    if (!isBeyondModel(region)) {
      continue;
    }
    const Floors &floors = region.floors;
    double least = std::max({floors.compute, floors.memory, floors.launch}) / kReachedByBest;
    auto gainOf = [&](double then) {
      return std::max(region.seconds - std::max(then, least), 0.0);
    };
    std::optional<OtherKernel> other = bestOtherFamily(profile, region);
    double known = other ? gainOf(other->seconds) : 0;
    advice.gainSeconds += known;
    advice.unknownSeconds += std::max(gainOf(predictedOf(region)) - known, 0.0);
    advice.regions.push_back(i);
  }
  return withText(advice, "tune",
                  fmt::format("{} regions take more than {:.2f} x what their kernels are predicted "
                              "to take, which others, measured, may not",
                              advice.regions.size(), kBeyondModel),
                  compileCommand(profile, {.more = "--budget 60s"}));
}

/// The engine's options with so many times the rows of the first input's first dim; null where the
/// model fixes them.
Json shapesTimes(const Profile &profile, int64_t factor) {
  Json options = profile.options, shapes = options.value("shapes", Json::object());
  bool isChanged = false;
  for (auto &[input, dims] : shapes.items()) {
    bool isBatch = dims.is_array() && !dims.empty() && dims[0].is_number() &&
                   !profile.inputs.empty() &&
                   dims[0].get<int64_t>() == profile.inputs.front().second.front();
    if (isBatch) {
      dims[0] = dims[0].get<int64_t>() * factor;
      isChanged = true;
    }
  }
  options["shapes"] = shapes;
  return isChanged ? options : Json();
}

/// Twice the rows at once on a GPU: what starts, fills and ends once is shared by more.
std::optional<Advice> ofRows(const Profile &profile) {
  constexpr int64_t kFactor = 2;
  if (!profile.isGpu || profile.inputs.empty() || profile.inputs.front().second.empty()) {
    return std::nullopt;
  }
  Advice advice = gainOf(profile, [](const RegionFigures &region) {
    std::optional<double> then = secondsWithRows(region, kFactor);
    return then ? std::min(*then / kFactor, region.seconds) : region.seconds;
  });
  advice.isOfSample = true;
  int64_t rows = profile.inputs.front().second.front();
  std::string command;
  if (profile.batch == kFactor * rows) {
    command = runCommand(profile, profile.batchInputs, "");
  } else if (Json options = shapesTimes(profile, kFactor); options.is_object()) {
    Profile other = profile;
    other.options = options;
    command = compileCommand(other, {});
  } else {
    return std::nullopt;
  }
  return withText(advice, "rows",
                  fmt::format("{} rows at once in place of {}: starts, first loads and waves that "
                              "are not full are shared by more",
                              kFactor * rows, rows),
                  command);
}

std::optional<Advice> ofFloat8(const Profile &profile) {
  const ComputeLimit *unit = profile.limits.best(Numbers::F8, profile.features);
  std::string precision = textAt(profile.options, "precision");
  if (!profile.isGpu || !unit || unit->numbers != Numbers::F8 || precision == "fp8") {
    return std::nullopt;
  }
  Advice advice = gainOf(profile, [](const RegionFigures &region) {
    std::optional<double> then = secondsInFloat8(region);
    return then ? std::min(*then, region.seconds) : region.seconds;
  });
  return withText(advice, "float8",
                  "8-bit floats multiply faster, and weights take half the bytes; what starts, "
                  "fills and ends a kernel stays, and quantizing comes on top",
                  compileCommand(profile, {.more = "--precision fp8"}));
}

std::optional<Advice> ofBatch(const Profile &profile) {
  if (profile.batch <= 1 || profile.inputs.empty() || profile.inputs.front().second.empty() ||
      profile.inputs.front().second.front() > 1) {
    return std::nullopt;
  }
  double batch = static_cast<double>(profile.batch);
  // Weights are read once for all samples; operations are each sample's own.
  Advice advice = gainOf(profile, [&](const RegionFigures &region) {
    if (region.weightBytes == 0 || region.bound == Bound::Compute) {
      return region.seconds;
    }
    const Floors &floors = region.floors;
    double weights = region.weightBytes / region.bytes;
    double memory = floors.memory * (1 - weights + weights / batch);
    double now = std::max({floors.compute, floors.memory, floors.launch, 1e-12});
    double then = std::max({floors.compute / kReached, memory, floors.launch / batch});
    return region.seconds * std::min(1.0, then / now);
  });
  advice.isOfSample = true;
  return withText(
      advice, "batch",
      fmt::format("weights are read once per run, for one sample: {} regions wait for them",
                  advice.regions.size()),
      runCommand(profile, profile.batchInputs, ""));
}

// In which numbers.

std::optional<Advice> ofBf16(const Profile &profile) {
  std::optional<engine::CpuLevel> best = runtime::bestCpuLevel();
  if (profile.isGpu || !best || textAt(profile.options, "precision") != "keep") {
    return std::nullopt;
  }
  const ComputeLimit *unit = profile.limits.best(Numbers::Bf16, engine::rowOf(*best).features);
  const ComputeLimit *fp32 = profile.limits.best(Numbers::F32, profile.features);
  if (!unit || !fp32 || unit->numbers != Numbers::Bf16 || unit->operations <= fp32->operations) {
    return std::nullopt;
  }
  Advice advice = gainOf(profile, [&](const RegionFigures &region) {
    bool isWide = isProduct(region) && region.numbers() == Numbers::F32;
    return isWide ? secondsBy(region, *fp32, *unit, 0.5, false) : region.seconds;
  });
  // Levels that were named stay the only ones; without names the compiler adds what pays.
  bool isOpen =
      profile.options.value("adds_levels", false) || (unit->features & ~profile.features) == 0;
  return withText(
      advice, "bf16",
      fmt::format("{} multiplies {:.1f} x as fast as FP32, and weights take half the bytes",
                  unit->unit, unit->operations / fp32->operations),
      compileCommand(profile, {.target = isOpen ? "" : fmt::format("cpu:{}", engine::nameOf(*best)),
                               .more = "--precision bf16"}));
}

/// Products of a GPU by tensor cores that take other numbers than the engine gives them.
std::optional<Advice> ofTensorCores(const Profile &profile, Numbers numbers, const char *rule,
                                    double weightFactor, std::string evidence, std::string flag) {
  const ComputeLimit *unit = profile.limits.best(numbers, profile.features);
  if (!profile.isGpu || !unit || unit->numbers != numbers ||
      textAt(profile.options, "precision") != "keep") {
    return std::nullopt;
  }
  Advice advice = gainOf(profile, [&](const RegionFigures &region) {
    const ComputeLimit *own = profile.limits.best(region.numbers(), profile.features);
    bool isWider = own && (own->numbers == Numbers::F32 || own->numbers == Numbers::Tf32) &&
                   own->operations < unit->operations;
    return isProduct(region) && isWider ? secondsBy(region, *own, *unit, weightFactor, true)
                                        : region.seconds;
  });
  return withText(advice, rule, std::move(evidence),
                  compileCommand(profile, {.more = std::move(flag)}));
}

std::optional<Advice> ofHalf(const Profile &profile) {
  return ofTensorCores(profile, Numbers::Bf16, "half", 0.5,
                       "tensor cores multiply 16-bit numbers, and weights take half the bytes",
                       "--precision fp16");
}

std::optional<Advice> ofTf32(const Profile &profile) {
  return ofTensorCores(profile, Numbers::Tf32, "tf32", 1,
                       "tensor cores multiply FP32 numbers rounded to 10 bits of mantissa",
                       "--allow tf32");
}

/// GELU by itself behind a library's product of 16-bit floats, which has its tanh form alone.
std::optional<Advice> ofTanhGelu(const Profile &profile) {
  bool hasHalf = std::ranges::any_of(profile.regions, [](const RegionFigures &region) {
    return isProduct(region) && region.numbers() == Numbers::Bf16;
  });
  if (!profile.isGpu || !hasHalf || profile.options.value("allow_tanh_gelu", false)) {
    return std::nullopt;
  }
  Advice advice = gainOf(profile, [&](const RegionFigures &region) {
    bool isGelu =
        !region.operators.empty() && std::ranges::all_of(region.operators, [&](size_t node) {
          return profile.operators[node].kind == "gelu";
        });
    return region.seconds * (isGelu ? kGeluInCall : 1);
  });
  return withText(advice, "tanh-gelu",
                  "a library's call computes GELU behind its product in the tanh form alone, which "
                  "is off by at most 4.8e-4; the exact form is a kernel of its own",
                  compileCommand(profile, {.more = "--allow tanh-gelu"}));
}

std::optional<Advice> ofInt8(const Profile &profile) {
  const ComputeLimit *unit = profile.limits.best(Numbers::I8, runtime::hostFeatures());
  const ComputeLimit *fp32 = profile.limits.best(Numbers::F32, profile.features);
  if (profile.isGpu || !unit || !fp32 || unit->numbers != Numbers::I8) {
    return std::nullopt;
  }
  Advice advice = gainOf(profile, [&](const RegionFigures &region) {
    bool isWide = isProduct(region) && region.numbers() == Numbers::F32 && region.weightBytes > 0;
    return isWide ? secondsBy(region, *fp32, *unit, 0.25, false) : region.seconds;
  });
  return withText(
      advice, "int8",
      fmt::format(
          "{} multiplies {:.1f} x as fast as FP32, and weights take a quarter of the bytes; "
          "needs samples, and costs accuracy",
          unit->unit, unit->operations / fp32->operations),
      fmt::format("tenon quantize {} --data {} -o {}", quoted(profile.model), "calib.npz",
                  "model.int8.onnx"));
}

// What the model asks for.

std::optional<Advice> ofConversions(const Profile &profile) {
  Advice advice = gainOf(
      profile, [&](const RegionFigures &region) { return region.converts ? 0 : region.seconds; });
  return withText(advice, "conversions",
                  "the model converts between number types in kernels of their own",
                  explainCommand(profile, "precision", ""));
}

/// One for the longest region where `isOf` says yes.
template <typename Is, typename Then>
std::optional<Advice> longestOf(const Profile &profile, Is isOf, Then secondsThen) {
  std::optional<Advice> best;
  for (size_t i = 0; i < profile.regions.size(); ++i) {
    const RegionFigures &region = profile.regions[i];
    double gain = isOf(region) ? region.seconds - secondsThen(region) : 0;
    if (gain > 0 && (!best || gain > best->gainSeconds)) {
      best = Advice{.rule = "", .evidence = "", .command = "", .gainSeconds = gain, .regions = {i}};
    }
  }
  return best;
}

std::optional<Advice> ofLayout(const Profile &profile) {
  Advice advice = gainOf(profile, [&](const RegionFigures &region) {
    bool isLayout =
        !region.operators.empty() && std::ranges::all_of(region.operators, [&](size_t node) {
          const std::string &kind = profile.operators[node].kind;
          return kind == "transpose" || kind == "reshape" || kind == "to_layout";
        });
    return isLayout ? 0 : region.seconds;
  });
  if (advice.regions.empty()) {
    return std::nullopt;
  }
  std::string name = nodeOf(profile, advice.regions.front());
  return withText(
      advice, "layout",
      "transposes in the model are kernels of their own; explain shows what prevents fusion",
      explainCommand(profile, "fusion", name));
}

std::optional<Advice> ofSlowFamily(const Profile &profile) {
  auto floorOf = [](const RegionFigures &region) {
    return std::max({region.floors.compute, region.floors.memory, region.floors.launch}) / kReached;
  };
  std::optional<Advice> advice =
      longestOf(profile, [](const RegionFigures &region) { return !region.slow.empty(); }, floorOf);
  if (!advice) {
    return std::nullopt;
  }
  const RegionFigures &region = profile.regions[advice->regions.front()];
  return withText(*advice, "slow-family", region.slow,
                  explainCommand(profile, "kernels", nodeOf(profile, advice->regions.front())));
}

std::optional<Advice> ofUnfused(const Profile &profile) {
  auto edgeOf = [](const RegionFigures &region) -> const Json * {
    const Json *best = nullptr;
    double most = 0;
    for (const Json &edge : region.apart) {
      double saved = edge.value("apart_us", 0.0) - edge.value("fused_us", 0.0);
      if (saved > most) {
        most = saved;
        best = &edge;
      }
    }
    return best;
  };
  std::optional<Advice> advice = longestOf(
      profile,
      [&](const RegionFigures &region) {
        bool isHeld = region.bound == Bound::Memory || region.bound == Bound::Launch ||
                      (profile.isGpu && region.bound == Bound::Latency);
        return isHeld && edgeOf(region);
      },
      [&](const RegionFigures &region) {
        const Json &edge = *edgeOf(region);
        return region.seconds * edge.value("fused_us", 0.0) / edge.value("apart_us", 1.0);
      });
  if (!advice) {
    return std::nullopt;
  }
  const Json &edge = *edgeOf(profile.regions[advice->regions.front()]);
  return withText(*advice, "unfused",
                  fmt::format("{} and {} are apart: {} (rule {})", textAt(edge, "producer"),
                              textAt(edge, "consumer"), textAt(edge, "why"), textAt(edge, "rule")),
                  explainCommand(profile, "fusion", textAt(edge, "producer")));
}

/// In the order in which they are given.
enum class Kind {
  Remedy,  ///< one command that changes the time alone
  Numbers, ///< one command that changes results too, by their rounding
  Hint,    ///< where to look, or what needs something of the user
};

struct Rule {
  std::optional<Advice> (*look)(const Profile &profile);
  Kind kind;
};

constexpr Rule kRules[] = {
    {ofGuard, Kind::Remedy},        {ofForbiddenKernels, Kind::Remedy},
    {ofExtraOutputs, Kind::Remedy}, {ofLevel, Kind::Remedy},
    {ofThreads, Kind::Remedy},      {ofSizes, Kind::Remedy},
    {ofOtherKernels, Kind::Remedy}, {ofTuning, Kind::Remedy},
    {ofBf16, Kind::Numbers},        {ofHalf, Kind::Numbers},
    {ofTf32, Kind::Numbers},        {ofFloat8, Kind::Numbers},
    {ofTanhGelu, Kind::Numbers},    {ofBatch, Kind::Hint},
    {ofRows, Kind::Hint},           {ofInt8, Kind::Hint},
    {ofConversions, Kind::Hint},    {ofLayout, Kind::Hint},
    {ofSlowFamily, Kind::Hint},     {ofUnfused, Kind::Hint},
};

/// For a region that no advice helps: what was weighed, with its times.
void considerFor(const Profile &profile, RegionFigures &region) {
  auto add = [&](const std::string &what, double then) {
    region.considered.push_back(fmt::format("{} {:.2f} us", what, then * 1e6));
  };
  if (isBeyondModel(region)) {
    region.considered.push_back(fmt::format("{:.2f} us were predicted: --budget 60s measures "
                                            "other configurations",
                                            predictedOf(region) * 1e6));
  } else if (std::optional<OtherKernel> other = fasterKernel(region)) {
    add(other->kernel, other->seconds);
  } else if (!region.parts.empty()) {
    region.considered.push_back("no other kernel is predicted to be faster");
  } else if (!region.label.empty()) {
    region.considered.push_back("compiled for these sizes alone, its kernel would say more");
  }
  if (std::optional<double> then = secondsWithRows(region, 2)) {
    add("twice the rows, half of it", *then / 2);
  }
  const ComputeLimit *float8 = profile.limits.best(Numbers::F8, profile.features);
  bool hasFloat8 =
      float8 && float8->numbers == Numbers::F8 && textAt(profile.options, "precision") != "fp8";
  if (std::optional<double> then = secondsInFloat8(region); then && hasFloat8) {
    add("8-bit floats", *then);
  }
}

} // namespace

const Advice *Profile::adviceFor(size_t region) const {
  for (const Advice &known : advice) {
    if (std::ranges::find(known.regions, region) != known.regions.end()) {
      return &known;
    }
  }
  return nullptr;
}

void advise(Profile &profile) {
  std::vector<std::pair<Kind, Advice>> found;
  for (const Rule &rule : kRules) {
    std::optional<Advice> advice = rule.look(profile);
    bool pays = advice && !advice->regions.empty() &&
                (profile.share(advice->gainSeconds) >= kMinGain ||
                 profile.share(advice->unknownSeconds) >= kMinUnknown);
    if (pays) {
      advice->changesNumbers = rule.kind == Kind::Numbers;
      found.emplace_back(rule.kind, *std::move(advice));
    }
  }
  std::ranges::stable_sort(found, [](const auto &a, const auto &b) {
    return std::pair(a.first, -a.second.gainSeconds) < std::pair(b.first, -b.second.gainSeconds);
  });
  for (auto &[kind, advice] : found) {
    profile.advice.push_back(std::move(advice));
  }
  for (size_t i = 0; profile.isGpu && i < profile.regions.size(); ++i) {
    if (profile.regions[i].bound == Bound::Latency && !profile.adviceFor(i)) {
      considerFor(profile, profile.regions[i]);
    }
  }
}

} // namespace tenon::tool
