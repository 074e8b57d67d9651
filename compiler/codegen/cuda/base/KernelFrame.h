// The frame of a kernel under construction: its function and arguments, the place of the thread in
// the grid, shared memory, and the step that launches it. Every emitter fills in the same frame and
// ends it with `finish`.
//
// A kernel takes its arguments in one of two ways. With a list of buffers it has these in their
// order (`buffer`) and each size that it asks for, which the launch computes. Without one it has
// the buffers that it comes to use (`pointer`) and the region's symbols, from which it computes
// sizes itself.
#pragma once

#include "compiler/codegen/cuda/base/Indexing.h"
#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace tenon::codegen::cuda {

class KernelFrame {
public:
  /// The region's next kernel, with blocks of `threads` threads. The builder stands in its body,
  /// behind the wait for the kernels before it and what lets the next one start (where the target
  /// has dependent launch).
  KernelFrame(RegionBuilder &region, unsigned threads);
  /// `buffers` as in RegionStep; the first `reads` of them are only read.
  KernelFrame(RegionBuilder &region, llvm::ArrayRef<uint32_t> buffers, unsigned reads,
              unsigned threads);

  /// Inserts where the builder stands.
  ThreadBuilder code() { return ThreadBuilder(builder, location); }

  /// The i64 or i32 value of an expression over the region's symbols.
  mlir::Value size64(mlir::AffineExpr expression);
  mlir::Value size32(mlir::AffineExpr expression) { return code().toI32(size64(expression)); }
  /// A tensor map of a buffer that this kernel only reads: a pointer to an argument that describes
  /// it as a matrix of 16-bit elements with rows `rowElements` apart, to be copied by boxes of
  /// `boxRows` rows and kBoxColumns columns (AsyncCopy.h). What a box has outside of the matrix is
  /// filled with zeros.
  mlir::Value tensorMap(unsigned buffer, mlir::AffineExpr rows, mlir::AffineExpr columns,
                        mlir::AffineExpr rowElements, int64_t boxRows);

  // With a list of buffers.

  /// The pointer (to global memory) of the buffer at a position of the list.
  mlir::Value buffer(unsigned position) const { return buffers[position].pointer; }

  // Without a list.

  /// Numbers of the thread in its block and of the block in the grid (one dim each).
  Index thread();
  Index block();
  /// The region's symbols, and what an expression over them is.
  llvm::ArrayRef<Index> symbols() const { return symbolValues; }
  Index size(mlir::AffineExpr expression) { return math.evaluate(expression, {}, symbolValues); }
  Indices sizes(llvm::ArrayRef<mlir::AffineExpr> expressions);
  /// The pointer (to global memory) of a buffer that this kernel only reads, or that it writes (and
  /// may read). All loads of a buffer must agree with the first use.
  mlir::Value pointer(unsigned buffer, bool isWritten);
  /// Of a buffer that this kernel only reads, for loads that stay on their side of the wait for
  /// predecessors: ptxas moves loads of what it knows to be invariant across it.
  mlir::Value orderedPointer(unsigned buffer);
  /// Whether `pointer` was asked for a buffer to write.
  bool writes(unsigned buffer) const;
  /// Loads of an element (or vector) of a buffer at an offset in elements of `element`; the
  /// alignment is that of the offset. Reads of what no kernel writes meanwhile are marked so.
  mlir::Value load(unsigned buffer, mlir::Type element, const Index &offset);
  /// The same through a copy of the buffer's pointer.
  mlir::Value loadThrough(mlir::Value base, unsigned buffer, mlir::Type element,
                          const Index &offset);
  /// Where the condition (i1; null: always) holds.
  void store(unsigned buffer, mlir::Value value, const Index &offset, mlir::Value condition = {});
  /// A copy of a pointer or an i32 that the optimizer takes for another value: what comes of it in
  /// a loop is computed or loaded each time, and not held in registers.
  mlir::Value copied(mlir::Value value);
  /// The address of an element and the alignment that its offset has, at most 16.
  mlir::Value address(mlir::Value pointer, mlir::Type element, const Index &offset);
  static unsigned alignment(mlir::Type element, const Index &offset);

  // Shared memory and the launch.

  /// A pointer to shared memory of the block: an array of its own, on a 16-byte border; or the
  /// dynamic shared memory, whose bytes `finish` is told.
  mlir::Value shared(mlir::Type element, int64_t count);
  mlir::Value dynamicShared(unsigned alignment = 16);
  void barrier() { code().barrier(); }
  /// Holds the threads to the registers that let so many blocks run on a processor.
  void setMinBlocksPerSm(int64_t blocks);
  /// Runs the grid in clusters of so many neighbouring blocks.
  void setCluster(int64_t blocks);
  /// All blocks of the grid run at the same time and may wait for each other: at most one for each
  /// multiprocessor. The kernel neither starts early nor lets the next one.
  void setWholeGrid();
  /// Where the kernel reports its failures (engine/KernelAbi.h), which the last argument points to.
  mlir::Value statusPointer();
  /// Moves the wait for the kernels before this one to where the builder stands. What comes in
  /// front of it neither reads what they write, nor writes anything.
  void waitHere();
  /// Moves what lets the next kernel start, as soon as there is room, to where the builder stands;
  /// or leaves it out: the next kernel starts when this one has ended.
  void launchDependentsHere();
  void holdDependents();
  /// Ends the kernel and adds its launch over `grid` blocks to the region's steps.
  void finish(mlir::AffineExpr grid, int64_t dynamicSharedBytes = 0);

  RegionBuilder &region;
  mlir::OpBuilder builder;
  mlir::Location location;
  IndexMath math;

private:
  struct Argument {
    unsigned buffer;
    mlir::Value pointer;
    /// Whether no kernel writes the memory from this one's launch to its end.
    bool isInvariant;
  };
  void begin(llvm::ArrayRef<uint32_t> listed, unsigned reads, unsigned threads);
  mlir::Block &body() { return function.getBody().front(); }
  mlir::Value addSize(mlir::AffineExpr expression);
  bool isInvariant(unsigned buffer) const;
  mlir::Value specialRegister(mlir::Operation *read);
  mlir::Value sharedArray(mlir::Type type, llvm::StringRef suffix, bool isExternal,
                          unsigned alignment);
  llvm::ArrayRef<Argument> reads() const { return llvm::ArrayRef(buffers).take_front(step.reads); }
  llvm::ArrayRef<Argument> writtens() const {
    return llvm::ArrayRef(buffers).drop_front(step.reads);
  }

  mlir::LLVM::LLVMFuncOp function;
  RegionStep step; ///< but for buffers, sizes and grid
  bool isListed;
  /// The arguments in their order: buffers that are read, and written; sizes; then tensor maps.
  llvm::SmallVector<Argument> buffers;
  llvm::SmallVector<mlir::AffineExpr> passedSizes;
  llvm::SmallVector<Index> symbolValues;
  unsigned sharedArrays = 0;
  /// Waits for the kernels before this one; lets the next one start. Null without dependent launch.
  mlir::Operation *wait = nullptr, *launchDependents = nullptr;
};

} // namespace tenon::codegen::cuda
