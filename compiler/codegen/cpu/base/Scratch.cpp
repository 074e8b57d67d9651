// Scratch layout: allocations one after the other, 64-byte aligned, with sizes as expressions over
// the region's symbols. Relies on tiles being bounded by such expressions (KernelBuilder.h).
#include "compiler/codegen/cpu/base/Scratch.h"

#include "compiler/codegen/cpu/base/KernelBuilder.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <cstddef>

#include "engine/KernelAbi.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

constexpr int64_t kAlignment = 64;

/// Bytes of an allocation, rounded up to the alignment.
FailureOr<AffineExpr> allocationBytes(memref::AllocOp alloc) {
  MLIRContext *context = alloc.getContext();
  MemRefType type = alloc.getType();
  int64_t elementBytes = llvm::divideCeil(type.getElementType().getIntOrFloatBitWidth(), 8);
  AffineExpr bytes = getAffineConstantExpr(elementBytes, context);
  unsigned dynamic = 0;
  for (int64_t size : type.getShape()) {
    if (!ShapedType::isDynamic(size)) {
      bytes = bytes * size;
      continue;
    }
    AffineExpr bound = symbolicValue(alloc.getDynamicSizes()[dynamic++]);
    if (!bound) {
      return alloc.emitError("scratch memory whose size does not follow from the shapes");
    }
    bytes = bytes * bound;
  }
  return bytes.ceilDiv(kAlignment) * kAlignment;
}

Value scratchPointer(func::FuncOp kernel) {
  OpBuilder builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
  Location location = kernel.getLoc();
  Type pointer = LLVM::LLVMPointerType::get(kernel.getContext());
  Value address = LLVM::GEPOp::create(
      builder, location, pointer, builder.getI8Type(), kernel.getArgument(0),
      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offsetof(TenonKernelContext, scratch))});
  return LLVM::LoadOp::create(builder, location, pointer, address, /*alignment=*/0,
                              /*isVolatile=*/false, /*isNonTemporal=*/false, /*isInvariant=*/true);
}

/// The i64 value of an expression over the region's symbols.
Value offsetValue(OpBuilder &builder, func::FuncOp kernel, AffineExpr expression) {
  Location location = kernel.getLoc();
  SmallVector<Value> symbols;
  unsigned count = 0;
  expression.walk([&](AffineExpr part) {
    if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(part)) {
      count = std::max(count, symbol.getPosition() + 1);
    }
  });
  for (unsigned i = 0; i < count; ++i) {
    symbols.push_back(loadSymbol(builder, kernel, i));
  }
  Value index = affine::AffineApplyOp::create(builder, location,
                                              AffineMap::get(0, count, expression), symbols);
  return arith::IndexCastOp::create(builder, location, builder.getI64Type(), index);
}

} // namespace

FailureOr<AffineExpr> assignScratch(func::FuncOp kernel) {
  MLIRContext *context = kernel.getContext();
  AffineExpr total = getAffineConstantExpr(0, context);
  SmallVector<memref::AllocOp> allocations;
  kernel.walk([&](memref::AllocOp alloc) { allocations.push_back(alloc); });
  if (allocations.empty()) {
    return total;
  }
  Value scratch = scratchPointer(kernel);
  for (memref::AllocOp alloc : allocations) {
    FailureOr<AffineExpr> bytes = allocationBytes(alloc);
    if (failed(bytes)) {
      return failure();
    }
    OpBuilder builder(alloc);
    Location location = alloc.getLoc();
    Value start = offsetValue(builder, kernel, total);
    Value pointer = LLVM::GEPOp::create(builder, location, scratch.getType(), builder.getI8Type(),
                                        scratch, ArrayRef<LLVM::GEPArg>{start});
    Value place = memrefAt(builder, location, pointer, alloc.getType().getElementType(),
                           alloc.getMixedSizes());
    alloc.replaceAllUsesWith(place);
    alloc.erase();
    total = total + *bytes;
  }
  return total;
}

} // namespace tenon::codegen::cpu
