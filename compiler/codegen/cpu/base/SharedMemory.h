// Memory that all calls of a launch share, and the kernel that prepares it: for kernels whose
// threads work on one thing step by step. A kernel's function says of itself that it has such
// memory by an attribute, which codegen takes off.
#pragma once

#include "compiler/codegen/cpu/base/IndexMath.h"
#include "engine/Level.h"

#include <string>

namespace tenon::codegen::cpu {

/// The attribute: a map whose results are the bytes of each temporary over the region's symbols.
inline constexpr llvm::StringLiteral kTemporaries = "tn.temporaries";

/// The symbol of what runs before the kernel of that symbol, on the same buffers, to prepare the
/// temporaries: a kernel of one grid point.
std::string preparingSymbol(llvm::StringRef symbol);

/// States the bytes of the kernel's temporaries, which are its buffers behind the results.
void declareTemporaries(const KernelBuilder &kernel, llvm::ArrayRef<mlir::AffineExpr> bytes);

/// A temporary of either kernel as a dense memref; `position` counts all buffers.
mlir::Value temporaryAt(const IndexMath &math, mlir::func::FuncOp kernel, unsigned position,
                        mlir::Type element, llvm::ArrayRef<mlir::OpFoldResult> sizes);

/// A word of 64 bits of a buffer of them, as threads that share it read and change it.
class SharedWord {
public:
  SharedWord(const IndexMath &math, mlir::Value words, mlir::Value number);

  /// Of i64. What was written before the value that is read was put there can be read behind it.
  mlir::Value load(const IndexMath &math) const;
  /// Before other threads may look at it, or once none does.
  void set(const IndexMath &math, mlir::Value value) const;
  /// Tells what was written before, and gives the value before.
  mlir::Value add(const IndexMath &math, mlir::Value value) const;
  /// Of i1: whether the word was `from`, and is `to` now.
  mlir::Value exchange(const IndexMath &math, mlir::Value from, mlir::Value to) const;
  /// Returns when the word is `least` or more.
  void waitFor(const IndexMath &math, mlir::Value least, engine::CpuLevel level) const;

private:
  mlir::Value address;
};

} // namespace tenon::codegen::cpu
