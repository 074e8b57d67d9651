// Runs the kernels of a module on the CPU, thread by thread, so that generated GPU code is tested
// where there is no GPU. Relies on LLVM's JIT for x86; an intrinsic of NVPTX that it does not know
// fails the launch.
//
// Stricter than hardware where that finds faults: asynchronous copies land only when waited for (of
// boxes: at once, or when waited for if `reversed`), sums of a warpgroup are there only when waited
// for and their tiles must not change before, shared memory starts as NaN, and all lanes of a warp
// must meet at each of its instructions. Races between barriers are not seen unless the order of
// threads (`reversed`) shows them.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "test/unit/codegen/emulator/BarrierModel.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace llvm::orc {
class LLJIT;
}

namespace tenon::codegen::cuda {

class GpuEmulator {
public:
  /// `module` is in the LLVM dialect, with NVVM ops.
  static llvm::Expected<std::unique_ptr<GpuEmulator>> create(mlir::ModuleOp module);
  ~GpuEmulator();

  /// `sharedBytes` of a block's shared memory are dynamic. Blocks run one cluster after the other,
  /// or all at the same time (`together`).
  llvm::Error launch(llvm::StringRef kernel, llvm::ArrayRef<void *> buffers,
                     llvm::ArrayRef<int64_t> sizes, int64_t blocks, uint32_t threads,
                     uint64_t sharedBytes, bool reversed = false,
                     llvm::ArrayRef<EmulatedTensorMap> maps = {}, bool together = false);

  /// One launch of a rank of a group.
  struct RankLaunch {
    std::vector<void *> buffers;
    std::vector<int64_t> sizes;
  };
  /// A kernel on several GPUs at the same time: launches[i][r] is number i of rank r. A GPU starts
  /// a launch when its own one before has ended, whatever the others do. The first GPU is `lag`
  /// times as fast as the others.
  llvm::Error launchTogether(llvm::StringRef kernel,
                             llvm::ArrayRef<std::vector<RankLaunch>> launches, int64_t blocks,
                             uint32_t threads, bool reversed = false, uint32_t lag = 1);

private:
  GpuEmulator() = default;

  std::unique_ptr<llvm::orc::LLJIT> jit;
  llvm::StringMap<uint32_t> clusters; ///< blocks, by kernel
  uint64_t staticBytes = 0;           ///< of shared memory
};

/// Memory whose bytes end where no access is allowed (to 16 bytes).
class GuardedBytes {
public:
  explicit GuardedBytes(size_t size);
  ~GuardedBytes();
  GuardedBytes(GuardedBytes &&other);
  GuardedBytes(const GuardedBytes &) = delete;
  void *data() const { return start; }

private:
  void *mapping = nullptr, *start = nullptr;
  size_t mapped = 0;
};

} // namespace tenon::codegen::cuda
