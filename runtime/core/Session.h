// A session runs an engine: it owns an arena, state and threads of its own. One thread at a time
// may use a session; different sessions of one engine run at the same time.

#pragma once

#include "runtime/core/Engine.h"
#include "support/Result.h"

#include <cstdint>
#include <memory>
#include <span>

namespace tenon::runtime {

inline constexpr unsigned kMostThreads = 1024;

struct SessionOptions {
  /// Threads that work on a run, the caller's included; 0 takes the number of usable CPUs, more
  /// than kMostThreads are refused.
  unsigned threads = 0;
  /// Most bytes that the session may hold for arena, state, scratch and kept outputs; a run that
  /// needs more fails with TN0606.
  uint64_t memoryLimit = uint64_t(64) << 30;
};

/// A tensor passed to a run: dense, row-major, aligned to its element, of the port's dtype.
struct InputBinding {
  const void *data = nullptr;
  std::span<const int64_t> dims;
};

/// Where a run puts an output. A null pointer keeps it in the session (see Session::outputData).
struct OutputBinding {
  void *data = nullptr;
  uint64_t bytes = 0; ///< room at `data`
};

struct MemoryUse {
  uint64_t arenaBytes = 0;
  /// Largest sum of live sizes for the current dims; 0 when the compiler laid the arena out.
  uint64_t arenaLowerBoundBytes = 0;
  uint64_t stateBytes = 0;
  uint64_t scratchBytes = 0; ///< all threads together
};

class Session {
public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Engine> engine,
                                                 const SessionOptions &options = {});
  ~Session();

  const Engine &engine() const;
  unsigned threads() const;

  /// Makes the session ready for these input dims (in order of the inputs): symbols are bound and
  /// checked, sizes evaluated, the arena laid out. The last 64 sets of dims are remembered.
  Status prepare(std::span<const std::span<const int64_t>> inputDims);
  /// Whether dims are prepared: after a successful prepare or run, and at once when all are fixed.
  bool isPrepared() const;
  /// Dims of an output for the dims last prepared or run. Valid until the next prepare or run.
  std::span<const int64_t> outputDims(size_t output) const;
  uint64_t outputBytes(size_t output) const;

  /// Prepares for the inputs' dims and runs the plan. Outputs are complete when it returns ok and
  /// undefined otherwise. No input may overlap an output, nor outputs each other. With dims seen
  /// before, nothing is allocated.
  Status run(std::span<const InputBinding> inputs, std::span<const OutputBinding> outputs);
  /// The bytes of an output kept in the session by the last run. Valid until the next run.
  const void *outputData(size_t output) const;

  /// Zeroes the state buffers.
  void resetState();
  MemoryUse memoryUse() const;

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> implementation);
  std::unique_ptr<Impl> impl;
};

} // namespace tenon::runtime
