// One NVVM op a function. Relies on operands of f16 being vectors of two and of bf16 being words.
#include "compiler/codegen/cuda/base/TensorCore.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {

ThreadBuilder::Values multiplyBytes(const ThreadBuilder &t, bool isSigned, ArrayRef<Value> a,
                                    ArrayRef<Value> b, ArrayRef<Value> c) {
  Type result =
      LLVM::LLVMStructType::getLiteral(t.builder.getContext(), SmallVector<Type>(4, t.i32Type()));
  std::array<NVVM::MMATypes, 2> types = {isSigned ? NVVM::MMATypes::s8 : NVVM::MMATypes::u8,
                                         NVVM::MMATypes::s8};
  std::array<NVVM::MMALayout, 2> layouts = {NVVM::MMALayout::row, NVVM::MMALayout::col};
  Value d = NVVM::MmaOp::create(t.builder, t.location, result, a, b, c,
                                {kMmaRows, kMmaColumns, 2 * kMmaDepth}, std::nullopt,
                                NVVM::MMAIntOverflow::wrapped, types, layouts);
  return {t.member(d, 0), t.member(d, 1), t.member(d, 2), t.member(d, 3)};
}

ThreadBuilder::Values multiply(const ThreadBuilder &t, Type element, ArrayRef<Value> a,
                               ArrayRef<Value> b, ArrayRef<Value> c) {
  bool isBrain = element.isBF16();
  NVVM::MMATypes type = isBrain ? NVVM::MMATypes::bf16 : NVVM::MMATypes::f16;
  auto operands = [&](ArrayRef<Value> words) {
    ThreadBuilder::Values list(words);
    for (Value &word : list) {
      word = isBrain ? word : t.bitcast(t.vectorType(2, element), word);
    }
    return list;
  };
  Type result =
      LLVM::LLVMStructType::getLiteral(t.builder.getContext(), SmallVector<Type>(4, t.f32Type()));
  std::array<NVVM::MMATypes, 2> types = {type, type};
  std::array<NVVM::MMALayout, 2> layouts = {NVVM::MMALayout::row, NVVM::MMALayout::col};
  Value d = NVVM::MmaOp::create(t.builder, t.location, result, operands(a), operands(b), c,
                                {kMmaRows, kMmaColumns, kMmaDepth}, std::nullopt, std::nullopt,
                                types, layouts);
  return {t.member(d, 0), t.member(d, 1), t.member(d, 2), t.member(d, 3)};
}

ThreadBuilder::Values loadMatrices(const ThreadBuilder &t, Value sharedPointer, bool transposed) {
  MLIRContext *context = t.builder.getContext();
  Type result = LLVM::LLVMStructType::getLiteral(context, SmallVector<Type>(4, t.i32Type()));
  Value matrices = NVVM::LdMatrixOp::create(
      t.builder, t.location, result, sharedPointer, 4,
      transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row,
      NVVM::LdStMatrixShapeAttr::get(context, 8, 8), NVVM::LdStMatrixEltType::B16);
  return {t.member(matrices, 0), t.member(matrices, 1), t.member(matrices, 2),
          t.member(matrices, 3)};
}

void storeMatrices(const ThreadBuilder &t, Value sharedPointer, ArrayRef<Value> words) {
  NVVM::StMatrixOp::create(t.builder, t.location, sharedPointer, words, NVVM::MMALayout::row,
                           NVVM::LdStMatrixShapeAttr::get(t.builder.getContext(), 8, 8),
                           NVVM::LdStMatrixEltType::B16);
}

/// Matrix m = lane / 8 is at rows 8 (m % 2), columns 8 (m / 2).
TileSpot rowsFirst(const ThreadBuilder &t) {
  Value lane = t.lane();
  return {t.rem(lane, 16), t.mul(t.div(lane, 16), 8)};
}

/// Matrix m = lane / 8 is at rows 8 (m / 2), columns 8 (m % 2).
TileSpot columnsFirst(const ThreadBuilder &t) {
  Value lane = t.lane();
  Value matrix = t.div(lane, 8);
  return {t.add(t.rem(lane, 8), t.mul(t.div(matrix, 2), 8)), t.mul(t.rem(matrix, 2), 8)};
}

void copyAsync(const ThreadBuilder &t, Value shared, Value global, Value bytes, int64_t size) {
  // Only whole sectors go by without the first-level cache.
  NVVM::LoadCacheModifierKind caches =
      size == 16 ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA;
  NVVM::CpAsyncOp::create(t.builder, t.location, shared, global, size, caches, bytes);
}

void commitCopies(const ThreadBuilder &t) {
  NVVM::CpAsyncCommitGroupOp::create(t.builder, t.location);
}

void waitForCopies(const ThreadBuilder &t, int64_t pending) {
  NVVM::CpAsyncWaitGroupOp::create(t.builder, t.location, pending);
}

} // namespace tenon::codegen::cuda
