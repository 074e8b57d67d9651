// A ring of boxes between a producing warp and a consuming warpgroup: its PTX assembles, on the
// emulated GPU it brings over what the tensor map says, and what is left out of it is noticed.
#include "compiler/codegen/cuda/base/AsyncCopy.h"

#include "compiler/codegen/cuda/base/EmitPtx.h"
#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"
#include "engine/Expr.h"
#include "test/unit/codegen/emulator/GpuEmulator.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

namespace tenon::codegen::cuda {
namespace {

/// A slot holds a chunk of 8 elements for each consumer.
constexpr int64_t kRows = 16, kSlots = 2, kBoxBytes = kRows * kBoxColumns * 2;
constexpr int64_t kBarriersAt = kSlots * kBoxBytes, kSharedBytes = kBarriersAt + 4 * kBarrierBytes;
constexpr int64_t kThreads = 2 * kWarpgroup, kWarps = kWarpgroup / kWarp;

/// What a ring does, right unless a fault is planted.
struct RingOptions {
  int64_t boxes = 5; ///< of kRows x kBoxColumns, side by side
  int64_t missingBytes = 0;
  int64_t parityFault = 0;
  bool waitsForFree = true;
  bool givesRegisters = true;
  bool onlyWarpGives = false;
};

/// Buffer 0 is a matrix of 16-bit elements. Block b copies the boxes in rows [16 b, 16 b + 16) one
/// behind the other to buffer 1.
class Ring {
public:
  Ring(RegionBuilder &region, int64_t rows, int64_t columns, const RingOptions &options)
      : options(options), frame(region, {0, 1}, 1, kThreads), t(frame.code()),
        context(region.source.getContext()) {
    map = frame.tensorMap(0, constant(rows), constant(columns), constant(columns), kRows);
    frame.setMinBlocksPerSm(1);
  }

  void finish(int64_t blocks) {
    prepare();
    t.barrier();
    t.when(t.isLess(t.thread(), t.i32(kWarpgroup)), [&](const ThreadBuilder &b) { consume(b); });
    t.when(isProducing(t), [&](const ThreadBuilder &b) { produce(b); });
    frame.finish(constant(blocks), kSharedBytes);
  }

private:
  mlir::AffineExpr constant(int64_t value) { return mlir::getAffineConstantExpr(value, context); }

  mlir::Value bytesAt(const ThreadBuilder &b, mlir::Value place) {
    return b.offset(shared, b.builder.getI8Type(), place);
  }
  mlir::Value slotAt(const ThreadBuilder &b, mlir::Value slot) {
    return bytesAt(b, b.mul(slot, kBoxBytes));
  }
  mlir::Value full(const ThreadBuilder &b, mlir::Value slot) {
    return bytesAt(b, b.add(b.mul(slot, kBarrierBytes), kBarriersAt));
  }
  mlir::Value free(const ThreadBuilder &b, mlir::Value slot) {
    return bytesAt(b, b.add(b.mul(slot, kBarrierBytes), kBarriersAt + kSlots * kBarrierBytes));
  }

  /// Of the second warpgroup.
  mlir::Value isProducing(const ThreadBuilder &b) {
    return b.isLess(b.i32(kWarpgroup - 1), b.thread());
  }

  void prepare() {
    shared = frame.dynamicShared(kTileAlignment);
    t.when(t.isEqual(t.thread(), t.i32(0)), [&](const ThreadBuilder &b) {
      prefetchTensorMap(b, map);
      for (int64_t slot = 0; slot < kSlots; ++slot) {
        initBarrier(b, full(b, b.i32(slot)), 1);
        initBarrier(b, free(b, b.i32(slot)), kWarps);
      }
      publishBarriers(b);
    });
  }

  using BoxBody = std::function<void(const ThreadBuilder &, mlir::Value box, mlir::Value slot,
                                     mlir::Value parity)>;
  void forBoxes(const ThreadBuilder &b, const BoxBody &body) {
    b.loop(b.i32(0), b.i32(options.boxes), b.i32(1), {},
           [&](const ThreadBuilder &in, mlir::Value box, mlir::ValueRange) {
             body(in, box, in.rem(box, kSlots), in.rem(in.div(box, kSlots), 2));
             return ThreadBuilder::Values();
           });
  }

