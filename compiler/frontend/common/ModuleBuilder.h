// The module that an import builds: its function, symbols and constants. What a constraint
// determines is written anew everywhere. The base of every importer; Emitter adds the operations of
// a node.
#pragma once

#include "compiler/frontend/common/Import.h"
#include "compiler/frontend/common/Sizes.h"
#include "compiler/graph/Tn.h"
#include "compiler/graph/WeightStore.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "support/Result.h"

namespace tenon::frontend {

/// Constants of more elements go to the weight store.
inline constexpr uint64_t kMaxInlineElements = 64;

/// The elements of a small constant from its bytes, bools one to a byte.
mlir::DenseElementsAttr denseElements(mlir::RankedTensorType type, Bytes bytes);

class ModuleBuilder {
public:
  ModuleBuilder(mlir::MLIRContext &owner, tn::WeightStore &weights)
      : context(owner), builder(&owner), symbols(&owner), store(weights) {}
  virtual ~ModuleBuilder() = default;

  mlir::MLIRContext &context;
  mlir::OpBuilder builder;
  Symbols symbols;
  /// What MLIR said last, in the model's words.
  std::string lastDiagnostic;

  /// The type of such elements; null for those that `tn` lacks.
  mlir::Type elementType(DType type);
  /// A constant that the importer has made; float32 or float64.
  mlir::Value materializeReals(llvm::ArrayRef<double> values, llvm::ArrayRef<int64_t> shape,
                               DType type, llvm::StringRef name, mlir::Location location);
  /// A constant of the model from its bytes, which live as long as the store.
  mlir::Value constantValue(mlir::RankedTensorType type, Bytes bytes, llvm::StringRef name);
  mlir::Value materializeSizes(const Sizes &sizes, mlir::Type element, mlir::Location location);
  /// The type without the symbols that constraints have determined.
  mlir::RankedTensorType canonicalType(mlir::RankedTensorType type) const;
  /// Writes an operation, with all in it, without them.
  void rewriteDetermined(mlir::Operation *root);
  /// Writes all that is imported without the symbols determined since.
  void bringUpToDate();

protected:
  /// An empty module with the function @main, where `builder` then stands.
  void beginModule();
  mlir::Value addInput(llvm::StringRef name, llvm::ArrayRef<mlir::AffineExpr> dims,
                       mlir::Type element);
  /// Ends @main; each result has a name.
  void endFunction(llvm::ArrayRef<mlir::Value> results, llvm::ArrayRef<mlir::StringAttr> names);
  /// Writes symbols and constraints into the module, verifies it and gives it away.
  Result<mlir::OwningOpRef<mlir::ModuleOp>> takeModule();
  /// Advice that was followed already is none: sizes that are declared need not be declared again.
  std::string notYetFollowed(std::string advice) const;
  /// An error for a type that no memory could hold.
  Status checkValueType(mlir::Type type, std::string_view name) const;
  bool hasDetermined() const { return determined != 0; }

  tn::WeightStore &store;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;

private:
  struct Input {
    mlir::StringAttr name;
    tn::Dims dims; ///< as the model states them
  };
  llvm::SmallVector<Input> inputs;
  /// How many symbols constraints had determined when everything was last written.
  unsigned determined = 0;
};

} // namespace tenon::frontend
