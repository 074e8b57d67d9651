// State of a model: an input and an output that are one buffer, owned by the session and updated by
// each run (`--state`). Relies on the model function's arguments and results carrying `tn.name`.
#pragma once

#include "compiler/graph/Shape.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Status.h"
#include "llvm/ADT/SetVector.h"

namespace tenon::tn {

/// On an argument and on the result that replaces it: the name of the argument.
inline constexpr llvm::StringLiteral kState = "tn.state";

struct State {
  mlir::BlockArgument argument;
  unsigned result;
};

/// On an argument of a language model's step: what it is for (support/LanguageStep.h).
inline constexpr llvm::StringLiteral kRole = "tn.role";

/// Marks an input and an output as one. They must have one type. Symbols in its dims become the
/// session's: each session has one value for all its runs, and inputs must agree with it. A `*` in
/// both names stands for the same text: every input that fits is paired.
Status declareState(mlir::ModuleOp module, llvm::StringRef input, llvm::StringRef output);

/// The states that are marked, in the order of the arguments.
llvm::SmallVector<State> statesOf(mlir::func::FuncOp function);

/// The symbols in the dims of states, by their numbers in the module.
llvm::SmallSetVector<unsigned, 4> sessionSymbols(mlir::func::FuncOp function);

/// The value that a symbol of sessions has in one that is made without; its largest by default.
/// TN0105 for a symbol that no state names, and for a value outside its range.
Status setPreset(mlir::ModuleOp module, llvm::StringRef symbol, int64_t value);
int64_t presetOf(mlir::ModuleOp module, const Symbol &symbol);

} // namespace tenon::tn
