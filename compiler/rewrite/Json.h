// Attributes and types of `tn` as JSON: numbers, words and lists, without MLIR's types of
// attributes, which follow from the operation.
#pragma once

#include "compiler/graph/Shape.h"
#include "mlir/IR/OperationSupport.h"
#include "support/Result.h"
#include "llvm/Support/JSON.h"

namespace tenon::rewrite {

llvm::json::Value toJson(mlir::Attribute attribute, llvm::ArrayRef<tn::Symbol> symbols);
/// {"dtype": "f32", "dims": [1, "batch"]}
llvm::json::Value toJson(mlir::Type type, llvm::ArrayRef<tn::Symbol> symbols);
std::string printed(const llvm::json::Value &json);

/// What the operation takes under that name for the JSON value; null if nothing it takes is written
/// so. `false` for a flag is the absent attribute: the unit attribute's opposite.
struct ParsedAttribute {
  mlir::Attribute attribute;
  bool isAbsent = false;
};
std::optional<ParsedAttribute> parseAttribute(mlir::OperationName op, llvm::StringRef name,
                                              const llvm::json::Value &json,
                                              llvm::ArrayRef<tn::Symbol> symbols);
Result<mlir::RankedTensorType> parseType(const llvm::json::Value &json,
                                         llvm::ArrayRef<tn::Symbol> symbols,
                                         mlir::MLIRContext *context);
/// TN0408 for text that is not JSON.
Result<llvm::json::Value> parseJson(llvm::StringRef text);

/// TN0408.
Status badEdit(std::string_view message,
               std::string_view hint = "include/tenon/graph.h and docs/ops say what is taken");

} // namespace tenon::rewrite
