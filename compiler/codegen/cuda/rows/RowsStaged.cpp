// What comes from memory: copies of rows, the elements of a pass, and what all rows read.
#include "compiler/codegen/cuda/rows/RowsStaged.h"

#include "compiler/codegen/cuda/base/CachePolicy.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {

StagedRows::StagedRows(RegionBuilder &region, const RowsWork &work,
                       const RowReductionConfig &layout)
    : RowsFrame(region, work, layout), memory(kernel.dynamicShared()) {
  if (layout.blocksPerSm != 0) {
    kernel.setMinBlocksPerSm(layout.blocksPerSm);
  }
  if (layout.keepsReads) {
    ThreadBuilder t(builder, location);
    keeping = keepingPolicy(t);
    hidden = hiddenZero(t, t.thread());
    memory = t.offset(memory, t.builder.getI8Type(), hidden);
  }
}

Value StagedRows::i32(int64_t value) {
  return arith::ConstantOp::create(builder, location, builder.getI32IntegerAttr(value));
}

Value StagedRows::add(Value a, Value b) { return arith::AddIOp::create(builder, location, a, b); }

void StagedRows::holdParameters() {
  int64_t free = layout.parameterRegisters;
  for (Value tensor : work.parameters) {
    Parameter parameter;
    parameter.tensor = tensor;
    unsigned buffer = *kernel.region.bufferOf(tensor);
    if (layout.areTogether && !kernel.writes(buffer)) {
      // Else ptxas reads them where they are used first, behind what the blocks wait for (layer
      // norm of 65,536 on an H200: 3.67 TB/s, not 4.06).
      kernel.orderedPointer(buffer);
    }
    Type element = getElementTypeOrSelf(tensor);
    VectorType type = VectorType::get(layout.lanes, element);
    int64_t words = llvm::divideCeil(layout.steps * layout.lanes * byteSize(element), 4);
    bool isEven = layout.lanes * byteSize(element) % 4 == 0;
    for (int64_t step = 0; step < layout.steps && isEven && words <= free; ++step) {
      Value isInside;
      Index first = math.multiply(stripNumber(step, isInside), Index::constant(layout.lanes));
      parameter.strips.push_back(kernel.load(buffer, type, first));
    }
    free -= parameter.strips.empty() ? 0 : words;
    parameters.push_back(std::move(parameter));
  }
}

void StagedRows::copyPointers() {
  for (Parameter &parameter : parameters) {
    unsigned buffer = *kernel.region.bufferOf(parameter.tensor);
    parameter.pointer = kernel.copied(kernel.pointer(buffer, kernel.writes(buffer)));
  }
}

Value StagedRows::parameterAt(const Parameter &parameter, int64_t step) {
  VectorType type = VectorType::get(layout.lanes, getElementTypeOrSelf(parameter.tensor));
  if (parameter.strips.empty()) {
    Value isInside;
    Index first = math.multiply(stripNumber(step, isInside), Index::constant(layout.lanes));
    return kernel.loadThrough(parameter.pointer, *kernel.region.bufferOf(parameter.tensor), type,
                              first);
  }
  int64_t count = type.getNumElements() * byteSize(type.getElementType()) / 4;
  Type wordsType = VectorType::get(count, builder.getI32Type());
  Value words = LLVM::BitcastOp::create(builder, location, wordsType, parameter.strips[step]);
  Value result = LLVM::UndefOp::create(builder, location, wordsType);
  for (int64_t i = 0; i < count; ++i) {
    Value own = LLVM::ExtractElementOp::create(builder, location, words, i32(i));
    result = LLVM::InsertElementOp::create(builder, location, result, kernel.copied(own), i32(i));
  }
  return LLVM::BitcastOp::create(builder, location, type, result);
}

Value StagedRows::stagedAt(size_t input, int64_t step, Value stage) {
  int64_t ofStep = layout.blockThreads() * kStagedBytes;
  bool hasOne = layout.stages == 1;
  int64_t ofStage = hasOne ? 0 : ofStep * layout.steps * static_cast<int64_t>(work.inputs.size());
  int64_t fixed = ofStep * (static_cast<int64_t>(input) * layout.steps + step);
  auto scaled = [&](Value value, int64_t by) -> Value {
    return arith::MulIOp::create(builder, location, value, i32(by));
  };
  Value own =
      arith::IndexCastOp::create(builder, location, builder.getI32Type(), math.value(thread));
  Value place =
      add(scaled(hidden ? add(stage, hidden) : stage, ofStage), scaled(own, kStagedBytes));
  Type byte = builder.getI8Type();
  Value start = LLVM::GEPOp::create(builder, location, memory.getType(), byte, memory,
                                    ArrayRef<LLVM::GEPArg>{place});
  return LLVM::GEPOp::create(builder, location, memory.getType(), byte, start,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(fixed)});
}

void StagedRows::copy(const Index &group, Value isThere, Value stage) {
  Value ignored;
  Index length = Index::constant(layout.strips * layout.lanes);
  Index rowStart = math.multiply(rowIn(group, ignored), length);
  Value bytes = arith::SelectOp::create(builder, location, isThere, i32(kStagedBytes), i32(0));
  for (int64_t step = 0; step < layout.steps; ++step) {
    Index first = math.multiply(stripNumber(step, ignored), Index::constant(layout.lanes));
    for (auto [i, input] : llvm::enumerate(work.inputs)) {
      unsigned buffer = *kernel.region.bufferOf(input);
      Value source = kernel.pointer(buffer, kernel.writes(buffer));
      Value from = kernel.address(source, getElementTypeOrSelf(input), math.add(rowStart, first));
      Value to = stagedAt(i, step, stage);
      if (keeping) {
        copyKept(ThreadBuilder(builder, location), to, from, bytes, keeping);
      } else {
        NVVM::CpAsyncOp::create(builder, location, to, from, kStagedBytes,
                                NVVM::LoadCacheModifierKind::CG, bytes);
      }
    }
    NVVM::CpAsyncCommitGroupOp::create(builder, location);
  }
}

void StagedRows::openPass(const Strip &strip, int64_t step) {
  if (rowsBehind) {
    int64_t stripsBehind = (*rowsBehind + 1) * layout.steps - 1 - step;
    NVVM::CpAsyncWaitGroupOp::create(builder, location, stripsBehind);
  }
  for (auto [i, input] : llvm::enumerate(work.inputs)) {
    VectorType type = VectorType::get(layout.lanes, getElementTypeOrSelf(input));
    // Else ptxas keeps in registers what it has read once.
    Value vector = LLVM::LoadOp::create(builder, location, type, stagedAt(i, step, currentStage),
                                        kStagedBytes, /*isVolatile=*/layout.areTogether);
    holdVectors(input, vector, strip.places);
  }
  for (const Parameter &parameter : parameters) {
    size_t rank = kernel.region.dims(parameter.tensor).size(), inner = work.inner.size();
    SmallVector<Indices> places;
    for (const Indices &place : strip.places) {
      Indices at(rank - inner, Index::constant(0));
      llvm::append_range(at, ArrayRef(place).take_back(inner));
      places.push_back(std::move(at));
    }
    holdVectors(parameter.tensor, parameterAt(parameter, step), places);
  }
}

} // namespace tenon::codegen::cuda
