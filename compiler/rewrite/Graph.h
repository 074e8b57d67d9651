// A model's graph for passes that are not part of Tenon: nodes and values as numbers, types and
// attributes as JSON, every edit checked before it is done. Relies on `tn` in one function without
// regions, as it is up to dispatch.
#pragma once

#include "compiler/graph/Shape.h"
#include "compiler/graph/WeightStore.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/Result.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::rewrite {

/// Of a node or a value; 0 is none. Never used again for another one.
using Id = uint64_t;

/// tenon/graph.h says in full what each function means; those that return a Result or a Status fail
/// with TN0408 and have changed nothing then. For one thread.
class Graph {
public:
  Graph(mlir::ModuleOp module, tn::WeightStore &weights, std::string passName);

  std::string symbols() const; ///< JSON
  std::vector<Id> nodes();
  std::vector<Id> inputs();
  std::vector<Id> outputs();
  /// Null beyond the last one.
  std::optional<std::string> inputName(size_t index);
  std::optional<std::string> outputName(size_t index);

  Result<std::string> op(Id node) const;
  Result<std::string> name(Id node) const;
  Result<std::string> source(Id node) const;
  Result<std::string> attributes(Id node) const; ///< JSON
  Result<std::string> attribute(Id node, llvm::StringRef name) const;
  Result<std::vector<Id>> operands(Id node);
  Result<std::vector<Id>> results(Id node);
  Result<int64_t> flops(Id node, std::optional<llvm::ArrayRef<int64_t>> symbolValues) const;
  Result<int64_t> bytes(Id node, std::optional<llvm::ArrayRef<int64_t>> symbolValues) const;

  Result<Id> producer(Id value);
  Result<std::vector<Id>> users(Id value);
  Result<std::string> type(Id value) const; ///< JSON
  Result<std::vector<char>> data(Id value) const;

  Result<std::vector<Id>> matches(llvm::StringRef pattern);
  Result<bool> match(llvm::StringRef pattern, Id node);
  Result<Id> captured(llvm::StringRef name) const;

  /// `attributes` and `types` are JSON; empty for none.
  Result<Id> create(llvm::StringRef op, llvm::ArrayRef<Id> operands, llvm::StringRef attributes,
                    llvm::StringRef types);
  Result<Id> constant(llvm::StringRef type, llvm::ArrayRef<char> bytes);
  Status replace(Id value, Id with);
  Status setOperand(Id node, size_t index, Id value);
  Status setAttributes(Id node, llvm::StringRef attributes);
  Status addOutput(Id value, llvm::StringRef name);
  Status erase(Id node);

  /// How many edits were done.
  uint64_t edits() const { return editCount; }
  /// Puts the nodes into an order in which each comes after those that it reads, and removes those
  /// whose results nobody reads. Fails if a node reads its own result by a circle.
  Status finish();

private:
  Id idOf(mlir::Operation *op);
  Id idOf(mlir::Value value);
  Result<mlir::Operation *> operation(Id node) const;
  Result<mlir::Value> value(Id id) const;
  mlir::func::ReturnOp terminator();
  llvm::ArrayRef<tn::Symbol> symbolList() const { return declared.symbols(); }
  Result<int64_t> evaluate(mlir::AffineExpr expression,
                           std::optional<llvm::ArrayRef<int64_t>> symbolValues) const;
  /// Where an operation with these operands stands: behind the last of them.
  mlir::OpBuilder builderAfter(llvm::ArrayRef<mlir::Value> operands);
  Result<mlir::Operation *> build(mlir::OperationName name, llvm::ArrayRef<mlir::Value> operands,
                                  const mlir::NamedAttrList &attributes,
                                  llvm::ArrayRef<mlir::Type> types);
  /// Writes those of the JSON into `attributes`; a flag that is off is taken out.
  Status parseAttributes(mlir::OperationName name, llvm::StringRef json,
                         mlir::NamedAttrList &attributes) const;
  void forget(mlir::Operation *op);

  mlir::ModuleOp module;
  mlir::func::FuncOp function;
  tn::WeightStore &weights;
  std::string pass;
  tn::SymbolList declared;
  uint64_t editCount = 0;

  std::vector<mlir::Operation *> operations; ///< node id - 1; null once erased
  std::vector<mlir::Value> values;           ///< value id - 1; null once erased
  llvm::DenseMap<mlir::Operation *, Id> operationIds;
  llvm::DenseMap<mlir::Value, Id> valueIds;

  llvm::StringMap<Id> captures;
  /// Of the nodes last matched; null before the first match.
  mlir::LocationAttr matchedLocation;
};

} // namespace tenon::rewrite
