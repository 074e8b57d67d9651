// A region cut out of the model: the text that codegen compiles and the cache is keyed by. Equal
// computations give equal text, whatever names, symbols or place they had in the model.
#pragma once

#include "compiler/graph/Invariance.h"
#include "compiler/graph/Tn.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace tenon::codegen {

/// Unit attribute of a module whose f32 products may be computed in TF32 (`--allow tf32`). A
/// region's module has it if the model's has, so that the cache tells them apart.
inline constexpr llvm::StringLiteral kAllowTf32 = "tn.allow_tf32";

/// Unit attribute of an argument of @kernel that no kernel ever writes: a weight, there from the
/// start.
inline constexpr llvm::StringLiteral kConstantArgument = "tn.constant";

/// Of a tn.region and of @kernel: which kernel computes it (dispatch::KernelChoice::toAttribute).
inline constexpr llvm::StringLiteral kKernelAttribute = "tn.kernel";

struct RegionSource {
  /// A module with one `func.func @kernel` over `tn` ops, attribute `tn.strategy`, `tn.kernel` if
  /// the region has it, and its own `tn.symbols` s0, s1, ... in order of first use by an operand or
  /// result. Without locations.
  std::string text;
  /// The model's expression for each of the region's symbols; each is a symbol of the model.
  llvm::SmallVector<mlir::AffineExpr> symbols;
};

RegionSource outline(tn::RegionOp region);
/// As if the model were not invariant.
RegionSource outlineFreely(tn::RegionOp region);

/// The text of a region with this as its `tn.kernel`; the text as it is if it does not parse.
std::string withKernel(llvm::StringRef text, mlir::Attribute kernel);

} // namespace tenon::codegen
