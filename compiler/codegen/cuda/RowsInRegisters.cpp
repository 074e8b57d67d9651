// The kernel for rows that fit in the registers of their threads: straight-line code, in which what
// a pass loads or computes is still there for the next. Relies on ElementEmitter knowing its
// elements.
#include "compiler/codegen/cuda/ElementEmitter.h"
#include "compiler/codegen/cuda/Rows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

class RegisterRows {
public:
  RegisterRows(RegionBuilder &region, const RowsWork &work, const RowsLayout &layout)
      : kernel(region, layout.blockThreads()), emitter(kernel), math(kernel.math),
        builder(kernel.builder), location(kernel.location), work(work), layout(layout) {}

  bool run() {
    if (layout.threads.blocks > 1) {
      Operation *function = builder.getInsertionBlock()->getParentOp();
      function->setAttr(
          NVVM::NVVMDialect::getClusterDimAttrName(),
          builder.getDenseI32ArrayAttr({static_cast<int32_t>(layout.threads.blocks), 1, 1}));
    }
    place();
    ThreadCombiner threads(kernel, layout.threads, math.value(thread));
    for (linalg::GenericOp op : work.reductions) {
      reduce(op, threads);
    }
    storeWide();
    storeNarrow();
    AffineExpr rows = tn::elementCount(builder.getContext(), work.rows);
    kernel.finish(rows.ceilDiv(layout.rowsPerBlock) * layout.threads.blocks);
    return !emitter.hasFailed();
  }

private:
  /// The elements of one strip: where they are in the row's tensors, and their number in them.
  struct Strip {
    SmallVector<Indices> places;
    SmallVector<Index> linears;
    Value isInside; ///< null if the strip is always part of the row
  };

  void place();
  void placeRow();
  void placeStrip(int64_t step, const Indices &inner);
  void reduce(linalg::GenericOp op, ThreadCombiner &threads);
  void storeWide();
  void storeNarrow();
  Value isBelow(const Index &index, const Index &bound) {
    return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, math.value(index),
                                 math.value(bound));
  }
  Index atMost(const Index &index, const Index &bound) {
    Value last = math.value(math.add(bound, Index::constant(-1)));
    return {arith::MinSIOp::create(builder, location, math.value(index), last), 0, 1, true};
  }
  void when(Value condition, llvm::function_ref<void()> body);

  Kernel kernel;
  ElementEmitter emitter;
  IndexMath &math;
  OpBuilder &builder;
  Location location;
  const RowsWork &work;
  const RowsLayout &layout;

  /// The number of the thread in its block, and among the threads of its row.
  Index thread, inRow;
  Index row;
  Value isRow; ///< null if every thread has a row
  Indices rowPlace;
  SmallVector<Strip> strips;
};

