// Calls of the product kernels and of what packs for them, from the code of a region. Relies on
// MicroKernel.h and PanelPacking.h for their symbols.
#pragma once

#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/codegen/cpu/gemm/MicroKernel.h"

namespace tenon::codegen::cpu {

/// The operands of one call of the product kernel (MicroKernel.h): pointers, and values of index
/// type that count words.
struct Product {
  mlir::Value a, lda, b, ldb, c, ldc, k, rows;
  /// Of i1; null computes afresh.
  mlir::Value accumulate;
  ProductType type = ProductType::F32;
  /// Columns of the panel that are needed; null needs all. Of C all 32 may be written.
  mlir::Value columns = {};
};

/// Of an invariant kernel by a product that is (invariantSymbol).
void callProduct(const IndexMath &math, mlir::func::FuncOp kernel, const Product &product);

/// Calls kPackTransposed (PanelPacking.h): pointers, and values of index type.
void callPackTransposed(const IndexMath &math, mlir::func::FuncOp kernel, mlir::Value from,
                        mlir::Value stride, mlir::Value to, mlir::Value k, mlir::Value count);

/// Calls packRowsSymbol(elements) (PanelPacking.h): pointers, and values of index type.
void callPackRows(const IndexMath &math, mlir::func::FuncOp kernel, int64_t elements,
                  mlir::Value from, mlir::Value stride, mlir::Value to, mlir::Value depth);

} // namespace tenon::codegen::cpu
