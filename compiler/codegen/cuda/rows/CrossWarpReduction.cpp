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
    all.push_back(load(arrays, types, t.add(column, part * columns())));
  }
  return combiner.combine(t.builder, t.location, std::move(all));
}

void CrossWarpReduction::forColumns(llvm::function_ref<void(Value column)> body) {
  for (int64_t first = 0; first < columns(); first += layout.threads()) {
    Value column = t.add(thread, first);
    if (first + layout.threads() <= columns()) {
      body(column);
      continue;
    }
    t.when(t.isLess(column, t.i32(columns())), [&](const ThreadBuilder &) { body(column); });
  }
}

CrossWarpReduction::Exchange CrossWarpReduction::makeExchange(const Part &part, int64_t warps) {
  Exchange made;
  made.types.assign(ValueRange(part.own.front()).getTypes().begin(),
                    ValueRange(part.own.front()).getTypes().end());
  made.ofWarps = makeArrays(made.types, warps * columns());
  made.results = makeArrays(made.types, columns());
  if (layout.blocks > 1) {
    made.ofBlocks = makeArrays(made.types, layout.blocks * columns());
  }
  return made;
}

void CrossWarpReduction::reduce(MutableArrayRef<Part> parts) {
  // Threads of a warp whose width is no power of two do not stand above each other.
  int64_t inWarp =
      layout.width < kWarp && llvm::isPowerOf2_64(layout.width) ? kWarp / layout.width : 1;
  for (Part &part : parts) {
    for (Accumulators &values : part.own) {
      values = warp.combineLanes(part.combiner, inWarp, std::move(values), layout.width);
    }
  }
  int64_t warps = layout.height / inWarp;
  if (warps == 1 && layout.blocks == 1 && layout.beside() == 1) {
    return;
  }
  SmallVector<Exchange> exchanges;
  for (const Part &part : parts) {
    exchanges.push_back(makeExchange(part, warps));
  }
  Value first = t.mul(inWidth, layout.parts());
  auto storeOwn = [&](const ThreadBuilder &) {
    Value place = t.add(t.mul(t.div(inHeight, inWarp), columns()), first);
    for (auto [part, exchange] : llvm::zip(parts, exchanges)) {
      for (auto [lane, values] : llvm::enumerate(part.own)) {
        store(exchange.ofWarps, t.add(place, static_cast<int64_t>(lane)), values);
      }
    }
  };
  t.when(t.isEqual(t.rem(inHeight, inWarp), t.i32(0)), storeOwn);
  t.barrier();
  auto combineAll = [&](Arrays Exchange::*from, int64_t count) {
    forColumns([&](Value column) {
      for (auto [part, exchange] : llvm::zip(parts, exchanges)) {
        store(exchange.results, column,
              combineParts(part.combiner, exchange.*from, exchange.types, column, count));
      }
    });
  };
  if (layout.blocks == 1) {
    combineAll(&Exchange::ofWarps, warps);
  } else {
    if (!hasClusterStarted) {
      t.waitForCluster();
    }
    hasClusterStarted = true;
    Value rank = NVVM::BlockInClusterIdXOp::create(t.builder, t.location, t.i32Type());
    forColumns([&](Value column) {
      Value place = t.add(t.mul(rank, columns()), column);
      for (auto [part, exchange] : llvm::zip(parts, exchanges)) {
        Accumulators values =
            combineParts(part.combiner, exchange.ofWarps, exchange.types, column, warps);
        for (int64_t block = 0; block < layout.blocks; ++block) {
          for (auto [array, value] : llvm::zip(exchange.ofBlocks, values)) {
            Value target = t.remote(t.offset(array, value.getType(), place), t.i32(block));
            t.store(value, target, byteSize(value.getType()));
          }
        }
      }
    });
    t.arriveAtCluster();
    t.waitForCluster();
    combineAll(&Exchange::ofBlocks, layout.blocks);
  }
  t.barrier();
  // Of a group, the first of the threads side by side that have it.
  Value of = layout.beside() > 1 ? t.sub(first, t.rem(first, layout.beside())) : first;
  for (auto [part, exchange] : llvm::zip(parts, exchanges)) {
    for (auto [lane, values] : llvm::enumerate(part.own)) {
      SmallVector<Accumulators> all;
      for (int64_t i = 0; i < layout.beside(); ++i) {
        all.push_back(
            load(exchange.results, exchange.types, t.add(of, static_cast<int64_t>(lane) + i)));
      }
      values = part.combiner.combine(t.builder, t.location, std::move(all));
    }
  }
}

} // namespace tenon::codegen::cuda
