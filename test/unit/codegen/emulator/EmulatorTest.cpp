// The emulated GPU finds the faults that it is there for, each planted in a kernel of a few ops.
#include "compiler/codegen/cuda/base/EmitPtx.h"
#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "test/unit/codegen/emulator/GpuEmulator.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"
#include "gtest/gtest.h"

#include <cmath>
#include <functional>

namespace tenon::codegen::cuda {
namespace {

using Body = std::function<void(KernelFrame &frame, const ThreadBuilder &t)>;

/// Runs a kernel of one block of a warp on buffers of 32 floats: the first holds 0, 1, ...
std::string run(const Body &body, float *result, uint64_t sharedBytes = 128) {
  TestRegion tested = emptyRegion("planted");
  KernelFrame frame(*tested.region, {0, 1}, 1, 32);
  body(frame, frame.code());
  frame.finish(mlir::getAffineConstantExpr(1, tested.context.get()), sharedBytes);
  if (mlir::failed(lowerToNvvm(tested.kernels(), 64))) {
    return "does not lower";
  }
  llvm::Expected<std::unique_ptr<GpuEmulator>> emulator = GpuEmulator::create(tested.kernels());
  if (!emulator) {
    return llvm::toString(emulator.takeError());
  }
  GuardedBytes from(32 * sizeof(float)), to(32 * sizeof(float));
  for (int i = 0; i < 32; ++i) {
    static_cast<float *>(from.data())[i] = float(i);
  }
  llvm::Error error =
      (*emulator)->launch("planted", {from.data(), to.data()}, {}, 1, 32, sharedBytes);
  std::copy_n(static_cast<float *>(to.data()), 32, result);
  return llvm::toString(std::move(error));
}

/// Copies 16 bytes a thread (for the first 8) through shared memory.
Body copyThroughShared(bool waits) {
  return [waits](KernelFrame &frame, const ThreadBuilder &t) {
    mlir::Value thread = t.thread(), shared = frame.dynamicShared();
    t.when(t.isLess(thread, t.i32(8)), [&](const ThreadBuilder &b) {
      mlir::Value at = b.mul(thread, 4);
      copyAsync(b, b.offset(shared, b.f32Type(), at), b.offset(frame.buffer(0), b.f32Type(), at),
                {});
    });
    commitCopies(t);
    if (waits) {
      waitForCopies(t, 0);
    }
    t.barrier();
    t.store(t.load(t.f32Type(), t.offset(shared, t.f32Type(), thread), 4),
            t.offset(frame.buffer(1), t.f32Type(), thread), 4);
  };
}

TEST(GpuEmulatorTest, CopiesLandWhenWaitedFor) {
  float result[32];
  EXPECT_EQ(run(copyThroughShared(true), result), "");
  EXPECT_EQ(result[31], 31);
  EXPECT_EQ(run(copyThroughShared(false), result), "");
  EXPECT_TRUE(std::isnan(result[31]));
}

TEST(GpuEmulatorTest, SharedMemoryThatWasNotAskedFor) {
  float result[32];
  EXPECT_EQ(run(copyThroughShared(true), result, 64),
            "planted, block 0: a block writes shared memory behind what it asked for");
}

TEST(GpuEmulatorTest, MoreSharedMemoryThanAGpuHas) {
  float result[32];
  EXPECT_EQ(run(copyThroughShared(true), result, 227 << 10), "");
  EXPECT_EQ(run(copyThroughShared(true), result, (227 << 10) + 1),
            "planted: asks for 232449 bytes of shared memory, more than a GPU has");
}

TEST(GpuEmulatorTest, LanesThatDoNotMeet) {
  float result[32];
  std::string fault = run(
      [](KernelFrame &frame, const ThreadBuilder &t) {
        t.when(t.isLess(t.thread(), t.i32(16)), [&](const ThreadBuilder &b) {
          b.store(b.shuffleXor(b.f32(1), 1), frame.buffer(1), 4);
        });
      },
      result);
  EXPECT_NE(fault.find("do not come"), std::string::npos) << fault;
}

TEST(GpuEmulatorTest, AccessBeyondABuffer) {
  float result[32];
  EXPECT_DEATH(run(
                   [](KernelFrame &frame, const ThreadBuilder &t) {
                     t.store(t.f32(1), t.offset(frame.buffer(1), t.f32Type(), 32), 4);
                   },
                   result),
               "");
}

} // namespace
} // namespace tenon::codegen::cuda
