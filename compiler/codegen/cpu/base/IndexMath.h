// Index arithmetic that folds constants as it is built, and pointers into dense buffers: what the
// strategies with hand-made loops are written in.
#pragma once

#include "compiler/codegen/cpu/base/KernelBuilder.h"

namespace tenon::codegen::cpu {

class IndexMath {
public:
  IndexMath(mlir::OpBuilder &builder, mlir::Location location)
      : builder(builder), location(location) {}

  mlir::Value constant(int64_t value) const;
  mlir::Value add(mlir::Value a, mlir::Value b) const;
  mlir::Value sub(mlir::Value a, mlir::Value b) const;
  mlir::Value mul(mlir::Value a, mlir::Value b) const;
  mlir::Value mul(mlir::Value a, int64_t b) const { return mul(a, constant(b)); }
  /// Unsigned quotient and remainder; b > 0.
  mlir::Value div(mlir::Value a, mlir::Value b) const;
  mlir::Value rem(mlir::Value a, mlir::Value b) const;
  /// Signed.
  mlir::Value min(mlir::Value a, mlir::Value b) const;
  mlir::Value max(mlir::Value a, mlir::Value b) const;
  mlir::Value isLess(mlir::Value a, mlir::Value b) const;
  /// As i64, for calls and addresses.
  mlir::Value toI64(mlir::Value index) const;

  /// The value of an expression over the region's symbols.
  mlir::Value size(const KernelBuilder &kernel, mlir::AffineExpr expression) const;

  /// Address of an element of 32 bits of a dense buffer (a kernel buffer or an allocation, no
  /// view).
  mlir::Value pointer(mlir::Value buffer, mlir::Value element) const;

  /// The same of an element of the buffer's own width.
  mlir::Value elementPointer(mlir::Value buffer, mlir::Value element) const;

  /// `elements` of 32 bits behind a pointer.
  mlir::Value offset(mlir::Value pointer, mlir::Value elements) const;

  /// buffer[offsets][sizes] with unit strides.
  mlir::Value view(mlir::Value buffer, llvm::ArrayRef<mlir::Value> offsets,
                   llvm::ArrayRef<mlir::Value> sizes) const;
  /// The buffer as rows of its last dim.
  mlir::Value asRows(mlir::Value buffer) const;
  /// The buffer, of rank 1 or more, as one line of elements.
  mlir::Value asLine(mlir::Value buffer) const;

  mlir::OpBuilder &builder;
  mlir::Location location;
};

/// A loop over the indices from `from` to below `to`, `step` apart.
void forEach(const IndexMath &math, mlir::Value from, mlir::Value to, int64_t step,
             llvm::function_ref<void(const IndexMath &, mlir::Value)> body);

/// Neighbours of a buffer from `place` on, one for each lane of `wide`, widened; zeros in the lanes
/// from `active` on, if that is given.
mlir::Value loadLanes(const IndexMath &math, mlir::VectorType wide, mlir::Value buffer,
                      mlir::ValueRange place, mlir::Value active);
/// The way back: the lanes below `active`, or all.
void storeLanes(const IndexMath &math, mlir::Value vector, mlir::Value buffer,
                mlir::ValueRange place, mlir::Value active);

/// All lanes of a vector as one by `combine`, halves with each other: LLVM's reductions of floats
/// go lane by lane where order or NaN count.
mlir::Value combineLanes(mlir::OpBuilder &builder, mlir::Location location, mlir::Value vector,
                         llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

/// Calls a function of the support object, declared in the kernel's module at its first call.
void callSupport(const IndexMath &math, mlir::func::FuncOp kernel, llvm::StringRef name,
                 mlir::ValueRange arguments);

/// to(i...) = from(map(i...)) for all elements of `to`, widened if `from` is of narrower floats.
void copyElements(const IndexMath &math, mlir::Value from, mlir::Value to, mlir::AffineMap map);

/// to(i...) = 0.
void clear(const IndexMath &math, mlir::Value to);

} // namespace tenon::codegen::cpu
