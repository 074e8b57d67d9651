// One kernel under construction: its function, the place of the thread in the grid, pointers to
// buffers, shared memory. Every emitter fills in the same frame and ends it with `finish`.
#pragma once

#include "compiler/codegen/cuda/base/Indexing.h"
#include "compiler/codegen/cuda/base/Region.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace tenon::codegen::cuda {

class Kernel {
public:
  /// A kernel with blocks of `threads` threads. The builder stands in its body.
  Kernel(RegionBuilder &region, unsigned threads);

  /// Numbers of the thread in its block and of the block in the grid (one dim each).
  Index thread();
  Index block();
  /// The region's symbols.
  llvm::ArrayRef<Index> symbols() const { return symbolValues; }
  /// The size that an expression over the symbols is.
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

  /// A pointer to shared memory of the block: an array of its own, on a 16-byte border; or the
  /// dynamic shared memory, whose bytes `finish` is told.
  mlir::Value shared(mlir::Type element, int64_t count);
  mlir::Value dynamicShared(unsigned alignment = 16);
  /// As KernelShell's, of a buffer that this kernel only reads. After all sizes and pointers.
  mlir::Value tensorMap(unsigned buffer, mlir::AffineExpr rows, mlir::AffineExpr columns,
                        mlir::AffineExpr rowElements, int64_t boxRows);
  void barrier();

  /// As KernelShell's.
  void setMinBlocksPerSm(int64_t blocks);
  void setCluster(int64_t blocks);
  /// The kernel does not begin with the wait for those before it: the emitter waits
  /// (ThreadBuilder::waitForPredecessors) before it reads what they write, and writes anything.
  void waitLater();
  /// The next kernel starts when this one ends, and not as soon as there is room: for kernels whose
  /// blocks stay, of which some would not find room at once. In front of `finish`.
  void holdDependents();
  /// Ends the kernel and adds its launch over `grid` blocks to the region's steps.
  void finish(mlir::AffineExpr grid, mlir::AffineExpr dynamicSharedBytes = {});

  RegionBuilder &region;
  mlir::OpBuilder builder;
  mlir::Location location;
  IndexMath math;

private:
  struct Argument {
    unsigned buffer;
    mlir::BlockArgument pointer;
    /// Whether no kernel writes the memory from this one's launch to its end.
    bool isInvariant;
  };
  bool isInvariant(unsigned buffer) const;
  mlir::Value specialRegister(mlir::Operation *read);
  mlir::Value sharedArray(mlir::Type type, llvm::StringRef suffix, bool isExternal,
                          unsigned alignment);

  mlir::LLVM::LLVMFuncOp function;
  unsigned threads;
  /// The arguments: what is read, what is written; then the sizes.
  llvm::SmallVector<Argument> reads, writtens;
  llvm::SmallVector<Index> symbolValues;
  llvm::SmallVector<TensorMapArgument> tensorMaps;
  unsigned sharedArrays = 0;
  /// Waits for the kernels before this one; lets the next one start. Null where none is early.
  mlir::Operation *wait = nullptr, *launchDependents = nullptr;
};

} // namespace tenon::codegen::cuda
