// Two blocks of a cluster give each other a number by an asynchronous store: on the emulated GPU it
// arrives, and what is left out is noticed.
#include "compiler/codegen/cuda/base/AsyncCopy.h"

#include "compiler/codegen/cuda/base/EmitPtx.h"
#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"
#include "test/unit/codegen/emulator/GpuEmulator.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

namespace tenon::codegen::cuda {
namespace {

/// What an exchange does, right unless a fault is planted.
struct Exchange {
  bool waits = true;
  bool lastStores = true; ///< the second block
  int64_t missingBytes = 0;
};

constexpr int64_t kBarrierAt = 16, kShared = kBarrierAt + kBarrierBytes, kFirst = 7;

/// Buffer 0 gets, by block, what the other one stored: kFirst + its rank.
void build(RegionBuilder &region, const Exchange &options) {
  KernelFrame frame(region, {0}, 0, kWarp);
  frame.setCluster(2);
  mlir::Value shared = frame.dynamicShared(kTileAlignment);
  ThreadBuilder t = frame.code();
  mlir::Value barrier = t.offset(shared, t.builder.getI8Type(), kBarrierAt);
  mlir::Value rank = t.rem(t.block(), 2), other = t.sub(t.i32(1), rank);
  mlir::Value isFirst = t.isEqual(t.thread(), t.i32(0));
  t.when(isFirst, [&](const ThreadBuilder &b) {
    initBarrier(b, barrier, 1);
    publishBarriers(b);
  });
  t.arriveAtCluster();
  t.waitForCluster();
  t.when(isFirst, [&](const ThreadBuilder &b) {
    arriveExpecting(b, barrier, b.i32(4 - options.missingBytes));
    auto store = [&](const ThreadBuilder &c) {
      storeAsync(c, c.remote(shared, other), c.add(rank, kFirst), c.remote(barrier, other));
    };
    if (options.lastStores) {
      store(b);
    } else {
      b.when(b.isEqual(rank, b.i32(0)), store);
    }
  });
  if (options.waits) {
    waitForPhase(t, barrier, t.i32(0));
  }
  t.when(isFirst, [&](const ThreadBuilder &b) {
    mlir::Value got = b.load(b.i32Type(), shared, 4);
    b.store(got, b.offset(frame.buffer(0), b.i32Type(), rank), 4);
  });
  t.arriveAtCluster();
  t.waitForCluster();
  frame.finish(mlir::getAffineConstantExpr(2, region.source.getContext()), kShared);
}

/// The fault of a run, or "wrong" if the numbers are.
std::string run(const Exchange &options, bool reversed) {
  TestRegion tested = emptyRegion("exchange");
  build(*tested.region, options);
  if (failed(lowerToNvvm(tested.kernels(), 64))) {
    return "not lowered";
  }
  llvm::Expected<std::unique_ptr<GpuEmulator>> emulator = GpuEmulator::create(tested.kernels());
  if (!emulator) {
    return llvm::toString(emulator.takeError());
  }
  GuardedBytes got(2 * sizeof(int32_t));
  llvm::Error error =
      (*emulator)->launch("exchange", {got.data()}, {}, 2, kWarp, kShared, reversed);
  if (error) {
    return llvm::toString(std::move(error));
  }
  const int32_t *numbers = static_cast<const int32_t *>(got.data());
  return numbers[0] == kFirst + 1 && numbers[1] == kFirst ? "" : "wrong";
}

TEST(AsyncStoreTest, Arrives) {
  for (bool reversed : {false, true}) {
    EXPECT_EQ(run({}, reversed), "");
  }
}

TEST(AsyncStoreTest, ReadBeforeItIsThere) { EXPECT_EQ(run({.waits = false}, false), "wrong"); }

TEST(AsyncStoreTest, NeverStored) {
  std::string fault = run({.lastStores = false}, false);
  EXPECT_NE(fault.find("waits in vain: phase 0 of a barrier lacks 0 arrivals and 4 bytes"),
            std::string::npos)
      << fault;
}

TEST(AsyncStoreTest, MoreBytesThanExpected) {
  std::string fault = run({.missingBytes = 4}, false);
  EXPECT_NE(fault, "");
}

} // namespace
} // namespace tenon::codegen::cuda
