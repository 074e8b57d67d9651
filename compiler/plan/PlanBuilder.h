// The state of one plan while it is built: what value lies in which buffer, and the instructions so
// far. Private to BuildPlan.cpp and PlanBuffers.cpp.
#pragma once

#include "compiler/graph/State.h"
#include "compiler/plan/BuildPlan.h"
#include "compiler/plan/PlanRecords.h"
#include "compiler/plan/Sizes.h"
#include "compiler/plan/Stages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tenon::plan {

/// The source nodes of an operation, for people.
std::string labelOf(mlir::Operation *op);
/// What the tn.requires of a region say.
std::string constraintOf(tn::RegionOp region);

class PlanBuilder {
public:
  PlanBuilder(const PlanRequest &planRequest, WeightTable &weightTable)
      : request(planRequest), module(planRequest.module),
        function(*module.getOps<mlir::func::FuncOp>().begin()), block(&function.getBody().front()),
        weights(weightTable), states(tn::statesOf(function)), regionStages(block, states),
        sizes(function, ports(), plan) {}

  Result<BuiltPlan> run();

private:
  llvm::SmallVector<mlir::BlockArgument> ports();
  const tn::State *stateOf(mlir::BlockArgument argument) const;
  const tn::State *stateOf(size_t result) const;
  void addInputs();
  void findLastReads();
  void claimOutputs();
  uint32_t addBuffer(engine::Space space, mlir::Type type);
  uint32_t bufferOf(mlir::Value storage);
  uint32_t addTemporary(const codegen::Program &bytes, llvm::ArrayRef<engine::ExprId> symbols);
  uint32_t makeOutput(tn::RegionOp region, size_t regionIndex, mlir::Value output,
                      int64_t position);
  bool readsAtEnds(size_t regionIndex) const;
  uint32_t bufferToReuse(tn::RegionOp region, size_t regionIndex, int64_t position) const;
  uint32_t stateToWrite(tn::RegionOp region, mlir::Value output, int64_t position) const;
  void addRegion(tn::RegionOp region, size_t regionIndex, int64_t position);
  void addSizes(tn::RegionOp region, size_t regionIndex);
  Status checkGrowth() const;
  void addStep(const codegen::RegionStep &step, llvm::ArrayRef<uint32_t> regionBuffers,
               llvm::ArrayRef<engine::ExprId> symbols);
  engine::TensorMap tensorMap(const codegen::TensorMapArgument &map,
                              llvm::ArrayRef<engine::ExprId> symbols);
  uint32_t batchSymbol() const;
  void addOutputs();
  void addOutput(size_t index, mlir::Value result);
  void keepStates();
  void addCopy(uint32_t from, uint32_t to, uint64_t stages, std::string label);
  void touch(uint32_t buffer, uint32_t instruction);
  engine::ExprId addKnown(engine::ExprId left, engine::ExprId right);
  engine::ExprId flopsOf(tn::RegionOp region);
  void addBytes(engine::Instruction &instruction);
  void addPieces(engine::Instruction &move);
  void addFlops(std::vector<engine::Instruction> &instructions);
  void addWork(std::vector<engine::Instruction> &instructions);
  std::vector<engine::Variant> makeVariants();
  llvm::StringRef portName(mlir::DictionaryAttr attributes) const;

  const PlanRequest &request;
  mlir::ModuleOp module;
  mlir::func::FuncOp function;
  mlir::Block *block;
  WeightTable &weights;
  llvm::SmallVector<tn::State> states;
  RegionStages regionStages;
  engine::Plan plan;
  SizeTranslator sizes;
  PlanNotes notes;
  llvm::SmallVector<tn::RegionOp> order;
  llvm::DenseMap<mlir::Value, uint32_t> buffers;
  llvm::DenseMap<uint32_t, uint32_t> constBuffers;
  /// The position in the order of the last region that reads a storage.
  llvm::DenseMap<mlir::Value, int64_t> lastRead;
  /// Where an instruction comes from: a step of a region, whose symbols have these values.
  struct StepOrigin {
    size_t region;
    size_t step;
    std::vector<engine::ExprId> symbols;
  };
  /// By instruction, up to the copies at the end.
  std::vector<StepOrigin> origins;
  /// The model result that a storage is written to at once.
  llvm::DenseMap<mlir::Value, size_t> claimed;
  llvm::DenseMap<size_t, uint32_t> outputBuffers;
};

} // namespace tenon::plan