  void giveRegisters(const ThreadBuilder &b) {
    if (options.onlyWarpGives) {
      b.when(b.isLess(b.thread(), b.i32(kWarpgroup + kWarp)),
             [](const ThreadBuilder &in) { releaseRegisters(in, 40); });
    } else if (options.givesRegisters) {
      releaseRegisters(b, 40);
    }
  }

  void produce(const ThreadBuilder &b) {
    giveRegisters(b);
    b.when(b.isLess(b.thread(), b.i32(kWarpgroup + kWarp)), [&](const ThreadBuilder &warp) {
      warp.when(warp.isEqual(warp.thread(), warp.i32(kWarpgroup)), [&](const ThreadBuilder &one) {
        forBoxes(one, [&](const ThreadBuilder &in, mlir::Value box, mlir::Value slot,
                          mlir::Value parity) { bring(in, box, slot, parity); });
      });
    });
  }

  void bring(const ThreadBuilder &b, mlir::Value box, mlir::Value slot, mlir::Value parity) {
    if (options.waitsForFree) {
      waitForPhase(b, free(b, slot), b.sub(b.i32(1), parity));
    }
    arriveExpecting(b, full(b, slot), b.i32(kBoxBytes - options.missingBytes));
    copyBox(b, map, b.mul(box, kBoxColumns), b.mul(b.block(), kRows), slotAt(b, slot),
            full(b, slot));
  }

  void consume(const ThreadBuilder &b) {
    if (options.givesRegisters) {
      takeRegisters(b, 232);
    }
    mlir::Value row = b.div(b.thread(), 8), chunk = b.rem(b.thread(), 8);
    forBoxes(b, [&](const ThreadBuilder &in, mlir::Value box, mlir::Value slot,
                    mlir::Value parity) {
      mlir::Value expected = options.parityFault ? in.sub(in.i32(1), parity) : parity;
      waitForPhase(in, full(in, slot), expected);
      mlir::Type words = in.vectorType(4, in.i32Type());
      mlir::Value place = in.mul(tileOffset(in, row, chunk), 2);
      mlir::Value got =
          in.load(words, in.offset(slotAt(in, slot), in.builder.getI8Type(), place), 16);
      mlir::Value boxes = in.add(in.mul(in.block(), options.boxes), box);
      in.store(got,
               in.offset(frame.buffer(1), words, in.add(in.mul(boxes, kWarpgroup), in.thread())),
               16);
      in.warpBarrier();
      in.when(in.isEqual(in.rem(in.thread(), kWarp), in.i32(0)),
              [&](const ThreadBuilder &one) { arrive(one, free(one, slot)); });
    });
  }

  RingOptions options;
  KernelFrame frame;
  ThreadBuilder t;
  mlir::MLIRContext *context;
  mlir::Value shared, map;
};

/// The lowered module of a ring.
struct Built : TestRegion {
  Built(int64_t blocks, int64_t rows, int64_t columns, const RingOptions &options)
      : TestRegion(emptyRegion("ring")) {
    Ring(*region, rows, columns, options).finish(blocks);
    isLowered = mlir::succeeded(lowerToNvvm(kernels(), 64));
  }

