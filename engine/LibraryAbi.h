// What a Call instruction asks of a library: plain descriptors without sizes, stored in engine
// files as bytes. The compiler fills them, runtime/library executes them; engine/ only checks their
// form. Sizes and strides vary with the shape, so they are the instruction's `sizes`, in elements.

#pragma once

#include "support/DType.h"

#include <cstdint>

namespace tenon::engine {

/// First byte of every descriptor. Values are stored in engine files.
enum class LibraryOp : uint8_t { Matmul = 0, Conv = 1, Attention = 2, ScaledMatmul = 3 };

/// Applied to the sum of product, bias and residual. Values are stored in engine files.
enum class LibraryActivation : uint8_t { None = 0, Relu = 1, GeluTanh = 2 };

/// Of the library's own proposals, counted from 0, a call takes the first, or the one that was
/// measured to be the fastest for its version on its device; the first where there are fewer.
inline constexpr uint8_t kMaxProposals = 4;

/// The algorithm of cuBLASLt that the compiler would take, for its version: where the library is
/// another, does not propose it, or the result has fewer rows, the library's own first choice is
/// taken.
struct MatmulHint {
  int32_t version = 0; ///< 1301 for 13.1; 0 for none: then `algorithm` is the library's proposal
  int32_t algorithm = 0;
  int32_t tile = 0;
  int32_t splitK = 0;
  int32_t leastRows = 0;
};

/// D = activation(A · B + bias + residual), batched; of F32, F16 or BF16 with accumulation in FP32,
/// or of F64. buffers = {A, B, bias if hasBias, residual if hasResidual, D}. Row-major: A is [m, k]
/// with rows `lda` apart, or [k, m] if transposeA; B [k, n], or [n, k] if transposeB; bias [n]; the
/// residual has the layout of D. sizes = {m, n, k, batch, lda, ldb, ldd, batch strides of A, B and
/// D}; a batch stride may be 0.
struct MatmulCall {
  LibraryOp op = LibraryOp::Matmul;
  DType type = DType::F32; ///< of all operands
  bool transposeA = false;
  bool transposeB = false;
  bool hasBias = false;
  bool hasResidual = false;
  LibraryActivation activation = LibraryActivation::None;
  bool allowTf32 = false;
  MatmulHint hint = {};
};
inline constexpr size_t kMatmulSizes = 10;

/// D = activation(factor · A · Bᵀ + bias + residual) for A [m, k] and B [n, k] of F8E4M3FN with
/// sums in FP32. D [m, n], bias [n] and residual [m, n] are F16 or BF16, or F32 without a bias.
/// buffers as of MatmulCall; sizes = {m, n, k, lda, ldb}. n and k, and the distances of rows, are
/// multiples of 16.
struct ScaledMatmulCall {
  LibraryOp op = LibraryOp::ScaledMatmul;
  DType type = DType::F16; ///< of all but A and B
  bool hasBias = false;
  bool hasResidual = false;
  LibraryActivation activation = LibraryActivation::None;
  uint8_t proposal = 0; ///< below kMaxProposals
  uint8_t reserved[2] = {0, 0};
  float factor = 1;
};
inline constexpr size_t kScaledMatmulSizes = 5;

/// Y = activation(conv(X, W) + bias + residual), two spatial dims, dense. buffers = {X, W, bias if
/// hasBias, residual if hasResidual, Y}, all of the type. X is [n, h, w, c], W [k, r, s, c /
/// groups], Y and residual [n, p, q, k], bias [k]. sizes = {n, h, w, c, k, r, s, p, q}.
struct ConvCall {
  LibraryOp op = LibraryOp::Conv;
  DType type = DType::F32;
  bool hasBias = false;
  bool hasResidual = false;
  LibraryActivation activation = LibraryActivation::None;
  bool allowTf32 = false;
  uint8_t proposal = 0; ///< below kMaxProposals
  uint8_t reserved = 0;
  int32_t groups = 1;
  int32_t strides[2] = {1, 1};
  int32_t dilations[2] = {1, 1};
  int32_t padBefore[2] = {0, 0};
  int32_t padAfter[2] = {0, 0};
};
inline constexpr size_t kConvSizes = 9;

/// Y = softmax(scale · Q · Kᵀ + mask) · V, all of the type. buffers = {Q, K, V, mask if hasMask,
/// Y}. sizes = {batch, heads, key heads, queries, keys, head size of Q and K, head size of V, then
/// for each of Q, K, V and Y the strides of batch, head and row, then those of the mask (0 where it
/// broadcasts, and without a mask), then the places of the first elements of Q, K and V in their
/// buffers}; the last dim of each is contiguous.
struct AttentionCall {
  LibraryOp op = LibraryOp::Attention;
  DType type = DType::F16;
  bool isCausal = false;
  bool hasMask = false;
  float scale = 1;
};
inline constexpr size_t kAttentionSizes = 25;

} // namespace tenon::engine
