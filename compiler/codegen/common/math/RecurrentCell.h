// What a step of a recurrent cell makes of the sums of its gates: the same formulas for vectors on
// CPUs and for the threads of a GPU.
#pragma once

#include "compiler/graph/TnRare.h"
#include "mlir/IR/Builders.h"

#include <functional>

namespace tenon::codegen {

/// Values are floats or vectors of floats of one type. Sums include the step's input and biases.
class RecurrentCell {
public:
  /// What a target makes of an activation by its name; null for the one of all targets.
  using Activation = std::function<mlir::Value(mlir::StringRef name, mlir::Value x)>;
  RecurrentCell(mlir::OpBuilder &builder, mlir::Location location, tn::RecurrenceOp op,
                Activation own = {})
      : builder(builder), location(location), op(op), own(std::move(own)) {}

  mlir::Value rnn(mlir::Value sum) { return activate(0, clipped(sum)); }

  /// The state times the reset gate, and the sum of a candidate whose own part is gated.
  mlir::Value gruReset(mlir::Value resetSum, mlir::Value x);
  mlir::Value gru(mlir::Value updateSum, mlir::Value candidateSum, mlir::Value before);

  struct LstmState {
    mlir::Value h, c;
  };
  /// Gates are input, output, forget, candidate; peepholes (none or three) input, output, forget.
  LstmState lstm(mlir::ValueRange sums, mlir::ValueRange peepholes, mlir::Value before);

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value multiply(mlir::Value a, mlir::Value b);

private:
  mlir::Value activate(size_t number, mlir::Value x);
  /// A sum in the range that the layer holds it in.
  mlir::Value clipped(mlir::Value sum);
  /// 1 - x
  mlir::Value rest(mlir::Value x);
  mlir::Value splat(double value, mlir::Type type);

  mlir::OpBuilder &builder;
  mlir::Location location;
  tn::RecurrenceOp op;
  Activation own;
};

/// The region's only operation if that is a recurrent layer of inputs; null if not.
tn::RecurrenceOp recurrenceOf(mlir::func::FuncOp region);

} // namespace tenon::codegen
