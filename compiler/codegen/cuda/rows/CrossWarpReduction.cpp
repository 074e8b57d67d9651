// Within a warp by shuffles, within a block over shared memory, where a thread for each column adds
// up the warps' parts, and within a cluster by stores to the other blocks' memory.
#include "compiler/codegen/cuda/rows/CrossWarpReduction.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {

CrossWarpReduction::CrossWarpReduction(KernelFrame &kernel, const ColumnsLayout &layout)
    : kernel(kernel), t(kernel.builder, kernel.location), layout(layout),
      warp(kernel, RowThreads(), kernel.math.value(kernel.thread())), thread(t.thread()),
      inWidth(t.rem(thread, layout.width)), inHeight(t.div(thread, layout.width)) {
  if (layout.blocks > 1) {
    // The memory of a block may be written to only once the block runs.
    t.arriveAtCluster();
  }
}

CrossWarpReduction::Arrays CrossWarpReduction::makeArrays(ArrayRef<Type> types, int64_t count) {
  return llvm::map_to_vector<2>(types, [&](Type type) { return kernel.shared(type, count); });
}

void CrossWarpReduction::store(const Arrays &arrays, Value place, const Accumulators &values) {
  for (auto [array, value] : llvm::zip(arrays, values)) {
    t.store(value, t.offset(array, value.getType(), place), byteSize(value.getType()));
  }
}

Accumulators CrossWarpReduction::load(const Arrays &arrays, ArrayRef<Type> types, Value place) {
  Accumulators values;
  for (auto [array, type] : llvm::zip(arrays, types)) {
    values.push_back(t.load(type, t.offset(array, type, place), byteSize(type)));
  }
  return values;
}

Accumulators CrossWarpReduction::combineParts(const Combiner &combiner, const Arrays &arrays,
                                              ArrayRef<Type> types, Value column, int64_t parts) {
  SmallVector<Accumulators> all;
  for (int64_t part = 0; part < parts; ++part) {
    all.push_back(load(arrays, types, t.add(column, part * layout.columns())));
  }
  return combiner.combine(t.builder, t.location, std::move(all));
}

void CrossWarpReduction::forColumns(llvm::function_ref<void(Value column)> body) {
  for (int64_t first = 0; first < layout.columns(); first += layout.threads()) {
    Value column = t.add(thread, first);
    if (first + layout.threads() <= layout.columns()) {
      body(column);
      continue;
    }
    t.when(t.isLess(column, t.i32(layout.columns())), [&](const ThreadBuilder &) { body(column); });
  }
}

void CrossWarpReduction::reduce(const Combiner &combiner, SmallVector<Accumulators> &own) {
  int64_t inWarp = layout.width < kWarp ? kWarp / layout.width : 1;
  if (inWarp > 1) {
    for (Accumulators &values : own) {
      values = warp.combineLanes(combiner, inWarp, std::move(values), layout.width);
    }
  }
  int64_t parts = layout.height / inWarp, columns = layout.columns();
  if (parts == 1 && layout.blocks == 1) {
    return;
  }
  SmallVector<Type> types(ValueRange(own.front()).getTypes());
  Arrays ofWarps = makeArrays(types, parts * columns), results = makeArrays(types, columns);
  Value first = t.mul(inWidth, layout.lanes);
  auto storeOwn = [&](const ThreadBuilder &) {
    Value place = t.add(t.mul(t.div(inHeight, inWarp), columns), first);
    for (auto [lane, values] : llvm::enumerate(own)) {
      store(ofWarps, t.add(place, static_cast<int64_t>(lane)), values);
    }
  };
  t.when(t.isEqual(t.rem(inHeight, inWarp), t.i32(0)), storeOwn);
  t.barrier();
  if (layout.blocks == 1) {
    forColumns([&](Value column) {
      store(results, column, combineParts(combiner, ofWarps, types, column, parts));
    });
  } else {
    Arrays ofBlocks = makeArrays(types, layout.blocks * columns);
    if (!hasClusterStarted) {
      t.waitForCluster();
    }
    hasClusterStarted = true;
    Value rank = NVVM::BlockInClusterIdXOp::create(t.builder, t.location, t.i32Type());
    forColumns([&](Value column) {
      Accumulators values = combineParts(combiner, ofWarps, types, column, parts);
      Value place = t.add(t.mul(rank, columns), column);
      for (int64_t block = 0; block < layout.blocks; ++block) {
        for (auto [array, value] : llvm::zip(ofBlocks, values)) {
          Value target = t.remote(t.offset(array, value.getType(), place), t.i32(block));
          t.store(value, target, byteSize(value.getType()));
        }
      }
    });
    t.arriveAtCluster();
    t.waitForCluster();
    forColumns([&](Value column) {
      store(results, column, combineParts(combiner, ofBlocks, types, column, layout.blocks));
    });
  }
  t.barrier();
  for (auto [lane, values] : llvm::enumerate(own)) {
    values = load(results, types, t.add(first, static_cast<int64_t>(lane)));
  }
}

} // namespace tenon::codegen::cuda
