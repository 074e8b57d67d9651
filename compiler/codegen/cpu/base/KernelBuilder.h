// A kernel under construction: the ABI function with its grid slice, the region's symbols, and its
// buffers as memrefs. Every strategy fills in the same frame.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace tenon::codegen::cpu {

class KernelBuilder {
public:
  /// Adds to `module` a function of the ABI of engine/KernelAbi.h for the `tn` function `source`.
  /// It has the attribute tn::kInvariant (graph/Invariance.h) if the region's module has it.
  /// The builder stands in its body, before the return.
  KernelBuilder(mlir::ModuleOp module, llvm::StringRef symbol, mlir::func::FuncOp source);

  mlir::func::FuncOp function() const { return kernel; }
  /// Memrefs of the arguments and results of `source`: row-major, dense, storage element types.
  mlir::Value input(unsigned i) const { return inputs[i]; }
  mlir::Value output(unsigned i) const { return outputs[i]; }

  mlir::OpBuilder builder;
  mlir::Location location;
  /// Of index type: the grid slice [begin, end) and the values of the region's symbols.
  mlir::Value begin, end;
  mlir::SmallVector<mlir::Value> symbols;
  /// Each element of the result is written once, and inputs with the result's dims are read only at
  /// that place and before.
  bool mayOverwriteInputs = false;

private:
  mlir::Value buffer(unsigned position, mlir::Type tensor);

  mlir::func::FuncOp kernel;
  mlir::SmallVector<mlir::Value> inputs, outputs;
};

/// The value (of index type) of a symbol of the region.
mlir::Value loadSymbol(mlir::OpBuilder &builder, mlir::func::FuncOp kernel, unsigned symbol);

/// A dense row-major memref over memory that starts at an !llvm.ptr.
mlir::Value memrefAt(mlir::OpBuilder &builder, mlir::Location location, mlir::Value pointer,
                     mlir::Type element, llvm::ArrayRef<mlir::OpFoldResult> sizes);

/// The expression over the region's symbols that an index value computes, or an upper bound of it
/// where it takes a minimum; null if it depends on anything else.
mlir::AffineExpr symbolicValue(mlir::Value index);

} // namespace tenon::codegen::cpu
