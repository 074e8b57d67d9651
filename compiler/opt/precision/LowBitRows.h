// Numbers of few bits as rows of blocks (graph/BlockRows.h): in the fewest bits that hold them, and
// in the largest blocks that their scales allow.
#pragma once

#include "compiler/graph/BlockRows.h"
#include "compiler/opt/precision/LowBitLevels.h"

#include <array>
#include <memory>

namespace tenon::opt {

/// What one reading of all numbers finds.
struct LevelSurvey {
  int64_t boundaries = 0; ///< the greatest common divisor of where other parameters begin in a row
  double least = 0, most = 0; ///< of numbers less their zero points
  int16_t leastNumber = 0, mostNumber = 0;
  bool areWhole = true;           ///< all zero points are integers
  std::array<uint64_t, 2> hash{}; ///< of numbers and parameters
};
/// Of the numbers of all ranks, where each has its own.
LevelSurvey surveyOf(const LevelMatrix &levels, tn::WeightStore &weights);

/// The largest block that the scales of all columns allow, none where it is too small. Blocks of
/// the model that are larger are cut into equal ones.
std::optional<int64_t> blockOf(const LevelMatrix &levels, const LevelSurvey &survey,
                               int64_t elementsOfWord);
/// Of a GPU, whose kernel of few rows takes panels of 32 of the depth: whole blocks of these.
std::optional<int64_t> gpuBlockOf(const LevelMatrix &levels, const LevelSurvey &survey);

/// How the numbers are stored: in the fewest bits, without zero points where the differences fit.
struct Storing {
  int64_t bits;
  bool hasZeroPoints;
  int64_t shift; ///< that numbers and zero points, or differences, get to be unsigned
};
Storing storingOf(const LevelSurvey &survey);

/// A part of the rows of a matrix, whenever it is asked for.
class StoredRows {
public:
  StoredRows(std::shared_ptr<const LevelMatrix> theLevels, const Storing &theStoring,
             const tn::BlockRows &theLayout)
      : levels(std::move(theLevels)), storing(theStoring), layout(theLayout) {}

  void operator()(uint64_t begin, uint64_t size, char *out) const;
  /// Rows of equal texts are equal.
  std::string content(const LevelSurvey &survey) const;

private:
  /// `out` is zeros.
  void write(const LevelRow &row, char *out) const;

  std::shared_ptr<const LevelMatrix> levels;
  Storing storing;
  tn::BlockRows layout;
};

} // namespace tenon::opt
