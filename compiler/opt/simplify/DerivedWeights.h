// Constants made of other constants; their bytes are put together when they are written.
// Relies on the weight store for the bytes.
#pragma once

#include "compiler/opt/WeightSource.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace tenon::opt {

/// One part, and how long its rows are.
struct RowsOfSource {
  WeightSource source;
  uint64_t rowBytes = 0;
};

/// Equal requests give one weight.
class DerivedWeights {
public:
  explicit DerivedWeights(tn::WeightStore &store) : store(store) {}

  /// The constants one after the other along a dim. They have one element type and equal other
  /// dims.
  mlir::Value concat(mlir::OpBuilder &builder, mlir::Location location,
                     llvm::ArrayRef<mlir::Value> parts, unsigned dim);
  /// The constant with zeros behind its elements along a dim, up to `size`.
  mlir::Value pad(mlir::OpBuilder &builder, mlir::Location location, mlir::Value weight,
                  unsigned dim, int64_t size);

private:
  mlir::Value make(mlir::OpBuilder &builder, mlir::Location location, mlir::RankedTensorType type,
                   unsigned dim, std::vector<RowsOfSource> sources, llvm::StringRef name);

  tn::WeightStore &store;
  llvm::StringMap<std::string> made;
};

} // namespace tenon::opt
