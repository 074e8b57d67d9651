// The frame of a kernel that is built op by op: its function, buffers, sizes and shared memory, and
// the step that launches it. Relies on sizes being expressions over the region's symbols.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinOps.h"

namespace tenon::codegen::cuda {

/// A matrix of 16-bit elements with rows `rowElements` apart in the buffer at `position` of a
/// launch, to be copied by boxes of `boxRows` rows and kBoxColumns columns.
TensorMapArgument tensorMapOf(uint32_t position, mlir::AffineExpr rows, mlir::AffineExpr columns,
                              mlir::AffineExpr rowElements, int64_t boxRows);
/// States of a kernel's argument that it is a tensor map: passed by value and only read, so that
/// the kernel needs no copy of its own.
void markTensorMap(mlir::LLVM::LLVMFuncOp kernel, unsigned argument);
/// Holds a kernel's threads to the registers that let so many blocks run on a processor.
void setMinBlocksPerSm(mlir::LLVM::LLVMFuncOp kernel, int64_t blocks);
/// Runs a kernel's grid in clusters of so many neighbouring blocks.
void setCluster(mlir::LLVM::LLVMFuncOp kernel, int64_t blocks);

class KernelShell {
public:
  /// `buffers` as in RegionStep; the first `reads` of them are only read.
  KernelShell(mlir::ModuleOp module, llvm::StringRef symbol, llvm::ArrayRef<uint32_t> buffers,
              uint32_t reads, uint32_t threads);

  /// Pointer to global memory of number `position` of the list of buffers.
  mlir::Value buffer(unsigned position) const { return pointers[position]; }
  /// The i64 value of an expression: a constant, or a size that the launch passes.
  mlir::Value size(mlir::AffineExpr expression);
  mlir::Value size32(mlir::AffineExpr expression) { return code().word(size(expression)); }
  /// Pointer to an argument that describes buffer number `position` as a matrix of 16-bit elements
  /// with rows `rowElements` apart, to be copied by boxes of `boxRows` rows and kBoxColumns columns
  /// (AsyncCopy.h). What a box has outside of the matrix is filled with zeros.
  mlir::Value tensorMap(unsigned position, mlir::AffineExpr rows, mlir::AffineExpr columns,
                        mlir::AffineExpr rowElements, int64_t boxRows);
  /// The block's dynamic shared memory.
  mlir::Value shared(unsigned alignment = 16);
  void setMinBlocksPerSm(int64_t blocks) { cuda::setMinBlocksPerSm(function, blocks); }
  void setCluster(int64_t blocks) { cuda::setCluster(function, blocks); }
  /// Inserts at the end of the kernel.
  ThreadBuilder code() { return ThreadBuilder(builder, location); }

  /// Ends the kernel; `blocks` is the grid.
  RegionStep finish(mlir::AffineExpr blocks, int64_t sharedBytes);

private:
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  mlir::Location location;
  mlir::LLVM::LLVMFuncOp function;
  llvm::SmallVector<mlir::Value> pointers;
  llvm::SmallVector<mlir::AffineExpr> sizes; ///< those that are arguments
  RegionStep step;
};

} // namespace tenon::codegen::cuda
