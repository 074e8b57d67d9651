// How the values of a linalg.generic's body vary along the strip, which decides whether a loop can
// be the strip and which operations are emitted.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <optional>

namespace tenon::codegen::cpu {

/// A value along the lanes of a strip.
struct Lanes {
  enum Kind {
    Uniform, ///< the same for all lanes: a scalar
    Linear,  ///< an index that grows by `step` a lane: the scalar of lane 0
    Varying, ///< a vector
  };
  Kind kind = Uniform;
  int64_t step = 0;

  static Lanes linear(int64_t step) { return step == 0 ? Lanes{} : Lanes{Linear, step}; }
  static Lanes varying() { return {Varying, 0}; }
  bool isUniform() const { return kind == Uniform; }
  bool isLinear() const { return kind == Linear; }
  bool isVarying() const { return kind == Varying; }
};

/// What the classification of a body op depends on beside its operands.
struct StripPlace {
  unsigned loop;
  bool isVector;
  /// Whether an index is known not to be held back by a minimum, a maximum or a comparison in any
  /// lane of the strip (StripBody::isInterior looks at that).
  bool isInterior;
};

/// How the result of a body op varies; none if it has no vector form.
std::optional<Lanes> lanesOf(mlir::Operation &op, llvm::ArrayRef<Lanes> operands,
                             const StripPlace &place);

/// Whether the op bounds an index that grows along the strip, which is assumed not to bite in the
/// interior.
bool boundsIndex(mlir::Operation &op, llvm::ArrayRef<Lanes> operands);
/// Whether the op selects an index that grows along the strip under a condition on indices, which
/// is assumed to hold in the interior.
bool takesFirst(mlir::Operation &op, llvm::ArrayRef<Lanes> operands);

/// Whether a load with such indices reads neighbours, in the order of the lanes or backwards.
bool readsNeighbours(mlir::memref::LoadOp load, llvm::ArrayRef<Lanes> indices);

bool readsEverySecond(mlir::memref::LoadOp load, llvm::ArrayRef<Lanes> indices);

/// How an operand of the op is read along a loop.
enum class Access { Uniform, Contiguous, Strided, None };

Access accessOf(mlir::linalg::GenericOp op, mlir::OpOperand &operand, unsigned loop);
/// The dim of an operand that moves with the loop, if just one does and by one element a step.
std::optional<unsigned> movingDim(mlir::AffineMap map, unsigned loop);

bool hasUnitStride(mlir::MemRefType type);

} // namespace tenon::codegen::cpu
