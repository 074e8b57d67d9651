// One cell of the table as a module: a row, a dtype and a form. Runs it on the reference
// interpreter, and through dispatch and codegen on a CPU level.
#pragma once

#include "compiler/graph/WeightStore.h"
#include "compiler/target/Target.h"
#include "engine/Level.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "test/ops/RegionWalk.h"
#include "test/ops/Table.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::ops {

const char *nameOf(Form form);

class RowCase {
public:
  /// Builds and verifies the module; `make` gives an error if the row is not a valid op.
  static Result<std::unique_ptr<RowCase>> make(const OpRow &row, const std::string &dtype,
                                               Form form);

  Result<Tensors> runReference();
  /// Forms regions as the compiler does; constants go through its passes first. Before runCompiled.
  Status prepare(const target::Target &profile);
  Result<Tensors> runCompiled(engine::CpuLevel level);
  Status checkAccesses(const std::string &text, engine::CpuLevel level,
                       llvm::ArrayRef<reference::Tensor> operands, const Tensors &results,
                       const std::vector<int64_t> &symbols);
  Result<Tensors> runRegions(const RegionRunner &runner);
  /// What the cell is before any pass, and what it computes from.
  mlir::ModuleOp source() { return *module; }
  tn::WeightStore &sourceWeights() { return weights; }
  const Tensors &sourceInputs() const { return inputs; }
  /// Regions that the last run ran.
  int regions() const { return regionCount; }

private:
  RowCase();
  Status build(const OpRow &row, const std::string &dtype);
  Result<mlir::RankedTensorType> typeOf(const Operand &operand, const std::string &dtype);
  std::string inForm(std::string text, const std::string &dtype) const;

  Form form = Form::Static;
  mlir::MLIRContext context;
  std::string diagnostics;
  tn::WeightStore weights;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Tensors inputs;
  int regionCount = 0;
};

} // namespace tenon::ops
