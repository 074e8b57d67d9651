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

  /// Whether the level multiplies and sums four 8-bit elements by one instruction.
  static bool isOneInstruction(engine::CpuLevel level);

  /// A vector of words of A (one word in all lanes) or of B, taken apart as `multiplyAdd` wants it.
  using Factor = llvm::SmallVector<mlir::Value, 2>;
  Factor ofA(mlir::Value words) const;
  Factor ofB(mlir::Value words) const;

  /// Lane by lane the dot product of a word's elements, added to `sum`.
  mlir::Value multiplyAdd(const Factor &a, const Factor &b, mlir::Value sum) const;

private:
  bool isInPairs() const;
  mlir::Value call(llvm::StringRef intrinsic, mlir::Type result, mlir::ValueRange operands) const;
  mlir::Value multiplyAddBytes(mlir::Value a, mlir::Value b, mlir::Value sum) const;

  mlir::OpBuilder &builder;
  mlir::Location location;
  engine::CpuLevel level;
  ProductType type;
};

} // namespace tenon::codegen::cpu
