// RNN, GRU and LSTM over a sequence. Short ones are one group of operations a step: where a size
// decides the length, there are as many steps as it may have, and those behind it keep the state.
// Longer ones are one tn.recurrence. Relies on the input's product with the weights being one
// matmul for all steps.
#pragma once

#include "compiler/frontend/common/Emitter.h"

namespace tenon::frontend {

enum class Cell : uint8_t { Rnn, Gru, Lstm };

/// The gates of a cell, and their order in weights: one; update, reset, candidate; input, output,
/// forget, candidate.
int64_t gatesOf(Cell cell);

/// A layer may have no more steps.
inline constexpr int64_t kMaxSteps = 65536;
/// Layers that may have more steps are a loop: from here on it is as fast, and it compiles in the
/// same time for any length.
inline constexpr int64_t kMaxUnrolled = 4;

/// An activation as `tn.recurrence` names it, with its parameters.
struct Activation {
  std::string name;
  double alpha = 0;
  double beta = 0;
};

/// What the directions of a layer share.
struct Sequence {
  Cell cell = Cell::Rnn;
  int64_t hidden = 0;
  mlir::AffineExpr length; ///< of the sequence, at most kMaxSteps
  mlir::AffineExpr batch;
  bool linearBeforeReset = false; ///< GRU
  bool inputForget = false;       ///< LSTM: the forget gate is 1 - the input gate
  std::optional<double> clip;     ///< sums of gates are held in [-clip, clip]
  mlir::Value lengths; ///< of each entry of the batch, i64 [batch, 1]; null if all have `length`
};

/// One direction of a layer: its weights and its state.
struct Direction {
  mlir::Value input;      ///< X Wᵀ + biases that may be added early: [seq, batch, gates * hidden]
  mlir::Value recurrence; ///< [gates * hidden, hidden]
  mlir::Value resetBias;  ///< GRU with linearBeforeReset: the recurrent bias of the candidate
  mlir::Value peephole;   ///< LSTM: [3 * hidden]
  mlir::Value h;          ///< [batch, hidden]: before the run the first state, after it the last
  mlir::Value c;          ///< LSTM: the same
  llvm::SmallVector<Activation> activations = {}; ///< as ONNX orders them
};

mlir::Value activate(Emitter &n, const Activation &activation, mlir::Value x);

/// The activations that a cell has unless told otherwise.
llvm::SmallVector<Activation> defaultActivations(Cell cell);

/// Entry `index` of the first dim, without the dim; null for null.
mlir::Value pick(Emitter &n, mlir::Value x, int64_t index);
/// The g-th of the parts of width `hidden` along the last dim.
mlir::Value gate(Emitter &n, mlir::Value x, int64_t g, int64_t hidden);

/// Runs all steps; the states behind each in the order of time, [seq, 1, batch, hidden].
mlir::Value runSequence(Emitter &n, const Sequence &sequence, Direction &direction, bool backwards);

} // namespace tenon::frontend
