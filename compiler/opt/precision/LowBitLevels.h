// Weights that are integers of few bits behind scales, as a product reads them: where its matrix
// comes from, and its numbers row by row. Relies on constants being read where they lie, so that a
// matrix is never held whole.
#pragma once

#include "compiler/graph/Tn.h"
#include "compiler/graph/TnRare.h"
#include "compiler/opt/Constants.h"
#include "compiler/opt/WeightSource.h"

namespace tenon::opt {

/// Where the matrix B of a product comes from: 8-bit numbers behind tn.dequantize, moved and cast.
struct Origin {
  tn::DequantizeOp source;
  mlir::Value rest; ///< constant of [rows, 1] that is taken off rows of numbers, or null
  llvm::SmallVector<mlir::Operation *> moves; ///< from there to the product

  static std::optional<Origin> of(mlir::Value matrix);
};

/// Neighbours of a row that share a scale and a zero point.
struct LevelRun {
  int64_t begin = 0, end = 0;
  double scale = 0, zero = 0;
};

struct LevelRow {
  std::vector<int16_t> numbers;
  std::vector<LevelRun> runs; ///< of neighbours with other parameters, in their order
};

/// A matrix of numbers, row by row [columns of the product, depth].
///
/// Numbers in the order of the constants are read out of these row by row: large models have
/// matrices of a billion numbers. Of others there are copies.
class LevelMatrix {
public:
  /// Nothing where they are no constants that can be read.
  static std::optional<LevelMatrix> of(tn::MatmulOp product, Origin &origin,
                                       tn::WeightStore &weights);

  /// Whether no copies are held, so that rows may be read whenever the engine is written.
  bool isReadInPlace() const { return places.empty() && parameters.empty(); }
  void read(int64_t column, LevelRow &row) const;
  /// Whether each rank has numbers or parameters of its own (tn::WeightEntry).
  bool isOfRank() const {
    return numbers.isOfRank || scales.isOfRank || zeros.isOfRank || rests.isOfRank;
  }

  int64_t columns = 0, depth = 0;

private:
  struct Parameter {
    double scale, zero;
  };

  bool readParametersInPlace(Origin &origin, tn::WeightStore &weights);
  bool readParameters(Origin &origin, const Constants &constants);
  void readNumbersInOrder(int64_t column, LevelRow &row) const;
  void readRunsInPlace(int64_t column, LevelRow &row) const;

  bool isUnsigned = false;
  WeightSource numbers;
  std::vector<char> bytes;           ///< of the numbers, where they are not in order
  std::vector<int32_t> places;       ///< of the numbers among `bytes`; empty for their own order
  int64_t inner = 1, size = 1;       ///< that one parameter holds for, and how many there are
  std::vector<Parameter> parameters; ///< empty where they are read in place:
  WeightSource scales, zeros, rests; ///< f32, bytes, and f32 or nothing
  bool hasRests = false;
};

} // namespace tenon::opt
