// What a profile says: the times of an engine's regions and of the model's operators in them, what
// holds each back, and what would help. Every form (text, JSON, page, trace) shows this one value.

#pragma once

#include "tools/tenon/profile/Counters.h"
#include "tools/tenon/profile/Limits.h"
#include "tools/tenon/profile/Measure.h"
#include "tools/view/EngineGraph.h"

#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tool {

/// What holds a region back.
enum class Bound {
  Compute,   ///< an arithmetic unit
  Memory,    ///< reads and writes of a level of memory
  Launch,    ///< starting the kernel, and threads that meet
  Imbalance, ///< threads that wait for the last one
  Serial,    ///< one thread does it
  Latency,   ///< none of these: below 60 % of every limit
  Short,     ///< shorter than what the clock tells apart
  Unknown,   ///< the machine was too busy to tell, or the limit that holds it was not measured
};
inline constexpr std::array<std::string_view, 8> kBoundNames = {
    "compute", "memory", "launch", "imbalance", "serial", "latency", "too short", "unknown"};
constexpr std::string_view nameOf(Bound bound) { return kBoundNames[static_cast<size_t>(bound)]; }

/// Least seconds that a region could take by each limit.
struct Floors {
  double compute = 0, memory = 0, launch = 0;
  std::string unit;  ///< of compute
  std::string level; ///< of memory: where most of its bytes come from
};

/// A tensor that a region reads or writes.
struct TensorFigures {
  std::string name, dtype;
  std::vector<int64_t> dims;
};

/// A term of the time that the cost model predicts for a kernel on a GPU.
struct KernelPart {
  std::string name; ///< "fill"; docs/reference/explain.md lists them
  double seconds = 0;
};

/// What keeps a region on a GPU from its nearest limit, by the parts of its prediction.
struct Cause {
  std::string part;   ///< a part's name, "beyond-model" or "not-divided"
  double seconds = 0; ///< of the region's time
  std::string text;   ///< in words, with its numbers
};

/// What the engine runs as one, in one or several instructions.
struct RegionFigures {
  std::string label, kernel, strategy;
  std::string slow;                ///< why no kernel is near what it needs; empty if one is
  std::string computes;            ///< "f32"; empty without products
  Json candidates = Json::array(); ///< of the record "fusion", at these sizes
  Json apart = Json::array();      ///< neighbours that were not fused, as view::Region
  bool converts = false;           ///< all of it is quantization or casts
  std::vector<uint32_t> instructions;
  std::vector<size_t> operators;
  std::vector<TensorFigures> reads,
      writes; ///< of other regions, of the model's inputs, outputs and weights

  double seconds = 0, busySeconds = 0;
  double medianSeconds = 0; ///< the medians of its steps together
  std::optional<double> oneThreadSeconds, inARowSeconds;
  double flops = 0, bytes = 0, weightBytes = 0;
  /// What the kernel computes for them, and how where that is other than what the model says.
  double kernelFlops = 0;
  std::string kernelWork;      ///< "by Winograd's filtering"
  double tileShare = 1;        ///< of kernelFlops, what whole tiles of a matrix unit compute
  double extraOutputBytes = 0; ///< of values that are written only as --tap makes them outputs
  bool isParallel = true;      ///< whether there is more than one part to share
  double predictedSeconds = 0; ///< by the cost model

  // On a GPU.
  /// Whether norms or functions of bounded results stand before its product, and its weights have
  /// sizes that 8-bit floats take.
  bool fitsFloat8 = false;
  std::optional<StepCounters> counters; ///< of its longest step, where they were read
  double countedSeconds = 0;            ///< of that step
  std::vector<KernelPart> parts;        ///< of what was predicted for the kernel, at these sizes
  int64_t blocks = 0, atOnce = 0;       ///< of the parts: of the grid, and at once; 0 if unknown
  int64_t steps = 0;                    ///< of a block, one after the other; 0 if unknown
  int64_t grid = 0;                     ///< blocks of its largest launch; 0 of library calls
  std::vector<Cause> causes;            ///< the largest first
  std::vector<std::string> considered;  ///< what would help too little, with its prediction

