// The call that a tn.custom stands for: which kernel of the user's computes it on a device, and
// what that is given, as expressions over the module's symbols.
#pragma once

#include "compiler/graph/Shape.h"
#include "compiler/graph/TnCustom.h"
#include "compiler/kernels/Library.h"

#include <optional>

namespace tenon::kernels {

/// The kernel of an operation for a backend; none if the user gave none.
std::optional<Kernel> kernelFor(tn::CustomOp op, std::string_view backend);

/// An expression of a description with `sizes` as the values of its sizes; null where that cannot
/// be written.
mlir::AffineExpr valueOf(const Kernel &kernel, const std::string &expression,
                         llvm::ArrayRef<mlir::AffineExpr> sizes, mlir::MLIRContext *context);

struct Argument {
  enum class Kind : uint8_t { Buffer, Size, Attribute, Begin, End, Scratch };
  Kind kind = Kind::Size;
  unsigned buffer = 0;       ///< inputs from 0, then outputs
  mlir::AffineExpr size;     ///< over the symbols of the operation's module
  mlir::TypedAttr attribute; ///< i64, f32 or f64
};

struct Call {
  Kernel kernel;
  llvm::SmallVector<Argument> arguments;
  llvm::SmallVector<mlir::AffineExpr> grid; ///< at least one dim
  mlir::AffineExpr scratchBytes;            ///< 0 for none
};

/// None if the user gave no kernel for the backend, or if a size cannot be written.
std::optional<Call> callFor(tn::CustomOp op, std::string_view backend);

} // namespace tenon::kernels
