// What a config.pbtxt of a Triton folder says, as far as the server does it; the names are those of Triton's model_config.proto.

#pragma once

#include "support/DType.h"
#include "support/Result.h"

#include <cstdint>
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

struct ModelConfig {
  std::string name; ///< empty: that of the folder
  std::string platform;
  std::string backend;
  /// The batch is dim 0 of every input and output, and has at most so many rows; 0: there is no batch.
  uint64_t maxBatchSize = 0;
  std::vector<ConfigPort> inputs;
  std::vector<ConfigPort> outputs;
  VersionPolicy versions;
  /// How many requests of the model run at once.
  uint64_t instances = 1;
  std::vector<std::pair<std::string, std::string>> parameters;
  /// Things that were passed over, each with its line, for the server's log.
  std::vector<std::string> notes;
};

/// Parses the text of a config.pbtxt called `file`. A field that the server does not know is TN0805 with its line, or a note where
/// `isLenient`.
Result<ModelConfig> parseModelConfig(std::string_view text, std::string_view file, bool isLenient);

} // namespace tenon::server
