// A matrix product on the product kernel: the lowering that ContractionMatmul.cpp and
// MatmulOperands.cpp define.
#pragma once

#include "compiler/codegen/cpu/gemm/Contraction.h"

namespace tenon::codegen::cpu {

class MatmulLowering {
public:
  MatmulLowering(KernelBuilder &kernel, mlir::func::FuncOp source, tn::MatmulOp matmul,
                 int64_t tileRows);

  mlir::FailureOr<mlir::AffineExpr> lower();

private:
  mlir::Value batchOffset(const IndexMath &math, mlir::Value operand, mlir::Value batch) const;
  mlir::Value inputOf(mlir::Value operand) const {
    return kernel.input(mlir::cast<mlir::BlockArgument>(operand).getArgNumber());
  }
  void packRows(const IndexMath &math, const GridPoint &point);
  mlir::Value packWords(const IndexMath &math, mlir::Value matrix, mlir::Value first,
                        mlir::Value count);
  void copyWords(const IndexMath &math, mlir::Value matrix, mlir::Value first, mlir::Value count);
  mlir::Value packPanel(const IndexMath &math, const GridPoint &point);
  mlir::LogicalResult buildTile(const IndexMath &math, const GridPoint &point);
  int64_t panelsInPlace();
  mlir::LogicalResult buildTilesInPlace(const IndexMath &math, const GridPoint &point);
  void multiplyInPlace(const IndexMath &math, const GridPoint &point, mlir::Value firstPanel,
                       mlir::Value panels);
  mlir::Value rowsOfA(const IndexMath &math, const GridPoint &point);
  struct Range {
    mlir::Value first, count;
  };
  Range rowsOf(const IndexMath &math, const GridPoint &point) const;

  KernelBuilder &kernel;
  int64_t tileRows;
  tn::MatmulOp matmul;
  mlir::Type element; ///< in which sums are taken: f32 or i32
  ProductType type;
  int64_t perWord; ///< elements of the depth in a word
  bool isNarrow;   ///< whether the operands are f16, which is widened
  Epilogue epilogue;
  TileWriter writer;
  mlir::MLIRContext *context;
  tn::Dims dims, batchDims;
  mlir::AffineExpr m, n, k;
  ContractionGrid grid;
  int64_t group = 1;     ///< panels of a grid point, if it reads B in place; else 1
  mlir::Value groupSums; ///< [rows, group * 32] if so, or null
  mlir::Value rows, columns, depth;
  mlir::Value words;     ///< that hold the depth
  mlir::Value packedB;   ///< panels packed at compile time, or null
  mlir::Value panelCopy; ///< scratch for one panel of B, or null
  mlir::Value wideRows;  ///< scratch for rows of a transposed B of narrow elements, or null
  mlir::Value rowCopy;   ///< scratch for a chunk of A's rows, or null
  mlir::Value rowStride; ///< of A's rows as the kernel reads them, in words
};

} // namespace tenon::codegen::cpu
