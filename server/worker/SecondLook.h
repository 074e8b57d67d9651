// The second look at whether requests may be batched, beside what the engine's record proves:
// seeded rows are run alone and in batches, and their outputs compared.

#pragma once

#include "server/ipc/ModelInfo.h"
#include "server/worker/EngineRecord.h"
#include "tenon/tenon.h"

#include <chrono>

namespace tenon::server {

/// An answer of the proof: requests are not batched, or not padded.
Status refusedBatch(std::string_view why);

struct LookPlan {
  uint64_t maxRows = 1;  ///< of a batch
  std::string paddedDim; ///< the symbol in which rows are to differ; empty: none
  std::chrono::steady_clock::time_point deadline;
};

/// Runs rows that differ in seed and amplitude, along the padded dim in length too: each alone,
/// then in batches of 2, of 3, of all and of as many rows as a batch may have, as far as the
/// deadline and the policy's memory allow. In a session of its own, of `threads`. The largest
/// difference, relative to the largest value of the output's channel; NotBatchable where one is not
/// allowed, or the engine keeps a state.
Result<double> secondLook(const tenon_engine *engine, unsigned threads, const ModelPorts &ports,
                          const EngineRecord &record, const BatchPolicy &policy,
                          const LookPlan &plan);

} // namespace tenon::server
