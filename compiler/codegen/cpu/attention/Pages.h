// How pages of keys and values lie in memory on CPUs: as the panels that the product kernels read
// (MicroKernel.h), so that attention multiplies them in place. A page has a multiple of 32
// positions, and a head of it is one block of rows * width elements.
//
// Keys: for each 32 positions, the words of the width one after the other, each of 32 positions.
// Values: for each word of positions, the columns of the width. A word has two elements of bf16 and
// one of other types; bf16 keys of an odd width have words of one, and are widened where they are
// read. Codes of 8 bits (graph/CachedRows.h) are words of one; behind them stand the scales of the
// page's positions.
#pragma once

#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/codegen/cpu/gemm/MicroKernel.h"
#include "compiler/graph/CachedRows.h"
#include "compiler/graph/Shape.h"

namespace tenon::codegen::cpu {

/// A cache of keys or values: [pages, heads, positions, width].
struct PagedCache {
  mlir::Value buffer;
  tn::Dims dims;
  bool isKeys = false;
  mlir::Type type; ///< of the tensor

  mlir::AffineExpr heads() const { return dims[1]; }
  int64_t positions() const { return *tn::constantDim(dims[2]); }
  bool holdsCodes() const { return tn::CachedRows::areCodes(type); }
  /// Numbers of a row.
  int64_t width() const { return *tn::constantDim(dims[3]) - tn::CachedRows::extra(type); }
  mlir::Type element() const;
  /// Elements of a word.
  int64_t perWord() const;
  /// The first element of a page's head.
  mlir::Value start(const IndexMath &math, const KernelBuilder &kernel, mlir::Value page,
                    mlir::Value head) const;
  /// Of codes whose page's head begins there: the scales of so many positions from one on, as f32.
  mlir::Value scales(const IndexMath &math, mlir::Value start, mlir::Value position,
                     int64_t count) const;
  /// The f32 for a code.
  mlir::Value decode(mlir::OpBuilder &builder, mlir::Location location, mlir::Value code) const;
};

/// Null where CPUs have pages of this type and these dims, or why not.
const char *refusePages(mlir::Type cache);

} // namespace tenon::codegen::cpu
