// What a device does for an engine and for a session: the border between runtime/core, which knows
// no device, and runtime/device. Relies on validated plans.

#pragma once

#include "runtime/plan/BoundPlan.h"
#include "runtime/plan/RankGroup.h"
#include "support/Result.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::runtime {

inline constexpr unsigned kMaxThreads = 1024;

struct SessionOptions {
  /// Threads that work on a run, the caller's included, shared out over the ranks of a plan; 0
  /// takes the number of usable CPUs, more than kMaxThreads are refused. On a GPU there is one.
  unsigned threads = 0;
  /// Most bytes that the session may hold for arena, state, scratch and kept outputs; a run that
  /// needs more fails with TN0606.
  uint64_t memoryLimit = uint64_t(64) << 30;
  /// On a GPU: seconds in which library calls take the fastest of several algorithms by measuring
  /// them once for each new shape, instead of the one that the library proposes. When they are
  /// over, the other calls take what was measured before, or the proposal.
  double measureSeconds = 0;
  /// On a GPU: steps that share no memory run at the same time where that is expected to be faster.
  bool overlapBranches = true;
  /// For symbols of the session; the others have their presets.
  std::vector<SymbolValue> symbols = {};
};

/// Where a tensor lies: in the host's memory, or in that of the GPU that the engine is on.
enum class Place : uint8_t { Host, Gpu };

/// A tensor passed to a run: dense, row-major, aligned to its element, of the port's dtype.
struct InputBinding {
  const void *data = nullptr;
  std::span<const int64_t> dims;
  Place place = Place::Host;
};

/// Where a run puts an output. A null pointer keeps it in the session (see Session::outputData).
struct OutputBinding {
  void *data = nullptr;
  uint64_t bytes = 0; ///< room at `data`
  Place place = Place::Host;
};

struct RunOptions {
  /// A CUstream: the run is put on it, and returns without waiting unless an output goes to the
  /// host or data decides sizes. Null: the run is complete when it returns.
  void *stream = nullptr;
};

struct MemoryUse {
  /// What several plans of a session use together, but for the lower bound.
  MemoryUse &operator+=(const MemoryUse &other);

  uint64_t arenaBytes = 0;
  /// Largest sum of live sizes for the current dims; 0 when the compiler laid the arena out.
  uint64_t arenaLowerBoundBytes = 0;
  uint64_t stateBytes = 0;
  uint64_t scratchBytes = 0;   ///< all threads together
  uint64_t weightBytes = 0;    ///< copied to the device, once for all sessions of the engine
  uint64_t workspaceBytes = 0; ///< for library calls
  uint64_t portBytes = 0;      ///< inputs and outputs on the device, on behalf of host tensors
  uint64_t stagingBytes = 0;   ///< page-locked host memory
};

/// What a run consists of and how it went.
struct RunInfo {
  uint32_t kernels = 0;
  uint32_t calls = 0;
  uint32_t moves = 0;       ///< copies of the plan
  uint32_t collectives = 0; ///< what ranks exchange
  bool usedGraph = false;   ///< the last run was one launch of a graph
  uint32_t overlapped = 0;  ///< instructions beside others in the graph
  std::string graphRefusal; ///< why the plan cannot be a graph, empty otherwise
  double gpuSeconds = 0;    ///< of the last run's plan by the GPU's clock, while timing is on
};

/// How the instructions of a plan follow each other while they are timed.
enum class StepOrder : uint8_t {
  WithinRuns, ///< each once, then the next one: weights as cold as in a run
  InARow,     ///< each several times before the next one: operands as warm as they get
};

/// Device time of one instruction of the plan.
struct StepTime {
  uint32_t instruction = 0;
  double seconds = 0;
  /// On a CPU: of all threads together, inside of kernels. What they lack to `seconds` times the
  /// threads is starting, waiting and meeting.
  double busySeconds = 0;
  /// What the plan says is done in it, for the dims of the run; none where it does not.
  std::optional<int64_t> flops = std::nullopt;
  std::optional<int64_t> bytesMoved = std::nullopt;
};

/// The error of a kernel that returned `code` (engine/KernelAbi.h).
Status kernelError(int32_t code, const engine::Plan &plan, uint32_t instruction);

/// The part of a session that is on a device. Used by one thread at a time.
class Executor {
public:
  virtual ~Executor() = default;

  virtual unsigned threads() const = 0;
  /// Of arena buffers that are laid out at run time.
  virtual int64_t alignment() const = 0;
  /// For how many shapes of the inputs a session keeps what it prepared. One with sizes of its own,
  /// which takes any number of tokens, keeps few MiB: what it holds is said before it is made.
  virtual size_t rememberedShapes(const engine::Plan &plan) const {
    constexpr size_t kMost = 64, kLeast = 16, kInstructions = 8192;
    size_t steps = std::max<size_t>(plan.instructions.size(), 1);
    return plan.sessionSymbols() == 0 ? kMost : std::clamp(kInstructions / steps, kLeast, kMost);
  }
  /// Bytes that the plan needs beside arena and state; UINT64_MAX when they cannot be counted.
  virtual uint64_t scratchNeed(const BoundPlan &bound) const = 0;

  /// Sets the addresses of weights and state; state is zero.
  virtual Status placeFixedRoots(std::span<std::byte *> roots, const StateLayout &states) = 0;
  /// Makes room for the plan and sets the addresses of its arena buffers in `roots`.
  virtual Status activate(BoundPlan &bound, std::span<std::byte *> roots) = 0;
  /// Sets `root` to where the plan finds input number `index`, of `bytes` bytes.
  virtual Status bindInput(size_t index, const InputBinding &input, uint64_t bytes,
                           std::byte *&root) = 0;
  virtual Status bindOutput(size_t index, const OutputBinding &output, uint64_t bytes,
                            std::byte *&root) = 0;
  /// Runs all steps in order on the tensors bound last.
  virtual Status execute(BoundPlan &bound, const RunOptions &options) = 0;
  /// The bytes of an output that was bound with a null pointer.
  virtual const void *outputData(size_t index) const = 0;

  virtual Status resetState() = 0;
  virtual MemoryUse memoryUse() const = 0;

  virtual void setTiming(bool isOn) {}
  virtual RunInfo info(const BoundPlan &bound) const;
  /// Device seconds of one run, over `count` runs in a row on the tensors bound last.
  virtual Result<double> timeRuns(BoundPlan &bound, unsigned count);
  /// Mean of `count` times. On a GPU always in a row. What the tensors hold after steps in a row is
  /// undefined.
  virtual Result<std::vector<StepTime>> timeSteps(BoundPlan &bound, unsigned count,
                                                  StepOrder order);
};

/// A variant's code and weights on their device, shared by the sessions of an engine. Immutable.
class LoadedVariant {
public:
  virtual ~LoadedVariant() = default;
  /// `beside` is of the same session, device and rank, for another plan: threads are shared with
  /// it. Null for the first. A plan with ranks has a `place` with a group.
  virtual Result<std::unique_ptr<Executor>>
  createExecutor(const SessionOptions &options, const Executor *beside, RankPlace place) const = 0;
};

} // namespace tenon::runtime
