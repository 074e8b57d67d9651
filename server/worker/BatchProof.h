// Whether requests to a model may be batched along dim 0. That its rows are independent follows
// from its graph, and the engine records it; seeded rows that are run alone and in batches are a
// second look, which tells how far sums in another order differ.

#pragma once

#include "server/ipc/ModelInfo.h"
#include "server/worker/EngineRecord.h"
#include "tenon/tenon.h"

#include <chrono>

namespace tenon::server {

/// Runs the engine in a session of its own, of `threads`, which is gone when this returns. Whatever
/// keeps the proof from being made is a refusal with its reason; a model of which nobody said that
/// it has a batch, and whose record says that it has none, gives State::None.
///
/// Outputs are equal when all bits are, or, of a floating type, when they differ by no more than
/// `policy.tolerance` times the largest magnitude of the output's channel in the rows run alone.
/// Where the policy names none, that is 1e-10 for F64, 1e-4 for F32, 2.5e-3 for F16 and 2e-2 for
/// BF16 and floats of 8 bits, the coarsest of the types that the engine computes in: kernels for
/// other sizes add in another order, and so far an engine may lie from the model itself
/// (docs/guides/accuracy.md), alone or batched.
///
/// The second look takes at most a second, half of the time since `loadBegan`, and the policy's
/// memory, but for one row; what it has not seen by then it leaves to the record.
BatchInfo proveBatch(const tenon_engine *engine, const ModelPorts &ports,
                     const EngineRecord &record, const BatchPolicy &policy, unsigned threads,
                     std::chrono::steady_clock::time_point loadBegan);

} // namespace tenon::server
