// Scalar code for single elements of the tensors of a linalg function. An element comes from memory
// if its tensor lies in a buffer, from a source that an emitter has given (registers), or is
// computed on the spot from the op that makes it: so elementwise chains fuse, and nothing between
// is stored.
#pragma once

#include "compiler/codegen/cuda/base/KernelFrame.h"

#include <functional>

namespace tenon::codegen::cuda {

class ElementEmitter {
public:
  explicit ElementEmitter(KernelFrame &kernel) : kernel(kernel), math(kernel.math) {}

  /// The elements of a tensor at these places, in the order of the places. Asking for many at once
  /// puts their loads before the arithmetic and lets them share loops. A reduction is computed by a
  /// loop of this thread unless its result is held or lies in a buffer.
  llvm::SmallVector<mlir::Value> elements(mlir::Value tensor, llvm::ArrayRef<Indices> places);
  mlir::Value element(mlir::Value tensor, llvm::ArrayRef<Index> place);

  /// From here on the elements of a tensor come from this function, at whatever places are asked
  /// for.
  using Source = std::function<mlir::Value(llvm::ArrayRef<Index> place)>;
  void hold(mlir::Value tensor, Source source);
  /// What one step of a reduction makes of its accumulators: the body of `op` with `accumulators`
  /// (one for each result) in place of its outputs, at several loop indices that have nothing to do
  /// with each other.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>>
  steps(mlir::linalg::GenericOp op, llvm::ArrayRef<Indices> loops,
        llvm::ArrayRef<llvm::SmallVector<mlir::Value>> accumulators);
  /// What the accumulators of a reduction start with at a place of its results.
  llvm::SmallVector<mlir::Value> initial(mlir::linalg::GenericOp op, llvm::ArrayRef<Index> place);

  /// States that the place `indices` in tensors of `dims` is `linear`, which saves computing it.
  void setLinear(llvm::ArrayRef<mlir::AffineExpr> dims, llvm::ArrayRef<Index> indices,
                 const Index &linear);
  /// The place of an element in its row-major tensor.
  Index linear(mlir::Value tensor, llvm::ArrayRef<Index> place);
  /// A scalar that stands outside of all linalg ops: a constant or a size.
  mlir::Value scalar(mlir::Value outer);

  /// Code that is emitted until `closeScope` stands in a block of its own (a loop's body, a
  /// branch): its values are not used after it.
  void openScope();
  void closeScope();
  /// Emits `body` for where the condition (null: everywhere) holds.
  void when(mlir::Value condition, llvm::function_ref<void()> body);

  /// Whether something could not be emitted; a diagnostic has told what.
  bool hasFailed() const { return failed; }

  /// One of several copies of a body that is emitted: where its values are.
  struct Lane {
    llvm::ArrayRef<Index> loops;
    llvm::DenseMap<mlir::Value, mlir::Value> values;
    llvm::DenseMap<mlir::Value, Index> indices;
  };
  /// Emits one op of a body for each lane.
  void emit(mlir::Operation &op, llvm::MutableArrayRef<Lane> lanes);
  mlir::Value valueOf(mlir::Value value, const Lane &lane);
  Index indexOf(mlir::Value value, const Lane &lane);

  KernelFrame &kernel;
  IndexMath &math;

private:
  llvm::SmallVector<mlir::Value> compute(mlir::Value tensor, llvm::ArrayRef<Indices> places);
  llvm::SmallVector<mlir::Value> loads(mlir::Value tensor, unsigned buffer,
                                       llvm::ArrayRef<Indices> places);
  llvm::SmallVector<mlir::Value> generic(mlir::OpResult result, llvm::ArrayRef<Indices> places);
  llvm::SmallVector<llvm::SmallVector<mlir::Value>>
  reduce(mlir::linalg::GenericOp op, llvm::ArrayRef<unsigned> loops,
         llvm::SmallVector<Indices> indices,
         llvm::SmallVector<llvm::SmallVector<mlir::Value>> accumulators);
  mlir::Value constantElement(mlir::DenseElementsAttr elements, mlir::Value tensor,
                              llvm::ArrayRef<Index> place);
  void bindOperands(mlir::linalg::GenericOp op, llvm::MutableArrayRef<Lane> lanes,
                    llvm::ArrayRef<llvm::SmallVector<mlir::Value>> accumulators);
  Indices mapped(mlir::AffineMap map, llvm::ArrayRef<Index> loops);
  mlir::Value fail(mlir::Value tensor, llvm::StringRef what);

  using Key = std::pair<const void *, IndicesKey>;
  ScopedMap<Key, mlir::Value> known;
  ScopedMap<const void *, mlir::Value> scalars;
  llvm::DenseMap<mlir::Value, Source> held;
  struct LinearPlace {
    tn::Dims dims;
    Index linear;
  };
  ScopedMap<IndicesKey, LinearPlace> linearPlaces;
  bool failed = false;
};

/// Whether a linalg op has loops that reduce.
bool isReduction(mlir::linalg::GenericOp op);

} // namespace tenon::codegen::cuda
