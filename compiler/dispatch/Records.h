// The decision records of dispatch: which regions exist and why, and for every edge between two
// regions why it was not fused. The engine carries them as the record "fusion"
// (docs/reference/explain.md); no MLIR in this header.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon::dispatch {

/// What the cost model says of a kernel or of several.
struct Cost {
  int64_t bytes = 0; ///< moved: inputs read once and outputs written
  double work = 0;   ///< operations
  int64_t launches = 0;
  double microseconds = 0;
  /// Of elementwise kernels and those of rows on a GPU, the estimate; else 0. Of several kernels
  /// the most registers and the least occupancy.
  int64_t registers = 0;       ///< that a thread wants
  int64_t occupancy = 0;       ///< percent of the threads that a multiprocessor may hold
  double lostMicroseconds = 0; ///< of the time: to low occupancy and to values put aside in memory
  /// What moving the bytes takes, and what the operations do; the larger of the two counts. From
  /// them follows the time at other sizes.
  double bytesMicroseconds = 0;
  double workMicroseconds = 0;

  Cost &operator+=(const Cost &other);
};

/// A named term of a kernel's predicted time.
struct TimePart {
  std::string name; ///< stable: "fill"; docs/reference/explain.md lists them
  double microseconds = 0;
};

/// What a GPU's kernel is predicted to spend its time on; no parts where its family does not say.
struct TimeParts {
  std::vector<TimePart> parts; ///< together what is predicted
  int64_t blocks = 0;          ///< of the grid; 0 where a library decides
  int64_t atOnce = 0;          ///< blocks that the multiprocessors run at once
  int64_t steps = 0;           ///< that a block does one after the other; 0 where it has no loop

  /// Leaves out what takes no time.
  void add(const char *name, double seconds);
  double microseconds() const;
};

/// What one kernel family answered when it was asked about a region.
struct CandidateRecord {
  std::string kernel;      ///< the family with its configuration, or alone if it refused
  std::string verdict;     ///< "chosen", "possible", "refused", "disabled" or "excluded"
  std::string why;         ///< a sentence
  double microseconds = 0; ///< predicted; 0 if it refused
  std::string order = {};  ///< of an invariant model: of the sums in a row
  TimeParts time = {};
};

/// What a region of an invariant model would get if it were none.
struct FreeChoice {
  std::string kernel;
  double microseconds = 0;
};

/// What a region's products would take in other numbers than theirs; none if `name` is empty.
struct OtherNumbers {
  std::string name; ///< "fp32", "8-bit integers" or "bf16"
  double microseconds = 0;
  double bytesMicroseconds = 0, workMicroseconds = 0; ///< as in Cost
};

/// The same region on another level that shares regions, kernels and plan.
struct LevelRecord {
  std::string level;
  double microseconds = 0;
  double bytesMicroseconds = 0, workMicroseconds = 0;
  OtherNumbers other;
  std::vector<CandidateRecord> candidates;
};

/// A time that was measured, and the bytes of the tensors of that run.
struct MeasuredTime {
  int64_t bytes = 0;
  double microseconds = 0;
};

/// One region: what it holds and why.
struct RegionRecord {
  std::string label; ///< "conv1+relu1"
  std::string target;
  std::string strategy;
  std::string reason; ///< a sentence
  std::vector<std::string> nodes;
  std::vector<std::string> operations;
  Cost cost;               ///< once kernels are chosen, its time is that of the chosen one
  std::string kernel = {}; ///< KernelChoice::text
  std::vector<CandidateRecord> candidates = {}; ///< in the order of preference
  std::string computes = {};                    ///< the numbers of its products; empty without any
  std::string wide = {};   ///< why these are floats though an operand is quantized; else empty
  OtherNumbers other = {}; ///< FP32 where an operand is narrower, else what was predicted slower
  std::optional<int64_t> priced = std::nullopt; ///< the number of the price of both, if any
  std::vector<LevelRecord> levels = {};
  std::optional<FreeChoice> freely = std::nullopt; ///< of an invariant model
  bool converts = false; ///< whether all of it is quantization or casts of the model
  std::vector<MeasuredTime> measured = {}; ///< of a kernel of the user's, by bytes
  std::string slow =
      {}; ///< why no kernel is near what its bytes and operations need; empty if one is
};

/// One edge that was considered for fusion, between operations that ended in different regions.
struct EdgeRecord {
  std::string producer; ///< node names, or the operation where it has none
  std::string consumer;
  int64_t producerRegion = 0;
  int64_t consumerRegion = 0;
  std::string verdict; ///< "apart"
  std::string rule;    ///< short and stable: "dims-differ"
  std::string why;     ///< the rule in words
  std::string decided; ///< the numbers that decided; empty where the form of the two does
  Cost apart;          ///< both regions as they are: the sum of their costs
  Cost fused;          ///< if they were one
};

struct Records {
  std::string profile;
  double launchMicroseconds = 0; ///< of each kernel's time, what starting it takes
  /// Each symbol of the model with the size at which was decided and estimated.
  std::vector<std::pair<std::string, int64_t>> sizes;
  std::vector<RegionRecord> regions;
  std::vector<EdgeRecord> edges;

  /// Sets a region's time to that of its kernel. What one kernel would save at an edge stays.
  void setKernelTime(size_t region, double microseconds);

  /// JSON text; equal records give equal text.
  std::string toJson() const;
};

} // namespace tenon::dispatch
