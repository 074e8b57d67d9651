// The kernel families of CPUs (docs/adr/0015). Each fills a kernel's body with loops, linalg on
// memrefs, vectors and product calls, and says what the grid is.
#pragma once

#include "compiler/codegen/common/region/FamilyTable.h"
#include "compiler/codegen/common/region/KernelFamily.h"
#include "compiler/codegen/cpu/base/Region.h"
#include "compiler/codegen/cpu/base/RegionShapes.h"

#include <type_traits>

namespace tenon::codegen::cpu {

using KernelFamily = codegen::KernelFamily<Region>;

template <auto Lower> struct EmitKernel;
/// Lower fills `kernel` and gives the number of grid points; it fails after a diagnostic.
template <typename Problem, typename... Candidate,
          mlir::FailureOr<mlir::AffineExpr> (*Lower)(KernelBuilder &, Region &, const Problem &,
                                                     Candidate...)>
struct EmitKernel<Lower> {
  static mlir::LogicalResult call(Region &region, const std::any &problem,
                                  const dispatch::KernelChoice &choice) {
    KernelBuilder kernel(region.kernels, region.symbol, region.source);
    const Problem &own = *std::any_cast<Problem>(&problem);
    if constexpr (sizeof...(Candidate) == 0) {
      return region.finish(kernel, Lower(kernel, region, own));
    } else {
      return region.finish(kernel, Lower(kernel, region, own, candidateOf(choice)));
    }
  }
};
/// A row's `emit` by a function of the problem and, where the family has them, of the candidate.
template <auto Lower> inline constexpr auto emitKernel = &EmitKernel<Lower>::call;

/// The same for the region with other dims (RegionShapes.h), in which the problem is not found.
template <mlir::FailureOr<mlir::AffineExpr> (*Lower)(KernelBuilder &, Region &, int64_t)>
mlir::LogicalResult emitReshaped(Region &region, const std::any &,
                                 const dispatch::KernelChoice &choice) {
  reshapeRegion(region.source);
  KernelBuilder kernel(region.kernels, region.symbol, region.source);
  return region.finish(kernel, Lower(kernel, region, candidateOf(choice)));
}

/// Seconds by bytes and operations at the target's rates, as of a family that has no prediction.
inline double ratedSeconds(Region &region) {
  return dispatch::costOfRegion(region.source.getBody().front(), region.target(),
                                /*isGenerated=*/true)
             .microseconds *
         1e-6;
}
/// Seconds of a region whose contractions take as long as `times` their operations in FP32.
double secondsWithWork(Region &region, llvm::function_ref<double(mlir::Operation &)> times);

/// The only operation of a region besides the terminator, if it is of that kind.
template <typename Op> Op onlyOp(mlir::func::FuncOp source) {
  mlir::Block &body = source.getBody().front();
  return llvm::hasSingleElement(body.without_terminator()) ? llvm::dyn_cast<Op>(body.front())
                                                           : Op();
}
/// The first operation of that kind, or null.
template <typename Op> Op firstOp(mlir::func::FuncOp source) {
  auto ops = source.getOps<Op>();
  return ops.empty() ? Op() : *ops.begin();
}

// gemm/, conv/, attention/
extern const KernelFamily kGemmPacked, kGemmLowBits, kConvGrouped, kConvWinograd2, kConvWinograd4,
    kConvPatches, kAttentionFlash, kAttentionPaged, kPagedWrite;
// rows/, recurrent/, selection/, movement/
extern const KernelFamily kScan, kHistogram, kSoftmaxColumns, kRecurrence, kTopKVectors, kSortRadix,
    kTopKHeap, kConcatCopy, kCollective, kResizeRows, kScatterOwned;
// custom/
extern const KernelFamily kUserKernel;
// strips/
extern const KernelFamily kTiled;

} // namespace tenon::codegen::cpu
