// What one attention region asks for: its sizes, and where each operand's elements lie in the
// region's buffers once transposes, slices and broadcasts around the op are read as strides.
#pragma once

#include "compiler/codegen/common/region/KernelFamily.h"
#include "compiler/codegen/cuda/base/StridedTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace tenon::codegen::cuda {

/// Of tn.paged_attention: its tables, buffers of the region, and their sizes.
struct Sequences {
  uint32_t pages = 0, starts = 0, lengths = 0;
  mlir::AffineExpr count, table, pageCount;
  int64_t page = 0; ///< positions of a page
  /// The tables are there before the kernels in front of this one have ended.
  bool areGiven = false;
};

struct AttentionProblem {
  mlir::AffineExpr batches, heads, keyHeads, queries, keys, width, valueWidth;
  /// How many batches there may be, and for how many kernels are chosen where that varies.
  tn::SymbolList::Range batchRange{1, 1};
  int64_t typicalBatches = 1;
  /// Strides of batch, head, row and column.
  StridedTensor q, k, v, y;
  /// Strides over [batch, head, query, key], 0 where it broadcasts.
  std::optional<StridedTensor> mask;
  double scale = 1;
  bool causal = false;
  /// Where causal: the position of the first query, an i32 or i64 in memory, else keys - queries.
  std::optional<StridedTensor> start;
  int64_t window = 0; ///< keys up to its own position that a query sees at most; 0: all
  double softcap = 0; ///< scores are softcap * tanh(scale * q k / softcap); 0: they are not capped
  bool maskedRowsAreNan = false;
  /// Queries are those of all sequences, and keys those of a whole table. Batches of Q and the
  /// result are tokens, those of K and V pages.
  std::optional<Sequences> sequences;
  /// By what the result is multiplied on its way to codes of 8-bit floats; 0 where it is stored as
  /// it is.
  double codesFactor = 0;
  /// Number of the region's first temporary.
  uint32_t firstTemporary = 0;

  /// The buffers of a kernel in their order: q, k, v, the mask, the start, and pages, starts and
  /// lengths of sequences, which are only read, then others.
  unsigned reads() const {
    return 3 + mask.has_value() + start.has_value() + 3 * sequences.has_value();
  }
  llvm::SmallVector<uint32_t> buffers(llvm::ArrayRef<uint32_t> written) const;
};

/// The problem of a region that holds one tn.attention, movement ops before it and at most
/// transposes after it; with `mayEncode` also the codes of 8-bit floats of that.
MatchResult<AttentionProblem> matchAttention(mlir::func::FuncOp region, bool mayEncode = false);

} // namespace tenon::codegen::cuda
