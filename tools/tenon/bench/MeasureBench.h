// Load time, first result, then warm runs of an engine; with a second one both in turn, so that
// what disturbs the machine disturbs both. Times are of the steady clock around Session::run; on a
// GPU each is paired with the GPU's own time of runs whose tensors stay there.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"
#include "tools/tenon/bench/Interleaved.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/inputs/Inputs.h"
#include "tools/tenon/task/TaskListener.h"

#include <string>

namespace tenon::tool {

struct BenchRequest {
  OpenRequest open;  ///< an engine, or a model to compile first; shapes are those of the inputs
  std::string other; ///< a second one, opened the same way; empty for none
  InputFlags inputs;
  runtime::SessionOptions session;
  MeasureBudget budget;
  bool isCold = false; ///< on a GPU: through more tensors in turn than its caches hold
  BenchDetails details;
};

/// tenon.bench/1 without its schema, of the second engine under "ab"; benchText has it for people.
/// TN0105 where what only a GPU has is asked of an engine for CPUs.
Result<Json> measureBench(const BenchRequest &request, TaskListener &listener);

} // namespace tenon::tool
