// Which kernel families a region concerns: a family of one kind of operation says nothing of
// regions without it, so its refusal is left out of the record.
#pragma once

#include "compiler/graph/TensorInfo.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"

namespace tenon::codegen {

/// Whether a region holds an operation whose name begins with one of these; true for no name.
inline bool holdsAny(mlir::Block &body, llvm::ArrayRef<llvm::StringRef> names) {
  auto isOne = [&](mlir::Operation &op) {
    return llvm::any_of(names, [&](llvm::StringRef name) {
      return !name.empty() && op.getName().stripDialect().starts_with(name);
    });
  };
  bool asksForNone = llvm::all_of(names, [](llvm::StringRef name) { return name.empty(); });
  return asksForNone || llvm::any_of(body, isOne);
}

/// Whether an input or a result of the region has no elements.
inline bool hasEmptyBuffer(mlir::func::FuncOp source) {
  auto isEmpty = [](mlir::Type type) { return tn::isEmpty(type); };
  return llvm::any_of(source.getArgumentTypes(), isEmpty) ||
         llvm::any_of(source.getResultTypes(), isEmpty);
}

} // namespace tenon::codegen
