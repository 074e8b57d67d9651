// The body of a linalg.generic for one vector of iterations: which values differ between the lanes,
// and the vector operations that compute them. Values that all lanes share stay scalars.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"

#include <optional>

namespace tenon::codegen::cpu {

/// How a value of the body varies along the strip.
enum class Lanes {
  Uniform, ///< the same for all lanes: a scalar
  Linear,  ///< an index that grows by one a lane: the scalar of lane 0
  Varying, ///< a vector
};

class StripBody {
public:
  /// How well the body runs along `loop`: more contiguous accesses, higher. None if it has no
  /// vector form.
  static std::optional<int64_t> score(mlir::linalg::GenericOp op, unsigned loop);

  /// `ivs` are the indices of all loops (of lane 0 for the strip). With `width` 1 everything is
  /// scalar. `active`, if not null, is the number of lanes that count.
  StripBody(mlir::linalg::GenericOp op, mlir::OpBuilder &builder, mlir::ArrayRef<mlir::Value> ivs,
            unsigned strip, int64_t width, mlir::Value active);

  /// The present elements of the results.
  mlir::SmallVector<mlir::Value> loadResults();
  /// What the body yields for these accumulators.
  mlir::SmallVector<mlir::Value> emit(mlir::ValueRange accumulators);
  void storeResults(mlir::ValueRange values);

private:
  struct LaneValue {
    mlir::Value value;
    Lanes lanes = Lanes::Uniform;
  };
  bool isVector() const { return width > 1; }
  mlir::Value broadcast(mlir::Value scalar);
  mlir::Value asVector(const LaneValue &value);
  mlir::Value mask();
  LaneValue loadOperand(mlir::OpOperand &operand);
  LaneValue loadMemref(mlir::Value memref, mlir::ValueRange indices, bool contiguous);
  mlir::Value gather(mlir::OpOperand &operand, mlir::ValueRange indices);
  LaneValue emitOp(mlir::Operation &operation);
  mlir::SmallVector<mlir::Value> operandIndices(mlir::OpOperand &operand);

  mlir::linalg::GenericOp op;
  mlir::OpBuilder &builder;
  mlir::Location location;
  mlir::ArrayRef<mlir::Value> ivs;
  unsigned strip;
  int64_t width;
  mlir::Value active, activeMask;
  llvm::DenseMap<mlir::Value, LaneValue> values;
};

} // namespace tenon::codegen::cpu
