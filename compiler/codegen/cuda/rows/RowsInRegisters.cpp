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
    if (layout.blocksPerSm != 0) {
      kernel.setMinBlocksPerSm(layout.blocksPerSm);
    }
  }

  bool run() {
    placeIn(firstGroup);
    if (layout.keepsReads) {
      loadKeptInputs();
    }
    ThreadCombiner threads(kernel, layout.threads, math.value(thread));
    // Within a block a barrier more costs less than to compute twice what both reductions need.
    std::optional<Round> round = layout.threads.blocks > 1 ? onlyRound() : std::nullopt;
    reduceRows(threads, round, /*number=*/Value());
    emitter.storeStrips(work.wide, strips, isRow);
    storeNarrow();
    kernel.finish(groupCount() * layout.threads.blocks);
    return !emitter.hasFailed();
  }

private:
  using RowsFrame::reduceOwn;
  Accumulators reduceOwn(linalg::GenericOp op, const Combiner &combiner,
                         const Accumulators &neutral) override;
  /// What the strips, if they are whole, have of the inputs, by the policy of tensors that no cache
  /// holds.
  void loadKeptInputs();
};

Accumulators RegisterRows::reduceOwn(linalg::GenericOp op, const Combiner &combiner,
                                     const Accumulators &neutral) {
  return emitter.reduceStrips(op, combiner, neutral, strips, 1)[0];
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
    SmallVector<Indices> places;
    for (const Strip &strip : strips) {
      llvm::append_range(places, strip.places);
      Value four = loadKept(t, kernel.address(source, element, strip.linears.front()), policy);
      vectors.push_back(t.bitcast(VectorType::get(layout.lanes, element), four));
    }
    holdVectors(input, vectors, places);
  }
}

} // namespace

void emitRowsInRegisters(RegionBuilder &region, const RowsWork &work,
                         const RowReductionConfig &layout, bool &hasFailed) {
  hasFailed |= !RegisterRows(region, work, layout).run();
}

} // namespace tenon::codegen::cuda