  bool isLowered = false;
};

TEST(AsyncCopyTest, AssemblesWithTheTensorMapAsAnArgument) {
  Built built(2, 32, 320, {});
  ASSERT_TRUE(built.isLowered);
  const target::Target &gpu = target::targetOf("sm_90a");
  llvm::Expected<std::string> ptx = emitPtx(built.kernels(), gpu);
  ASSERT_TRUE(static_cast<bool>(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find(".param .align 64 .b8 ring_param_2[128]"), std::string::npos) << *ptx;
  EXPECT_EQ(ptx->find(".local"), std::string::npos) << *ptx;
  EXPECT_TRUE(assembles(*ptx, gpu));
}

/// A matrix of 40 x 312 whose elements say where they are; boxes at its ends lie half outside.
constexpr int64_t kMatrixRows = 40, kMatrixColumns = 312;
uint16_t elementOf(int64_t row, int64_t column) {
  bool isInside = row < kMatrixRows && column < kMatrixColumns;
  return isInside ? static_cast<uint16_t>(1 + row * kMatrixColumns + column) : 0;
}

/// Runs a ring of four blocks; gives its fault, or the number of wrong elements.
std::string runRing(const RingOptions &options, bool reversed) {
  constexpr int64_t blocks = 4;
  Built built(blocks, kMatrixRows, kMatrixColumns, options);
  llvm::Expected<std::unique_ptr<GpuEmulator>> emulator = GpuEmulator::create(built.kernels());
  if (!built.isLowered || !emulator) {
    return "not lowered: " + llvm::toString(emulator.takeError());
  }
  GuardedBytes from(kMatrixRows * kMatrixColumns * 2);
  GuardedBytes to(blocks * options.boxes * kBoxBytes);
  uint16_t *matrix = static_cast<uint16_t *>(from.data());
  for (int64_t i = 0; i < kMatrixRows * kMatrixColumns; ++i) {
    matrix[i] = elementOf(i / kMatrixColumns, i % kMatrixColumns);
  }
  const TensorMapArgument &map = built.region->code.steps[0].tensorMaps[0];
  EmulatedTensorMap emulated{static_cast<const char *>(from.data()),
                             *engine::evaluate(map.rows, {}),
                             *engine::evaluate(map.columns, {}),
                             *engine::evaluate(map.rowBytes, {}),
                             map.boxRows,
                             map.boxColumns};
  llvm::Error error = (*emulator)->launch("ring", {from.data(), to.data()}, {}, blocks, kThreads,
                                          kSharedBytes, reversed, emulated);
  if (error) {
    return llvm::toString(std::move(error));
  }
  const uint16_t *got = static_cast<const uint16_t *>(to.data());
  int64_t wrong = 0;
  for (int64_t i = 0; i < blocks * options.boxes * kRows * kBoxColumns; ++i) {
    int64_t column = i % kBoxColumns, row = i / kBoxColumns % kRows;
    int64_t box = i / (kBoxColumns * kRows) % options.boxes;
    int64_t block = i / (kBoxColumns * kRows * options.boxes);
    wrong += got[i] != elementOf(block * kRows + row, box * kBoxColumns + column);
  }
  return wrong ? "wrong elements" : "";
}

TEST(AsyncCopyTest, BringsBoxesOver) {
  for (bool reversed : {false, true}) {
    EXPECT_EQ(runRing({}, reversed), "") << reversed;
  }
}

TEST(AsyncCopyTest, BytesThatWereNotExpected) {
  RingOptions options;
  options.missingBytes = 16;
  std::string fault = runRing(options, false);
  EXPECT_NE(fault.find("waits in vain: phase 0 of a barrier lacks 0 arrivals and -16 bytes at byte "
                       "4096 of its shared memory"),
            std::string::npos)
      << fault;
}

TEST(AsyncCopyTest, TheWrongParity) {
  RingOptions options;
  options.parityFault = 1;
  std::string fault = runRing(options, false);
  EXPECT_NE(fault.find("waits in vain: phase"), std::string::npos) << fault;
  fault = runRing(options, true);
  EXPECT_NE(fault.find("more arrivals than a barrier was made for"), std::string::npos) << fault;
  // What is behind the wrong wait is used before it is there.
  options.boxes = 1;
  EXPECT_EQ(runRing(options, false), "wrong elements");
}

TEST(AsyncCopyTest, SlotsThatWereNotReleased) {
  RingOptions options;
  options.waitsForFree = false;
  EXPECT_NE(runRing(options, false), "");
}

TEST(AsyncCopyTest, RegistersOfPartOfAWarpgroup) {
  RingOptions options;
  options.onlyWarpGives = true;
  std::string fault = runRing(options, false);
  EXPECT_NE(fault.find("wait"), std::string::npos) << fault;
}

} // namespace
} // namespace tenon::codegen::cuda
