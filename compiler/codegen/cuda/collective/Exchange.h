// What the kernels of collectives have in common: their arguments, the run's number, words that
// carry it, sums in the order of the ranks. Private to this folder.
#pragma once

#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "engine/CollectiveAbi.h"
#include "support/DType.h"

namespace tenon::codegen::cuda {

/// A kernel of a group in its frame, whose buffers are `inputs` that are read, `outputs`, the
/// shared memory of the ranks, and the status. A group of one rank exchanges nothing: its kernel
/// has the first two alone, and no sizes.
class Exchange {
public:
  using Value = mlir::Value;
  using Values = ThreadBuilder::Values;

  Exchange(KernelFrame &frame, DType type, int64_t ranks, unsigned inputs, unsigned outputs);
  /// Buffers of such a frame.
  static llvm::SmallVector<uint32_t> buffers(int64_t ranks, unsigned inputs, unsigned outputs);

  /// Numbers the run; behind the wait for the kernels before.
  void begin(const ThreadBuilder &t);
  /// All of the block's threads have begun, and the next run has the next number.
  void end(const ThreadBuilder &t);

  /// Vectors (4 x i32) of memory, by their number (i64).
  Value load(const ThreadBuilder &t, Value pointer, Value number) const;
  void store(const ThreadBuilder &t, Value pointer, Value number, Value vector) const;

  /// One-shot: vector `number` of this rank's summand to every other rank.
  void send(const ThreadBuilder &t, Value number, Value vector) const;
  /// Vectors of these numbers of what another rank sent, when they are there.
  Values take(const ThreadBuilder &t, llvm::ArrayRef<Value> numbers, int64_t from) const;
  /// Vectors of these numbers of the sum, of which `own` are this rank's summands; f32 for each
  /// element, as they are after rounding.
  llvm::SmallVector<Values> receive(const ThreadBuilder &t, llvm::ArrayRef<Value> numbers,
                                    llvm::ArrayRef<Value> own) const;

  /// Runs `body` for each rank but this one.
  void forOthers(const ThreadBuilder &t,
                 llvm::function_ref<void(const ThreadBuilder &, int64_t other)> body) const;
  /// Two-shot: what the block wrote to the others is there when they have seen this.
  void signal(const ThreadBuilder &t, int64_t step) const;
  /// For the same block of every other rank; then the block's threads meet.
  void await(const ThreadBuilder &t, int64_t step) const;
  /// Where the part that rank `from` sent lies in the memory of a rank (constants or i64).
  Value part(const ThreadBuilder &t, Value shared, int64_t step, Value from) const;

  Values toFloats(const ThreadBuilder &t, Value vector) const;
  Value toVector(const ThreadBuilder &t, llvm::ArrayRef<Value> floats) const;
  /// As f32, after rounding to the element type.
  Value rounded(const ThreadBuilder &t, Value f32) const;
  int64_t lanes() const;

  Value input(unsigned i) const { return frame.buffer(i); }
  Value output(unsigned i) const { return frame.buffer(inputs + i); }
  Value shared(int64_t rank) const { return frame.buffer(inputs + outputs + unsigned(rank)); }
  Value own() const { return ownShared; }
  /// The last size, i64.
  Value lastSize() const { return partBytes; }
  mlir::Type vectorType(const ThreadBuilder &t) const;

  int64_t ranks;
  Value count; ///< the first size, i64
  Value rank;  ///< i64; both null of one rank
  Value block; ///< i64
  Value grid;  ///< i64

private:
  Value words(const ThreadBuilder &t, Value shared, Value from, Value number) const;
  Value isOwn(const ThreadBuilder &t, int64_t other) const;
  Value flag(const ThreadBuilder &t, Value shared, int64_t step, Value from) const;
  void fail(const ThreadBuilder &t, int64_t from) const;

  KernelFrame &frame;
  mlir::Type element;
  unsigned inputs, outputs;
  Value polls;     ///< i32
  Value partBytes; ///< i64
  Value ownShared;
  Value run;    ///< i32, never 0
  Value parity; ///< i64: the run's last bit
};

} // namespace tenon::codegen::cuda
