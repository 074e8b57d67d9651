// The products of a warpgroup, read from pieces of assembly. They are as asynchronous as can be
// seen in numbers: sums that a piece does not wait for are tokens (of the kind NaN) until a piece
// that waits takes them in and gives them out, and tiles that change before they are waited for are
// a fault.
#pragma once

#include "test/unit/codegen/emulator/TensorModel.h"

#include <map>
#include <string>
#include <vector>

namespace tenon::codegen::cuda {

class WarpgroupModel {
public:
  /// One piece of assembly, "constraints|text", with its tiles in the block's memory `shared`,
  /// which begins on a border of its size. Returns what is wrong with it, or nothing.
  std::string run(const std::string &assembly, const char *shared, Lanes lanes);
  /// What is wrong when the threads have ended like this, or nothing.
  std::string endFault() const;

private:
  friend class PieceRun;

  /// The floats of [64][columns], and the group of the last product that they are of.
  struct Sums {
    unsigned columns = 0;
    std::vector<float> values;
    uint64_t group = 0;
  };
  /// Elements of shared memory that a product took, and a digest of what they were.
  struct Read {
    uint64_t descriptor = 0;
    unsigned rows = 0, columns = 0;
    uint64_t digest = 0, group = 0;
  };

  std::map<uint32_t, Sums> sets; ///< by token
  uint32_t nextSet = 0;
  std::vector<Read> reads;              ///< of products that were not waited for
  uint64_t committed = 0, finished = 0; ///< groups
  bool isFenced = false;
};

} // namespace tenon::codegen::cuda
