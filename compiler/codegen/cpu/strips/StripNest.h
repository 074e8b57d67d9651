// The loop nest of one linalg.generic on memrefs: which loop is the strip, and the loops around it.
// What one iteration does is StripBody's work.
#pragma once

#include "compiler/codegen/cpu/strips/StripBody.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"

namespace tenon::codegen::cpu {

/// Lanes of f32 in a register of 128 bits.
inline constexpr int64_t kShortLanes = 4;

class StripNest {
public:
  StripNest(mlir::linalg::GenericOp op, int64_t lanes)
      : op(op), lanes(lanes), hasShortRegisters(lanes == kShortLanes), builder(op),
        location(op.getLoc()) {}

  mlir::LogicalResult build();

private:
  void chooseStrip();
  int64_t lanesOfNarrow();
  void buildParallel(llvm::ArrayRef<unsigned> loops);
  void buildStrips();
  void buildStripLoop(mlir::Value from, mlir::Value to, int64_t strips);
  void buildParallelStrips(mlir::Value iv, int64_t strips, mlir::Value active);
  void computeStrips(llvm::ArrayRef<unsigned> reductions, mlir::Value iv, int64_t strips,
                     mlir::Value active);
  mlir::Value isInterior(llvm::ArrayRef<unsigned> taps, mlir::Value active);
  void buildReductionStrip();
  void buildScalar();
  llvm::SmallVector<mlir::Value>
  reductionLoops(llvm::ArrayRef<unsigned> loops, mlir::ValueRange accumulators,
                 llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> inner);
  llvm::SmallVector<mlir::Value>
  unrolledLoops(llvm::ArrayRef<unsigned> loops, mlir::ValueRange accumulators,
                llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> inner);
  int64_t constantTaps(llvm::ArrayRef<unsigned> loops);
  llvm::SmallVector<mlir::Value> element(int64_t width, mlir::ValueRange accumulators,
                                         mlir::Value active);

  bool isReduction(unsigned loop) {
    return op.getIteratorTypesArray()[loop] == mlir::utils::IteratorType::reduction;
  }
  llvm::SmallVector<unsigned> loopsWhere(bool reduction);
  mlir::Value constant(int64_t value) {
    return mlir::arith::ConstantIndexOp::create(builder, location, value);
  }

  mlir::linalg::GenericOp op;
  int64_t lanes;
  bool hasShortRegisters; ///< of 128 bits, of which there are 32
  mlir::OpBuilder builder;
  mlir::Location location;
  llvm::SmallVector<mlir::Value> sizes;
  llvm::SmallVector<mlir::Value> ivs;
  std::optional<unsigned> strip;
  std::optional<unsigned> cross; ///< StripSquares.h
  bool gainsInterior = false;    ///< of the strip
  bool isInside = false;         ///< what is emitted now runs where isInterior holds
  llvm::SmallVector<mlir::Operation *> combiners;
};

} // namespace tenon::codegen::cpu
