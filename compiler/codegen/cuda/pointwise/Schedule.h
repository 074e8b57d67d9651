// What of a region is stored, and in which kernels it is computed. A tensor that each reader reads
// about once is computed where it is read; a result, and what would be computed again and again, is
// stored.
#pragma once

#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/dispatch/KernelChoice.h"

#include <functional>
#include <vector>

namespace tenon::codegen::cuda {

/// A tensor of the linalg function that a kernel computes, and the buffer it goes to.
struct Root {
  mlir::Value tensor;
  unsigned buffer;
};

/// The roots of one kernel: either one loop nest (scf.for), or tensors of the same dims, of which
/// one may read another only at the same place.
struct KernelRoots {
  llvm::SmallVector<Root> roots;
  /// The nest; its results are the roots. Each nest updates its buffers in place: a kernel before
  /// it has put what the nest starts from into them.
  mlir::Operation *nest = nullptr;
};

/// The kernels of a region in order. Adds the temporaries that they need to `region`. A kernel may
/// read what kernels before it have stored: state that with RegionBuilder::setBuffer once a kernel
/// is emitted (`markStored`).
std::vector<KernelRoots> schedule(RegionBuilder &region, mlir::func::FuncOp function);
void markStored(RegionBuilder &region, const KernelRoots &kernel);

/// Whether a nest starts from the tensor, which then lies in the nest's buffer only until it runs.
bool startsNest(mlir::Value tensor);

/// Whether every element of `tensor` comes from elements at the same place of tensors with the same
/// dims, from single elements, and from nothing else; down to what lies in buffers.
bool isPointwise(RegionBuilder &region, mlir::Value tensor);

/// Emits a kernel that reads an operand across its last dim; false, with nothing done, if it does
/// not.
bool emitTransposeKernel(RegionBuilder &region, const KernelRoots &kernel, bool &hasFailed);

/// What a launch runs in some of its blocks.
struct Part {
  mlir::AffineExpr blocks;
  /// Emits what a thread does in a block, which is numbered from the part's first.
  std::function<void(ElementEmitter &emitter, const Index &block)> emit;
};
Part pointsPart(RegionBuilder &region, const KernelRoots &kernel, unsigned threads);
Part nestPart(RegionBuilder &region, const KernelRoots &kernel, unsigned threads);

/// Predicted seconds of a region's kernels, and what they are made of.
double pointwiseSeconds(RegionBuilder &region);
dispatch::TimeParts pointwiseParts(RegionBuilder &region);

/// Emit one kernel of the schedule.
void emitPointsKernel(RegionBuilder &region, const KernelRoots &kernel, bool &hasFailed);
void emitNestKernel(RegionBuilder &region, const KernelRoots &kernel, bool &hasFailed);
/// Emits one kernel of parts that do not read each other's results.
void emitParts(RegionBuilder &region, llvm::ArrayRef<Part> parts, unsigned threads,
               bool &hasFailed);
/// Emits all kernels of a region whose results do not depend on each other: one computes them all.
void emitBundle(RegionBuilder &region, llvm::ArrayRef<KernelRoots> kernels, bool &hasFailed);

} // namespace tenon::codegen::cuda
