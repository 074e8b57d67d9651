// The k largest or smallest of each row by integer keys, which stand in the order that is asked
// for: what TopKVectors.cpp and TopKSort.cpp share. Equal keys keep the order of their places.
#pragma once

#include "compiler/codegen/cpu/gemm/Contraction.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"
#include "engine/Level.h"

namespace tenon::codegen::cpu {

class KeyedTopK {
public:
  KeyedTopK(KernelBuilder &kernel, tn::TopKOp op, engine::CpuLevel level);

  mlir::AffineExpr select();
  mlir::AffineExpr sort();

private:
  using Body = llvm::function_ref<void(const IndexMath &, mlir::Value)>;
  /// Sorted: the first in order in the lowest lane.
  struct Sorted {
    mlir::Value keys, places;
  };

  mlir::Value keyOf(mlir::OpBuilder &b, mlir::Location location, mlir::Value element) const;
  void makeKeys(const IndexMath &math) const;
  void forRows(Body body);
  mlir::Value number(const IndexMath &math, int64_t value) const;
  mlir::Value splat(const IndexMath &math, mlir::Type element, int64_t value) const;
  mlir::Value placeNumber(const IndexMath &math, mlir::Value place) const;
  Sorted insert(const IndexMath &math, Sorted sorted, mlir::Value place, mlir::Value filled) const;
  Sorted insertVector(const IndexMath &math, Sorted sorted, mlir::Value place) const;
  Sorted insertSet(const IndexMath &math, Sorted sorted, mlir::Value set, mlir::Value place) const;
  void writeSorted(const IndexMath &math, Sorted sorted) const;
  void write(const IndexMath &math, mlir::Value rank, mlir::Value place) const;
  mlir::Value digitOf(const IndexMath &math, mlir::Value key, int64_t digit) const;
  void countDigits(const IndexMath &math) const;
  void sortBy(const IndexMath &math, int64_t digit, llvm::ArrayRef<mlir::Value> from,
              llvm::ArrayRef<mlir::Value> to) const;

  KernelBuilder &kernel;
  bool isLargest;
  mlir::Value values, indices; ///< results
  int64_t lanes, width = 0;    ///< of a vector of the row; of those that are kept
  mlir::Type element, storage, placeType;
  tn::Dims dims, kept;
  mlir::AffineExpr outer, inner;
  mlir::Value keys;                           ///< [length] i32: a larger one stands first
  mlir::Value length, wanted, columns;        ///< index
  mlir::Value start, resultStart;             ///< of the row in the operand and the results
  mlir::Value otherKeys, places, otherPlaces; ///< of the sort, [length]
  mlir::Value counts;                         ///< [digits * buckets]
};

/// The lone selection of a region whose elements have keys of 32 bits; null if it is none.
tn::TopKOp keyedTopK(mlir::func::FuncOp source);

} // namespace tenon::codegen::cpu
