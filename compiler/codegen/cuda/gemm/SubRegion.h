// Regions made of a region, each compiled for itself: the same for some of its row counts, or a
// part of its operations. Their steps become steps of the whole. Relies on the parts having the
// symbols of the whole, under the same numbers.
#pragma once

#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/codegen/cuda/base/StepRange.h"
#include "compiler/codegen/cuda/gemm/HalfGemm.h"
#include "compiler/dispatch/KernelChoice.h"
#include "compiler/dispatch/WeightLayout.h"

namespace tenon::codegen::cuda {

/// A function in a module of its own.
struct SubRegion {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// What its inputs and its result are in the function that it is made of.
  llvm::SmallVector<mlir::Value> inputs;
  mlir::Value result;

  explicit operator bool() const { return static_cast<bool>(module); }
  mlir::func::FuncOp function() const;
};

/// The region for these row counts of its product only, with a weight laid out if need be; none if
/// its symbols give no such count.
SubRegion narrowed(mlir::func::FuncOp source, RowRange rows,
                   const std::optional<dispatch::WeightLayout> &layout);

/// Of @kernel: that it is compiled for some values of a symbol, and not split by them again.
inline constexpr llvm::StringLiteral kIsOfRange = "tn.is_of_range";

/// The region for these values of one of its symbols only.
SubRegion narrowed(mlir::func::FuncOp source, unsigned symbol, const SizeRange &sizes);

/// How a product's kernel has weights of few bits.
enum class FewBits : uint8_t { Decoded, Stored };

/// A product's region in up to four parts, in order: the operation on whole rows in front of the
/// product, its weights of few bits as floats unless the product reads them as they are stored, the
/// product, and what follows as a loop, which reads as little alone as with a part of it in the
/// product's kernel. What follows stays with a product that reads stored weights, whose kernel has
/// it. Empty if that is one part.
llvm::SmallVector<SubRegion> partsOf(mlir::func::FuncOp source, FewBits weights);

/// What a kernel is predicted to take for a function; infinite if it cannot be compiled so.
double predictedMicroseconds(mlir::func::FuncOp part, const dispatch::KernelChoice &kernel,
                             const target::Target &gpu);

/// Emits a part by a kernel and adds its steps to the region's. `buffers` are those of the region
/// that the part's inputs and its result lie in.
mlir::LogicalResult emitPart(RegionBuilder &region, mlir::func::FuncOp part,
                             const dispatch::KernelChoice &choice,
                             llvm::ArrayRef<unsigned> buffers);

} // namespace tenon::codegen::cuda
