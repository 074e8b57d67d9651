// What several GPUs would make of a model: its cuts, memory, messages and time, all predicted from
// shapes. Free of MLIR. Weights are not read, so that a model may be larger than this machine.

#pragma once

#include "compiler/target/Target.h"
#include "support/Result.h"
#include "support/ShapeArgument.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

struct ShardingRequest {
  std::string model;
  std::vector<int64_t> ranks = {1, 2, 4, 8}; ///< how many GPUs share each layer
  std::vector<std::string> pins;             ///< NODE=column|row|replicate
  std::vector<ShapeArgument> shapes;
  target::Target target;
  std::string precision;           ///< fp32, fp16 or bf16; empty: as most weights are stored
  std::optional<double> allReduce; ///< seconds of a short one, instead of the table's
  int64_t context = 2048;          ///< positions that a token sees
  int64_t load = 65536;            ///< positions in all caches together
  int64_t pages = 0;               ///< of a language model's session
  int64_t stages = 1;              ///< one behind the other, of `ranks` GPUs each
  int64_t microBatches = 8;        ///< that pass them
  bool isChecked = false;          ///< all ranks are run by the reference
};

/// Layers of one kind: numbers in their names are `*`.
struct ShardedMatrix {
  std::string name, sizes; ///< "4096 x 1024"
  std::string cut;         ///< column, row, vocabulary, expert or replicate
  int64_t count = 0;
  double wholeSeconds = 0, cutSeconds = 0, messageSeconds = 0; ///< of one of them, for a token
};
struct ShardingMessages {
  std::string kind; ///< all-reduce or all-gather
  int64_t bytes = 0, count = 0;
  double seconds = 0; ///< of all
};
/// One kind of run: a token, a prompt, or the only kind that a model has.
struct ShardingRun {
  std::string name;
  double oneSeconds = 0, seconds = 0; ///< of one GPU and of these
  std::vector<ShardingMessages> messages;
  double speedup() const { return seconds > 0 ? oneSeconds / seconds : 1; }
};
/// What one GPU of a stage holds and takes for the first kind of run.
struct ShardingStage {
  std::string first, last; ///< layers
  int64_t weightBytes = 0, cacheBytesOfToken = 0, receivedBytes = 0;
  double seconds = 0, receiving = 0;
};
struct ShardingOption {
  int64_t ranks = 1;
  int64_t weightBytes = 0, cacheBytesOfToken = 0, activationBytes = 0; ///< of one GPU
  std::vector<ShardedMatrix> matrices;
  std::vector<ShardingRun> runs;
  std::vector<ShardingStage> stages;    ///< none where there is one
  bool isExhaustive = true;             ///< the search kept all combinations
  std::vector<std::string> withoutRule; ///< operations that all ranks compute whole
  std::optional<double> difference;     ///< of the checked outputs, relative
  std::string differs;                  ///< the output with it
};
struct ShardingReport {
  std::string target, precision;
  std::string messages;   ///< where their times come from, in words
  double memoryBytes = 0; ///< of a GPU, as vendors print it; 0 where it is not known
  std::vector<ShardingOption> options;
};

/// TN0105 for a pin that cannot hold; else as importing the model.
Result<ShardingReport> predictSharding(const ShardingRequest &request);

} // namespace tenon::tool
