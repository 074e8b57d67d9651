// One step of a product's depth in vector registers: what a level multiplies and adds by for each
// type.
#pragma once

#include "compiler/codegen/cpu/gemm/MicroKernel.h"

namespace tenon::codegen::cpu {

class DotStep {
public:
  DotStep(mlir::OpBuilder &builder, mlir::Location location, engine::CpuLevel level,
          ProductType type)
      : builder(builder), location(location), level(level), type(type) {}

  /// Whether the level multiplies and sums the elements of a word by one instruction.
  static bool isOneInstruction(engine::CpuLevel level, ProductType type);

  /// Whether multiplyAdd takes A's elements less 128, so that from each sum that of a row of zeros
  /// is to be taken off.
  static bool takesLess128(engine::CpuLevel level, ProductType type);

  /// A vector of words of A (one word in all lanes) or of B, taken apart as `multiplyAdd` wants it.
  using Factor = llvm::SmallVector<mlir::Value, 2>;
  Factor ofA(mlir::Value words) const;
  Factor ofB(mlir::Value words) const;

  /// Lane by lane the dot product of a word's elements, added to `sum`.
  mlir::Value multiplyAdd(const Factor &a, const Factor &b, mlir::Value sum) const;

private:
  bool isSplit() const { return !isOneInstruction(level, type); }
  Factor splitFloats(mlir::Value words) const;
  Factor splitBytes(mlir::Value words, bool isSigned) const;
  mlir::Value call(llvm::StringRef intrinsic, mlir::Type result, mlir::ValueRange operands) const;
  mlir::Value multiplyAddBytes(mlir::Value a, mlir::Value b, mlir::Value sum) const;
  mlir::Value multiplyPart(mlir::Value a, mlir::Value b, mlir::Value sum) const;
  mlir::Value multiplyAddFloats(mlir::Value a, mlir::Value b, mlir::Value sum) const;

  mlir::OpBuilder &builder;
  mlir::Location location;
  engine::CpuLevel level;
  ProductType type;
};

} // namespace tenon::codegen::cpu
