// The kernel for rows that fit in the registers of their threads: straight-line code, in which what
// a pass loads or computes is still there for the next. Relies on ElementEmitter knowing its
// elements.
#include "compiler/codegen/cuda/base/CachePolicy.h"
#include "compiler/codegen/cuda/rows/RowsFrame.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

class RegisterRows : RowsFrame {
public:
  RegisterRows(RegionBuilder &region, const RowsWork &work, const RowReductionConfig &layout)
      : RowsFrame(region, work, layout) {
    if (layout.blocksOfProcessor != 0) {
      kernel.setMinBlocksPerSm(layout.blocksOfProcessor);
    }
  }

  bool run() {
    placeIn(firstGroup);
    for (const Strip &strip : strips) {
      llvm::append_range(places, strip.places);
    }
    if (layout.keepsReads) {
      loadKeptInputs();
    }
    ThreadCombiner threads(kernel, layout.threads, math.value(thread));
    // Within a block a barrier more costs less than to compute twice what both reductions need.
    std::optional<Round> round = layout.threads.blocks > 1 ? onlyRound() : std::nullopt;
    reduceRows(threads, round, /*number=*/Value());
    storeWide();
    storeNarrow();
    kernel.finish(groupCount() * layout.threads.blocks);
    return !emitter.hasFailed();
  }

private:
  using RowsFrame::reduceOwn;
  Accumulators reduceOwn(linalg::GenericOp op, const Combiner &combiner,
                         const Accumulators &neutral) override;
  void storeWide();
  /// What the strips, if they are whole, have of the inputs, by the policy of tensors that no cache
  /// holds.
  void loadKeptInputs();

  /// Of all strips.
  SmallVector<Indices> places;
};

Accumulators RegisterRows::reduceOwn(linalg::GenericOp op, const Combiner &combiner,
                                     const Accumulators &neutral) {
  SmallVector<Accumulators> starts(places.size(), combiner.start(builder, location, neutral));
  SmallVector<SmallVector<Value>> results = emitter.steps(op, places, starts);
  SmallVector<Accumulators> parts;
  for (auto [i, strip] : llvm::enumerate(strips)) {
    ArrayRef<Accumulators> own = ArrayRef(results).slice(i * layout.lanes, layout.lanes);
    parts.push_back(combineStrip(combiner, strip, own, neutral));
  }
  return combiner.combine(builder, location, std::move(parts));
}

void RegisterRows::loadKeptInputs() {
  ThreadBuilder t(builder, location);
  Value policy = keepingPolicy(t);
  for (Value input : work.inputs) {
    Type element = getElementTypeOrSelf(input);
    bool isWhole = llvm::none_of(strips, [](const Strip &strip) { return strip.isInside; });
    if (!isWhole || layout.lanes * byteSize(element) != kStagedBytes) {
      continue;
    }
    Value source = kernel.pointer(*kernel.region.bufferOf(input), /*isWritten=*/false);
    SmallVector<Value> vectors;
    for (const Strip &strip : strips) {
      Value four = loadKept(t, kernel.address(source, element, strip.linears.front()), policy);
      vectors.push_back(t.bitcast(VectorType::get(layout.lanes, element), four));
    }
    holdVectors(input, vectors, places);
  }
}

void RegisterRows::storeWide() {
  SmallVector<SmallVector<Value>> values;
  for (const Root &root : work.wide) {
    values.push_back(emitter.elements(root.tensor, places));
  }
  if (values.empty()) {
    return;
  }
  emitter.when(isRow, [&] {
    for (auto [i, strip] : llvm::enumerate(strips)) {
      SmallVector<SmallVector<Value>> own;
      for (ArrayRef<Value> elements : values) {
        ArrayRef<Value> part = elements.slice(i * layout.lanes, layout.lanes);
        own.emplace_back(part.begin(), part.end());
      }
      store(strip, own);
    }
  });
}

} // namespace

void emitRowsInRegisters(RegionBuilder &region, const RowsWork &work,
                         const RowReductionConfig &layout, bool &hasFailed) {
  hasFailed |= !RegisterRows(region, work, layout).run();
}

} // namespace tenon::codegen::cuda
