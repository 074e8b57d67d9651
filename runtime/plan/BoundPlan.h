// A plan bound to concrete input dims: every size, offset and grid as a number, ready to execute.
// Built once per set of dims and kept by the session. Where data decides sizes, memory is laid out
// for their bounds, and each run binds them again as it goes. Private to runtime.

#pragma once

#include "engine/Plan.h"
#include "support/Result.h"
#include "support/memory/OffsetPlanner.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::runtime {

/// Dims of all inputs, one after the other; ranks are known from the plan.
using FlatDims = std::vector<int64_t>;

struct BoundStep {
  engine::InstructionKind kind;
  uint16_t queue = 0;              ///< within a section
  uint32_t kernel = engine::kNone; ///< index into the variant's kernels
  int64_t grid = 0;
  int64_t scratch = 0;
  uint32_t threads = 0;
  uint32_t firstPointer = 0; ///< into BoundPlan::pointers
  uint32_t pointerCount = 0;
  uint32_t firstSize = 0; ///< into BoundPlan::sizes
  uint32_t sizeCount = 0;
  uint32_t firstMap = 0; ///< into BoundPlan::maps
  uint32_t mapCount = 0;
  uint32_t firstStatus = 0;       ///< steps before it that can fail on a GPU
  bool canFail = false;           ///< on a GPU
  bool isDependentLaunch = false; ///< on a GPU: for the kernels before it, by itself
  bool isSmall = false;           ///< on a CPU: less work than waking threads for it
  uint32_t instruction = 0;
};

/// A launch's engine::TensorMap.
struct BoundMap {
  uint32_t pointer = 0; ///< index into BoundPlan::pointers
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t rowBytes = 0;
  uint32_t boxRows = 0;
  uint32_t boxColumns = 0;

  bool operator==(const BoundMap &) const = default;
};

/// Where an operand lies: `bytes` bytes, `offset` after the start of a root buffer.
struct PointerSource {
  uint32_t root = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// What a device keeps with a bound plan: prepared calls, graphs.
class DevicePart {
public:
  virtual ~DevicePart() = default;
};

inline bool isRootOf(const engine::Buffer &buffer, engine::Space space) {
  return buffer.space == space && buffer.aliasOf == engine::kNone;
}

/// A value for a symbol of the session.
struct SymbolValue {
  std::string name;
  int64_t value = 0;
};
/// The values of the plan's session symbols: those given, else the presets. TN0105 for a name that
/// is not one of them and for a value outside its range.
Result<std::vector<int64_t>> sessionValues(const engine::Plan &plan,
                                           std::span<const SymbolValue> given);

/// Where the state buffers of a session lie in its memory for state.
struct StateLayout {
  std::vector<uint64_t> offsets; ///< by buffer
  uint64_t bytes = 0;
};
/// Of a stage of the plan. `session` has a value for each session symbol.
Result<StateLayout> layOutState(const engine::Plan &plan, std::span<const int64_t> session,
                                int64_t alignment, uint32_t stage = 0);

struct BoundPlan {
  /// Binds and checks the symbols, evaluates everything, checks every view, copy and port size and
  /// lays the arena out. The steps are those of a stage of the plan. `session` are sessionValues;
  /// `inputDims` has the plan's ranks already; `alignment` is that of arena buffers.
  static Result<BoundPlan> bind(const engine::Plan &plan, std::span<const int64_t> session,
                                const FlatDims &inputDims, int64_t alignment,
                                OffsetPlanner &planner, uint32_t stage = 0);

  /// Before a run: data-dependent symbols back to their bounds. Outputs then have their largest
  /// dims.
  Status resetSizes(const engine::Plan &plan);
  /// A step of kind Size: binds its symbol to the value that its buffer holds, and with it all that
  /// is evaluated from it. Steps keep their places and operands. Allocates nothing.
  Status bindSize(const engine::Plan &plan, const BoundStep &step, int64_t count);
  /// What an expression of the plan is for these dims; none for kNone.
  std::optional<int64_t> valueOf(engine::ExprId id) const {
    return id == engine::kNone ? std::nullopt : std::optional(values[id]);
  }
  /// How many steps are the same in every run: those before the first size that data decides.
  uint32_t fixedSteps() const;

  uint32_t stage = 0;
  FlatDims inputDims;
  std::vector<std::vector<int64_t>> outputDims;
  std::vector<int64_t> inputBytes;
  std::vector<int64_t> outputBytes;
  /// By buffer: offset in the arena of arena roots, else 0.
  std::vector<int64_t> arenaOffsets;
  int64_t arenaBytes = 0;
  int64_t arenaLowerBound = 0; ///< largest live sum; 0 when the compiler laid the arena out
  int64_t scratchBytes = 0;    ///< largest need of a launch, per thread

  std::vector<BoundStep> steps;
  std::vector<PointerSource> sources; ///< parallel to `pointers`
  std::vector<void *> pointers;
  std::vector<uint32_t> portPointers; ///< indices of pointers into the caller's memory
  std::vector<int64_t> sizes;
  std::vector<BoundMap> maps;
  uint32_t statusCount = 0;
  std::unique_ptr<DevicePart> devicePart; ///< set by the executor

  /// Sets all pointers from the addresses of the root buffers.
  void setPointers(std::span<std::byte *const> roots);
  /// Sets only those into the caller's memory.
  void setPortPointers(std::span<std::byte *const> roots);

private:
  friend class PlanBinder;

  std::vector<int64_t> symbols;
  size_t knownSymbols = 0;           ///< the others stand at their bounds
  std::vector<int64_t> values;       ///< by expression
  std::vector<PointerSource> placed; ///< by buffer, with the bytes that memory was laid out for

  static void *address(const PointerSource &source, std::span<std::byte *const> roots);
};

} // namespace tenon::runtime