  Floors floors;
  Bound bound = Bound::Latency;
  double limitShare = 0; ///< of the limit that is nearest
  std::string limit;     ///< its name: "FMA, 256 bits", "L2", "memory", "launch"
  std::string cause;     ///< a sentence

  Numbers numbers() const;
};

/// A node of the model that the passes left, or an instruction that belongs to none.
struct OperatorFigures {
  std::string name;               ///< of the model's node
  std::vector<std::string> names; ///< where it stands for several
  std::string kind;               ///< "matmul", "gelu"
  std::vector<std::string> from;  ///< the model's own operators
  std::string module, source;
  size_t region = 0;
  double seconds = 0, flops = 0, bytes = 0;
  /// Whether it shares a kernel, so that its part of the time is by the model.
  bool isSplit = false;
};

/// Operators that are alike: the same but for numbers in their names, as in the layers of an
/// encoder.
struct OperatorGroup {
  std::string name; ///< with * for numbers that differ
  std::vector<size_t> operators;
  double seconds = 0, flops = 0, bytes = 0;
  size_t region = 0; ///< that of them which takes longest: its class and cause are the group's
  bool isSplit = false;
};

/// Something to try.
struct Advice {
  std::string rule;     ///< "threads"; docs/guides/profile.md lists them
  std::string evidence; ///< a sentence with the numbers that speak for it
  std::string command;
  double gainSeconds = 0; ///< of a run, predicted
  /// What nothing predicts, but measuring may find besides, at most.
  double unknownSeconds = 0;
  /// Whether the gain is of the time of a sample where several are run at once.
  bool isOfSample = false;
  bool changesNumbers = false; ///< whether results are rounded otherwise after it
  std::vector<size_t> regions; ///< that would gain
};

/// Names of inputs and what they are run with.
using InputDims = std::vector<std::pair<std::string, std::vector<int64_t>>>;

struct Profile {
  std::string path;   ///< as the user gave it
  std::string model;  ///< of the commands: a path, or "MODEL" where it is not known
  std::string engine; ///< of the commands: likewise
  std::string level;  ///< of the variant
  uint32_t features = 0;
  std::string sizes;           ///< "batch=1, sequence=128"; empty where all are fixed
  bool areSizesLikely = false; ///< whether they were chosen for the user
  InputDims inputs;
  /// As many samples as advice would run at once, which is the first dim of the first input, and
  /// the inputs for them; 1 and none where the engine takes only what was run.
  int64_t batch = 1;
  InputDims batchInputs;
  std::vector<std::string> ports;        ///< names of the model's inputs and outputs
  std::vector<std::string> extraOutputs; ///< names of the nodes whose results are outputs by --tap
  Json options = Json::object();         ///< the engine's
  bool isGpu = false;
  Limits limits;
  Measurement measured;
  std::vector<StepCounters> counters; ///< of steps on a GPU, where they were read
  std::vector<RegionFigures> regions;
  std::vector<OperatorFigures> operators;
  std::vector<OperatorGroup> groups; ///< the longest first
  /// What changes the time alone, then what changes results too, then what tells where to look; of
  /// each the largest gain first.
  std::vector<Advice> advice;

  double share(double seconds) const {
    return measured.timedSeconds > 0 ? seconds / measured.timedSeconds : 0;
  }
  /// The best that applies to a region; null for none.
  const Advice *adviceFor(size_t region) const;
};

/// Fills regions and operators from the measurement and the records of the engine.
Status joinRecords(const engine::EngineFile &file, const engine::Plan &plan, Profile &profile);
/// Fills the floors, classes and causes of the regions.
void classify(Profile &profile);
/// Fills the parts of regions' times, and the groups, for which floors are needed.
void splitOperators(Profile &profile);
/// Fills the advice.
void advise(Profile &profile);

/// Of `tenon profile --json`: schema tenon.profile/1.
Json toJson(const Profile &profile);
/// One screen for people with the `top` longest groups.
std::string profileText(const Profile &profile, size_t top);

} // namespace tenon::tool
