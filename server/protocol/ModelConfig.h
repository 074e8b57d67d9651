// What a config.pbtxt of a Triton folder says, as far as the server does it; the names are those of
// Triton's model_config.proto.

#pragma once

#include "support/DType.h"
#include "support/Result.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::server {

struct ConfigPort {
  std::string name;
  DType dtype = DType::F32;
  /// Without the batch where max_batch_size is not 0; -1 for a dim that varies.
  std::vector<int64_t> dims;
  unsigned line = 0;
};

struct VersionPolicy {
  enum class Kind { Latest, All, Specific };
  Kind kind = Kind::Latest;
  uint64_t latest = 1;
  std::vector<int64_t> specific;
};

/// What becomes of requests that wait.
struct QueuePolicy {
  /// At the end of its time a request is answered with TN0813, or else runs after all of its
  /// priority that still have time.
  bool rejectsLate = true;
  uint64_t timeoutMicroseconds = 0; ///< 0: none
  /// A request may ask for less time (for any, where there is no other bound).
  bool allowsOwnTimeout = true;
  uint64_t maxQueued = 0; ///< 0: no other bound than the server's
};

/// How requests wait.
struct QueueConfig {
  uint64_t priorityLevels = 0; ///< 1 is the highest; 0: all are equal
  uint64_t defaultPriority = 0;
  QueuePolicy policy;
  std::map<uint64_t, QueuePolicy> policies; ///< of priorities that have one of their own

  const QueuePolicy &policyOf(uint64_t priority) const {
    std::map<uint64_t, QueuePolicy>::const_iterator own = policies.find(priority);
    return own == policies.end() ? policy : own->second;
  }
};

struct BatchingConfig : QueueConfig {
  std::vector<uint64_t> preferred; ///< rows of a batch, ascending
  uint64_t delayMicroseconds = 0;  ///< that a request waits for others at most
};

/// Where a model is to run.
struct Placement {
  /// Auto: on a GPU where there is one that the engine has a variant for, or else on the CPU.
  enum class Kind { Auto, Cpu, Gpu };
  Kind kind = Kind::Auto;
  std::vector<uint64_t> gpus; ///< one for each rank of the engine; empty: any
};

struct ModelConfig {
  std::string name; ///< empty: that of the folder
  std::string platform;
  std::string backend;
  std::string fileName; ///< of the engine in the folder of a version; empty: model.tenon
  /// The batch is dim 0 of every input and output, and has at most so many rows; 0: there is no
  /// batch.
  uint64_t maxBatchSize = 0;
  bool hasMaxBatchSize = false; ///< max_batch_size stands there
  std::optional<BatchingConfig> batching;
  std::vector<ConfigPort> inputs;
  std::vector<ConfigPort> outputs;
  VersionPolicy versions;
  /// How many requests of the model run at once.
  uint64_t instances = 1;
  Placement placement;
  std::vector<std::pair<std::string, std::string>> parameters;
  /// Of the parameter pad: inputs that may be made longer so that requests fit in one batch, and
  /// what they are filled with.
  std::vector<std::pair<std::string, double>> pads;
  /// Of the parameter buckets, ascending: the lengths that inputs are padded to; empty: powers of
  /// two from 16.
  std::vector<int64_t> buckets;
  bool hasOwnWorker = false; ///< of the parameter worker: it shares its process with no other model
  /// Of the parameters users and tokens: texts that a language model continues at once, and
  /// positions of each; 0: as the server has it.
  uint64_t users = 0, tokens = 0;
  bool isPinned = false;               ///< of the parameter pin: the model stays in memory
  bool acceptsMeetings = false;        ///< of the parameter answers_may_depend_on_other_requests
  std::optional<uint64_t> draftTokens; ///< of the parameter draft_tokens
  std::string draftModel;              ///< of the parameter draft_model: a file beside the engine
  double batchTolerance = 0; ///< of the parameter batch_tolerance; 0: what is usual for the type
  /// Things that were passed over, each with its line, for the server's log.
  std::vector<std::string> notes;
};

/// Parses the text of a config.pbtxt called `file`. A field that the server does not know is TN0805
/// with its line, or a note where `isLenient`.
Result<ModelConfig> parseModelConfig(std::string_view text, std::string_view file, bool isLenient);

} // namespace tenon::server
