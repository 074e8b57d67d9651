// Dims and diagnostics in the words of the model: its names of symbols, and divisions as people
// write them. Relies on a symbol's number being its place in the module's list.
#pragma once

#include "compiler/graph/Constraints.h"
#include "compiler/graph/Shape.h"

namespace tenon::tn {

/// "floor((seq + 1) / 2)"; "?" for a dim that is not known, "s<i>" for a symbol without a name.
std::string dimText(mlir::AffineExpr dim, llvm::ArrayRef<Symbol> symbols);

/// "N is 4 or 1", "H is a multiple of 16", as engine/Constraints.h words them.
std::string constraintText(const Constraint &constraint, llvm::ArrayRef<Symbol> symbols);

/// The dim that dimText writes so; null for other text.
mlir::AffineExpr parseDim(llvm::StringRef text, llvm::ArrayRef<Symbol> symbols,
                          mlir::MLIRContext *context);

/// A diagnostic of a shape rule, which knows symbols by number only: each word "s<i>" becomes the
/// name of symbol i.
std::string nameSymbols(llvm::StringRef text, llvm::ArrayRef<Symbol> symbols);

} // namespace tenon::tn
