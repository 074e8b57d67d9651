// The cost model: bytes, work and time of operations run as one kernel. Relies on the shapes of the
// values, with symbols at a representative value, and on a device profile.
#pragma once

#include "compiler/dispatch/DeviceProfile.h"
#include "compiler/dispatch/Records.h"
#include "compiler/graph/Shape.h"
#include "mlir/IR/BuiltinOps.h"

namespace tenon::dispatch {

class CostModel {
public:
  CostModel(mlir::ModuleOp module, const DeviceProfile &deviceProfile);

  /// Bytes of a value.
  int64_t bytesOf(mlir::Value value) const;
  /// Elements of a list of dims.
  int64_t countOf(llvm::ArrayRef<mlir::AffineExpr> dims) const;
  /// Arithmetic operations of one op; transcendental functions count for several.
  double workOf(mlir::Operation *op) const;
  /// The cost of `ops` as one kernel: values from outside are read once, values used outside
  /// are written once.
  Cost costOf(llvm::ArrayRef<mlir::Operation *> ops) const;

  const DeviceProfile &profile() const { return device; }

private:
  DeviceProfile device;
  llvm::SmallVector<int64_t> symbols;
};

/// The value at which decisions are taken for each symbol of a module: its largest, at most 128.
llvm::SmallVector<int64_t> representativeSymbols(mlir::ModuleOp module);

} // namespace tenon::dispatch