void RegisterRows::when(Value condition, llvm::function_ref<void()> body) {
  if (!condition) {
    return body();
  }
  scf::IfOp branch = scf::IfOp::create(builder, location, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  emitter.openScope();
  body();
  emitter.closeScope();
}

/// Threads beyond the last row repeat it and store nothing, since all must meet at barriers.
void RegisterRows::placeRow() {
  thread = kernel.thread();
  Index block = kernel.block();
  int64_t blocks = layout.threads.blocks, perRow = layout.threads.perRow;
  if (blocks > 1) {
    Index rank = math.mod(block, Index::constant(blocks));
    inRow = math.add(math.multiply(rank, Index::constant(perRow)), thread);
    row = math.floorDiv(block, Index::constant(blocks));
  } else if (layout.rowsPerBlock == 1) {
    inRow = thread;
    row = block;
  } else {
    inRow = math.mod(thread, Index::constant(perRow));
    row = math.add(math.multiply(block, Index::constant(layout.rowsPerBlock)),
                   math.floorDiv(thread, Index::constant(perRow)));
    AffineExpr rows = tn::elementCount(builder.getContext(), work.rows);
    std::optional<int64_t> count = tn::constantDim(rows);
    if (!count || *count % layout.rowsPerBlock != 0) {
      Index bound = kernel.size(rows);
      isRow = isBelow(row, bound);
      row = atMost(row, bound);
    }
  }
  rowPlace = math.delinearize(row, kernel.sizes(work.rows));
}

void RegisterRows::placeStrip(int64_t step, const Indices &inner) {
  int64_t threads = layout.threadsOfRow();
  Index number = math.add(inRow, Index::constant(step * threads));
  Strip strip;
  if ((step + 1) * threads > layout.strips) {
    Index bound = Index::constant(layout.strips);
    strip.isInside = isBelow(number, bound);
    number = atMost(number, bound);
  }
  Index first = math.multiply(number, Index::constant(layout.lanes));
  Index rowStart = math.multiply(row, Index::constant(layout.strips * layout.lanes));
  tn::Dims dims = work.rows;
  dims.append(work.inner);
  for (int64_t lane = 0; lane < layout.lanes; ++lane) {
    Index position = math.add(first, Index::constant(lane));
    Indices at = rowPlace;
    at.append(math.delinearize(position, inner));
    strip.linears.push_back(math.add(rowStart, position));
    emitter.setLinear(dims, at, strip.linears.back());
    strip.places.push_back(std::move(at));
  }
  strips.push_back(std::move(strip));
}

void RegisterRows::place() {
  placeRow();
  Indices inner = kernel.sizes(work.inner);
  for (int64_t step = 0; step < layout.steps; ++step) {
    placeStrip(step, inner);
  }
}

void RegisterRows::reduce(linalg::GenericOp op, ThreadCombiner &threads) {
  Combiner combiner = *Combiner::of(op);
  Accumulators neutral = emitter.initial(op, rowPlace);
  SmallVector<Indices> places;
  for (const Strip &strip : strips) {
    llvm::append_range(places, strip.places);
  }
  SmallVector<Accumulators> starts(places.size(), neutral);
  SmallVector<SmallVector<Value>> results = emitter.steps(op, places, starts);
  SmallVector<Accumulators> parts;
  for (auto [i, strip] : llvm::enumerate(strips)) {
    ArrayRef<SmallVector<Value>> own = ArrayRef(results).slice(i * layout.lanes, layout.lanes);
    Accumulators part =
        combiner.combine(builder, location, SmallVector<Accumulators>(own.begin(), own.end()));
    for (auto [value, other] : llvm::zip(part, neutral)) {
      if (strip.isInside) {
        value = arith::SelectOp::create(builder, location, strip.isInside, value, other);
      }
    }
    parts.push_back(std::move(part));
  }
  Accumulators own = combiner.combine(builder, location, std::move(parts));
  Accumulators all = threads.combine(combiner, std::move(own), neutral);
  for (auto [result, value] : llvm::zip(op->getResults(), all)) {
    emitter.hold(result, [value](ArrayRef<Index>) { return value; });
  }
}

void RegisterRows::storeWide() {
  SmallVector<Indices> places;
  for (const Strip &strip : strips) {
    llvm::append_range(places, strip.places);
  }
  SmallVector<SmallVector<Value>> values;
  for (const Root &root : work.wide) {
    values.push_back(emitter.elements(root.tensor, places));
  }
  if (values.empty()) {
    return;
  }
  when(isRow, [&] {
    for (auto [i, strip] : llvm::enumerate(strips)) {
      when(strip.isInside, [&] {
        for (auto [root, elements] : llvm::zip(work.wide, values)) {
          for (int64_t lane = 0; lane < layout.lanes; ++lane) {
            kernel.store(root.buffer, elements[i * layout.lanes + lane], strip.linears[lane]);
          }
        }
      });
    }
  });
}

/// By the first thread of each row.
void RegisterRows::storeNarrow() {
  if (work.narrow.empty()) {
    return;
  }
  SmallVector<Value> values;
  for (const Root &root : work.narrow) {
    Indices at = rowPlace;
    at.resize(kernel.region.dims(root.tensor).size(), Index::constant(0));
    values.push_back(emitter.element(root.tensor, at));
  }
  when(isRow, [&] {
    when(layout.threadsOfRow() == 1 ? Value() : isBelow(inRow, Index::constant(1)), [&] {
      for (auto [root, value] : llvm::zip(work.narrow, values)) {
        kernel.store(root.buffer, value, row);
      }
    });
  });
}

} // namespace

void emitRowsInRegisters(RegionBuilder &region, const RowsWork &work, const RowsLayout &layout,
                         bool &hasFailed) {
  hasFailed |= !RegisterRows(region, work, layout).run();
}

} // namespace tenon::codegen::cuda
