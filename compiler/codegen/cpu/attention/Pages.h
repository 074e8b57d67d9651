// How pages of keys and values lie in memory on CPUs: as the panels that the product kernels read
// (MicroKernel.h), so that attention multiplies them in place. A page has a multiple of 32
// positions, and a head of it is one block of rows * width elements.
//
// Keys: for each 32 positions, the words of the width one after the other, each of 32 positions.
// Values: for each word of positions, the columns of the width. A word has two elements of bf16 and
// one of other types; bf16 keys of an odd width have words of one, and are widened where they are
// read.
#pragma once

#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/codegen/cpu/gemm/MicroKernel.h"
#include "compiler/graph/Shape.h"

namespace tenon::codegen::cpu {

/// A cache of keys or values: [pages, heads, positions, width].
struct PagedCache {
  mlir::Value buffer;
  tn::Dims dims;
  bool isKeys = false;

  mlir::AffineExpr heads() const { return dims[1]; }
  int64_t positions() const { return *tn::constantDim(dims[2]); }
  int64_t width() const { return *tn::constantDim(dims[3]); }
  mlir::Type element() const;
  /// Elements of a word.
  int64_t perWord() const;
  /// The first element of a page's head.
  mlir::Value start(const IndexMath &math, const KernelBuilder &kernel, mlir::Value page,
                    mlir::Value head) const;
};

/// Null where CPUs have pages of this type and these dims, or why not.
const char *refusePages(mlir::Type cache);

} // namespace tenon::codegen::cpu
