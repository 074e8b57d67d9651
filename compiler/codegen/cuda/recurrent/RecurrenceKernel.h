// The kernel of a recurrent layer: a cluster of blocks runs the whole sequence of one row of the
// batch, each block a part of the hidden units. Relies on the input's product with its weights
// being there.
#pragma once

#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/RecurrentCell.h"
#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/recurrent/RecurrenceLayout.h"
#include "compiler/codegen/cuda/scan/Scan.h"

namespace tenon::codegen::cuda {

class RecurrenceKernel {
public:
  RecurrenceKernel(RegionBuilder &region, tn::RecurrenceOp op, const RecurrenceLayout &layout);
  void emit();

private:
  /// A unit of the block: its number in the block and in the layer (i32).
  struct Unit {
    mlir::Value local, global;
  };
  mlir::Value input(mlir::Value operand) const;
  mlir::Value output(mlir::Value result) const;
  mlir::Value read(const ThreadBuilder &t, mlir::Value buffer, mlir::Value index) const;
  void write(const ThreadBuilder &t, mlir::Value value, mlir::Value buffer,
             mlir::Value index) const;
  mlir::Value sharedAt(const ThreadBuilder &t, mlir::Value array, mlir::Value index) const {
    return t.offset(array, sum, index);
  }
  mlir::Value readShared(const ThreadBuilder &t, mlir::Value array, mlir::Value index) const {
    return t.load(sum, sharedAt(t, array, index), byteSize(sum));
  }
  void writeShared(const ThreadBuilder &t, mlir::Value value, mlir::Value array,
                   mlir::Value index) const {
    t.store(value, sharedAt(t, array, index), byteSize(sum));
  }
  void divideShared(const ThreadBuilder &t, mlir::Value base);
  mlir::Value zero(const ThreadBuilder &t) const { return zeroSum(t, sum); }
  mlir::Value ofRow(const ThreadBuilder &t, mlir::Value unit) const {
    return t.add(t.mul(row, hidden), t.toI64(unit));
  }
  void meet(const ThreadBuilder &t) const;
  void eachUnit(const ThreadBuilder &t,
                llvm::function_ref<void(const ThreadBuilder &, const Unit &)> body) const;
  void start(const ThreadBuilder &t);
  mlir::Value columnOf(const ThreadBuilder &t, const Phase &phase, mlir::Value local) const;
  ThreadBuilder::Values holdWeights(const ThreadBuilder &t, const Phase &phase) const;
  mlir::Value loadInput(const ThreadBuilder &t, const Phase &phase, mlir::Value number,
                        mlir::Value local) const;
  ThreadBuilder::Values loadInputs(const ThreadBuilder &t, mlir::Value number) const;
  mlir::Value multiply(const ThreadBuilder &t, const Phase &phase, mlir::Value state,
                       mlir::Value local) const;
  void sumGates(const ThreadBuilder &t, const Phase &phase, mlir::Value state, mlir::Value number,
                mlir::Value ahead) const;
  mlir::Value sumOf(const ThreadBuilder &t, const Phase &phase, int64_t gate, const Unit &unit,
                    bool isAdded) const;
  mlir::Value inputOf(const ThreadBuilder &t, const Phase &phase, int64_t gate,
                      const Unit &unit) const;
  void broadcast(const ThreadBuilder &t, mlir::Value value, mlir::Value array,
                 const Unit &unit) const;
  mlir::Value newState(const ThreadBuilder &t, mlir::Value state, const Unit &unit) const;
  void step(const ThreadBuilder &t, mlir::Value number, mlir::ValueRange aheads) const;
  mlir::Value timeOf(const ThreadBuilder &t, mlir::Value number) const {
    return op.getReverse() ? t.sub(t.add(length, -1), number) : number;
  }
  void finish(const ThreadBuilder &t) const;

  RegionBuilder &region;
  mutable tn::RecurrenceOp op; ///< whose accessors are not const
  RecurrenceLayout layout;
  mlir::Type element, sum;
  int64_t hidden, gates, units, padded;
  mlir::SmallVector<Phase> phases;
  KernelFrame frame;
  mlir::Value row, rank, thread;    ///< i64; i32
  mlir::Value steps, length, batch; ///< i64
  mlir::Value states, gated,
      cells; ///< in shared memory: two states that take turns; what resets leave
};

} // namespace tenon::codegen::cuda
