// Narrow copies of constants and weights. Weights are converted when they are written into the
// engine, one at a time; equal ones once. Relies on the store outliving its entries' generators.
#pragma once

#include "compiler/graph/Shape.h"
#include "compiler/opt/Constants.h"

#include <map>
#include <string>

namespace tenon::opt {

class NarrowConstants {
public:
  NarrowConstants(tn::WeightStore &weightStore, mlir::FloatType narrowType)
      : store(weightStore), narrow(narrowType) {}

  /// The constant or weight with narrow elements, beside the original. Finite elements out of range
  /// become the largest.
  mlir::Value make(mlir::Operation *constant);

  int64_t converted = 0; ///< weights
  int64_t bytes = 0;     ///< that they take

private:
  mlir::Value convertConstant(tn::ConstantOp constant);
  mlir::Value convertWeight(tn::WeightOp weight);
  std::string idFor(llvm::StringRef source);
  std::string generated(llvm::StringRef source, uint64_t sourceBytes);

  tn::WeightStore &store;
  mlir::FloatType narrow;
  /// The narrow weight of each source; sources by size and some of their bytes.
  std::map<std::string, std::string> ids;
  std::multimap<std::string, std::string> bySample;
};

} // namespace tenon::opt
