// The strategies by which codegen compiles a region: what a region may hold and how it is laid out
// on the grid. Dispatch forms regions by these rules, codegen relies on them.
//
// For every strategy: weights, packs, reshapes and constants of more than one element stay outside
// and are inputs of the region; constants of one element stand inside. Elementwise operands
// broadcast to the result as numpy does. A region has no value that is neither used inside nor
// yielded. Values may be of any types unless a strategy says otherwise; each is rounded to its own
// type, whether it leaves the region or not (docs/adr/0002).
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace tenon::dispatch {

/// Elementwise ops and the movement ops transpose, slice and broadcast. Every result has the same
/// dims; an operand of a movement op is an input of the region, its result has the region's dims. A
/// grid point is a slice of the outer dims.
///
/// On a GPU other movement (isMovement) may stand there too, and a value that no one outside
/// reads may have any dims and be the operand of a movement op (of a transpose that changes the
/// innermost dim only if nothing but movement ops made it): its elements are computed where they
/// are read, which dispatch finds cheaper than a kernel of its own. The results still have the same
/// dims, which are the region's.
inline constexpr llvm::StringLiteral kElementwise = "elementwise";
/// One root: softmax over the last dim, layer_norm, rms_norm, or a reduce over trailing dims.
/// Elementwise producers have the dims of the root's operand, elementwise consumers those of its
/// result; results may be of either kind. A grid point is one row or a few.
///
/// On a GPU the root is of a float type and rows have any length. Its producers, and those of its
/// consumers, are as in an elementwise region: those with the dims of the root's operand may be
/// results, others are computed where they are read.
///
/// Also on a GPU: reductions over the same dims, which need not be the last, of values of the same
/// dims, and softmax over such a dim, with elementwise operations of the dims of their operands and
/// results before, between and behind them. A grid point is a few columns.
inline constexpr llvm::StringLiteral kRows = "rows";
/// One root: a matmul or a conv (channelsLast, not depthwise) of f32, f16, bf16 or 32-bit integers.
/// Then elementwise consumers with the dims of the root's result; one result.
///
/// On a GPU the root is of any float type (a conv not of f64), the consumers of any float types.
/// The weight of a conv may be computed. All operands of the root are inputs of the region; of a
/// matmul they may be the tn.transpose of one, and A may be the operation on whole rows of one. The
/// consumers may follow the two halves of a matmul's columns, which are slices of it.
///
/// Which of them a region has is decided by the times of the kernels that compute it. A constant
/// weight is an input as it lies, or as the kernel's family has it packed, followed by tn.unpack.
inline constexpr llvm::StringLiteral kContraction = "contraction";
/// One root: a conv with groups = channels, so weight [C * m, 1, kernel...] (channelsLast), then
/// elementwise consumers with the dims of its result; one result. On a GPU of any float type.
inline constexpr llvm::StringLiteral kDepthwise = "depthwise";
/// One tn.attention.
///
/// On a GPU q, k and v (not the mask) may each be a chain of tn.slice with steps of one and
/// tn.transpose of an input (of rank 4, as all values of the chain), so a stride and an offset a
/// dim say where an element is; the strides of the innermost dim need not be one. A tn.transpose of
/// the result that keeps the innermost dim may follow, then codes of 8-bit floats of that (a
/// tn.encode, of it or of it times a number) if a kernel stores them; what is last is the region's
/// result. Several operands may be parts of one input: q, k and v of a merged projection [B, S, H +
/// 2 * Hk, D].
inline constexpr llvm::StringLiteral kAttention = "attention";
/// One op of any other kind (also `tn.sizes`, which has no operand).
///
/// On a GPU the updates and indices of a scatter of few updates in order may be computed by
/// elementwise and movement ops and reshapes of inputs, and a tn.all_reduce may have the tn.add of
/// a residual and the tn.rms_norm of both behind it.
inline constexpr llvm::StringLiteral kSingle = "single";
/// On a GPU: several elementwise regions and single scatters, of which none reads another's
/// results.
inline constexpr llvm::StringLiteral kBundle = "bundle";

} // namespace tenon::dispatch
