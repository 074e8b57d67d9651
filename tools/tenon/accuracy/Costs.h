// What models cost that `accuracy` compares: memory, latency, sizes of files.

#pragma once

#include "support/json/Json.h"
#include "tools/tenon/bench/Interleaved.h"
#include "tools/tenon/data/Dataset.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/task/TaskListener.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::tool {

/// Bytes that opening the engine and running a first sample add to a process at most. It is a
/// process of its own, so this one must not have begun with a GPU; the best is one without
/// sessions.
Result<uint64_t> memoryOfFirstRun(const std::string &path, const EngineSource &source,
                                  const Dataset &data, const runtime::SessionOptions &options);

struct CostSubject {
  std::string path;       ///< as given
  std::string enginePath; ///< the same where an engine was given
  std::shared_ptr<const runtime::Engine> engine;
  std::vector<Tensor> inputs;
  uint64_t peakMemory = 0; ///< of memoryOfFirstRun; on a GPU the session tells
};

/// For each a row: latency, measured in turn, its ratio to the first's, bytes of files and memory.
Result<std::vector<Json>> measureCosts(std::vector<CostSubject> subjects,
                                       const runtime::SessionOptions &options,
                                       const MeasureBudget &budget, TaskListener &listener);

} // namespace tenon::tool
