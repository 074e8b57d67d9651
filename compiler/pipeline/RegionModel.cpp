// Relies on what a region reads being stored (weights, constants, packs of them) or computed.
#include "compiler/pipeline/RegionModel.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/plan/BuildPlan.h"
#include "engine/Writer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tenon::pipeline {
namespace {

bool isStored(Value value) {
  return isa_and_nonnull<tn::WeightOp, tn::ConstantOp, tn::PackOp>(value.getDefiningOp());
}

/// Clones what holds a stored value into another function.
Value cloneStored(OpBuilder &builder, Value value, IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value)) {
    return known;
  }
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands()) {
    cloneStored(builder, operand, mapping);
  }
  builder.clone(*op, mapping);
  return mapping.lookup(value);
}

} // namespace

OwningOpRef<ModuleOp> modelOf(tn::RegionOp region) {
  MLIRContext *context = region.getContext();
  OpBuilder builder(context);
  Location location = region.getLoc();
  OwningOpRef<ModuleOp> model = ModuleOp::create(location);
  for (StringRef name : {codegen::kAllowTf32, tn::kInvariant}) {
    if (Attribute attribute = region->getParentOfType<ModuleOp>()->getAttr(name)) {
      (*model)->setAttr(name, attribute);
    }
  }
  llvm::SetVector<Value> inputs;
  for (Value operand : region.getInputs()) {
    if (!isStored(operand)) {
      inputs.insert(operand);
    }
  }
  builder.setInsertionPointToEnd(model->getBody());
  FunctionType type =
      builder.getFunctionType(ValueRange(inputs.getArrayRef()).getTypes(), region.getResultTypes());
  func::FuncOp function = func::FuncOp::create(builder, location, "main", type);
  for (unsigned i = 0; i < type.getNumInputs(); ++i) {
    function.setArgAttr(i, "tn.name", builder.getStringAttr("in" + Twine(i)));
  }
  for (unsigned i = 0; i < type.getNumResults(); ++i) {
    function.setResultAttr(i, "tn.name", builder.getStringAttr("out" + Twine(i)));
  }
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  IRMapping mapping;
  mapping.map(inputs.getArrayRef(), entry->getArguments());
  for (Value operand : region.getInputs()) {
    if (isStored(operand)) {
      cloneStored(builder, operand, mapping);
    }
  }
  Operation *copy = builder.clone(*region, mapping);
  func::ReturnOp::create(builder, location, copy->getResults());
  return model;
}

tn::RegionOp regionOf(ModuleOp model) {
  func::FuncOp function = *model.getOps<func::FuncOp>().begin();
  return *function.getOps<tn::RegionOp>().begin();
}

void setKernel(ModuleOp model, const dispatch::KernelCandidate &candidate) {
  tn::RegionOp region = regionOf(model);
  region->setAttr(codegen::kKernelAttribute, candidate.kernel.toAttribute(model.getContext()));
  if (candidate.weight) {
    dispatch::layOutWeight(region, *candidate.weight);
  }
  dispatch::clearPackable(model);
}

Result<uint64_t> writeRegionEngine(ModuleOp model, const CompiledRegions &compiled,
                                   const std::string &name, tn::WeightStore &weights,
                                   const CompileOptions &options, const std::string &path) {
  plan::WeightTable table(weights);
  plan::PlanRequest planRequest{
      model, compiled.regionSymbols, compiled.levels,
      static_cast<uint16_t>(options.gpus.empty() ? engine::kHost : engine::kGpu)};
  TENON_ASSIGN(plan::BuiltPlan built, plan::buildPlan(planRequest, table));
  engine::EngineContent content;
  content.weights = table.list();
  llvm::StringRef code = compiled.code.front();
  content.variants.push_back(
      {built.variants.front(), std::as_bytes(std::span(code.data(), code.size()))});
  content.variants.back().cubin = compiled.cubin;
  content.provenance.compiler = name;
  TENON_ASSIGN(engine::EngineFileSize size,
               engine::writeEngine(path, content, table.source(options.threads)));
  return size.fileBytes;
}

} // namespace tenon::pipeline
