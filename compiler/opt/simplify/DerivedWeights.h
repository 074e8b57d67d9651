// Constants made of other constants; their bytes are put together when they are written.
// Relies on the weight store for the bytes.
#pragma once

#include "compiler/graph/WeightStore.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace tenon::opt {

/// Where the bytes of one part come from, and where its rows go.
struct WeightSource {
  llvm::ArrayRef<char> view;
  tn::WeightGenerator generate;
  std::shared_ptr<std::vector<char>> owned;
  uint64_t size = 0;
  uint64_t rowBytes = 0;
  std::string key;
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
                   unsigned dim, std::vector<WeightSource> sources, llvm::StringRef name);

  tn::WeightStore &store;
  llvm::StringMap<std::string> made;
};

} // namespace tenon::opt
